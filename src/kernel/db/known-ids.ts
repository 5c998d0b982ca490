// Refuses ids in a body that the caller's workspace does not have.
import { type SQL, sql } from 'drizzle-orm'
import { uuidArray } from './db.ts'

/** For a where clause. `table` has the columns `id` and `tenant_id`. */
export const hasOnlyKnownIds = (code: string, table: SQL, ids: readonly string[], condition: SQL = sql`true`): SQL => {
  const unknown = sql`(
    select string_agg(given.id::text, ', ')
    from unnest(${uuidArray(ids)}) given(id)
    where not exists (
      select from ${table} k
      where k.id = given.id and k.tenant_id = current_tenant() and ${condition}
    ))`
  return sql`case when ${unknown} is null then true else refuse(${code}, ${unknown}) end`
}
