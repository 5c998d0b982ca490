// R9: R8 without the tenant predicates of the statements, so that only row-level security protects; and what a
// statement sees without a tenant.
import pg from 'pg'
import { stripFunctions } from '../../support/stripped-functions.ts'
import { findTenantPredicate, stripTenantPredicates } from '../../support/tenant-predicates.ts'
import { openTestbed, type Trial, type TrialContext } from '../support/testbed.ts'
import { BRIEF_STREAMS, measureSwappedIds } from './swapped-ids.ts'

export default {
  id: 'R9',
  what: 'the same without tenant predicates: row-level security alone',
  target: '0 rows of another tenant; 0 rows without a tenant',
  async run(context: TrialContext) {
    const remaining = new Set<string>()
    let rewritten = 0
    const rewrite = (sql: string) => {
      const stripped = stripTenantPredicates(sql)
      if (stripped !== sql) rewritten++
      if (findTenantPredicate(stripped)) remaining.add(stripped)
      return stripped
    }
    const testbed = await openTestbed(context, { rewrite, overrides: { liveStreams: BRIEF_STREAMS } })
    const functions = await stripFunctions(testbed.url)
    for (const name of functions.left) remaining.add(`${name}()`)
    const outcome = await measureSwappedIds(context, testbed)
    const visible = await countVisibleRows(testbed.url)
    return {
      ...outcome,
      measured: `${outcome.measured}; ${visible} rows without a tenant`,
      met: outcome.met && visible === 0 && remaining.size === 0 && rewritten > 0 && functions.names.length > 0,
      notes: [
        ...outcome.notes,
        `${rewritten} statements and ${functions.names.length} functions rewritten`,
        `${remaining.size} still with a predicate`,
        ...remaining,
      ],
    }
  },
} satisfies Trial

/** Rows of tenants that the app's role sees before enter_by_key() has set a tenant. */
async function countVisibleRows(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query(`select table_name from information_schema.columns
      where table_schema = 'public' and column_name in ('tenant_id', 'scope_id')
        and has_table_privilege('slipway_app', format('%I.%I', table_schema, table_name), 'select')
      group by 1`)
    await client.query('set role slipway_app')
    let visible = 0
    for (const { table_name } of rows) {
      const { rows: counts } = await client.query(
        `select count(*)::int as n from ${client.escapeIdentifier(table_name)}`,
      )
      visible += counts[0].n
    }
    return visible
  } finally {
    await client.end()
  }
}
