// Reads the stored previews that a comparison needs: those of what the host lists, and a few of what it does not. A
// deployment can have any number of them, so they are never read all at once.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem, textArray } from '../../kernel/db/db.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { PreviewRow } from '../previews/preview-deployment.ts'

export type KnownPreview = Pick<
  PreviewRow,
  'kind' | 'number' | 'branch' | 'fork' | 'state' | 'head_sha' | 'changed_at' | 'end_reason'
>

async function select({ database }: Services, parent_id: string, condition: SQL): Promise<KnownPreview[]> {
  const query = sql<Row>`
    select coalesce(json_agg(t order by t.number, t.branch), '[]')::text
    from (
      select v.kind, v.number, v.branch, v.fork, v.state, v.head_sha, v.changed_at, v.end_reason
      from previews v
      where v.parent_id = ${parent_id}::uuid and ${condition}) t`
  const [[row]] = (await runAsSystem(database, query)) as [Row[]]
  return JSON.parse(row![0] as string) as KnownPreview[]
}

const numberArray = (numbers: number[]): SQL => sql`${textArray(numbers.map(String))}::integer[]`

export const findPulls = (services: Services, parent_id: string, numbers: number[]): Promise<KnownPreview[]> =>
  select(services, parent_id, sql`v.number = any(${numberArray(numbers)})`)

/** Some by chance of the living ones with another number, so that each has its turn. */
export const findUnlistedPulls = (services: Services, parent_id: string, numbers: number[], limit: number) =>
  select(
    services,
    parent_id,
    sql`v.id in (
      select o.id
      from previews o
      where o.parent_id = ${parent_id}::uuid
        and o.number is not null
        and o.state <> 'ended'
        and not (o.number = any(${numberArray(numbers)}))
      order by random()
      limit ${limit})`,
  )

/** The previews of these branches, and of their pull requests. */
export const findOfBranches = (services: Services, parent_id: string, branches: string[]): Promise<KnownPreview[]> =>
  select(services, parent_id, sql`v.branch = any(${textArray(branches)}) and not v.fork`)

/** Some by chance of the living ones of other branches. */
export const findUnlistedBranches = (services: Services, parent_id: string, branches: string[], limit: number) =>
  select(
    services,
    parent_id,
    sql`v.id in (
      select o.id
      from previews o
      left join unnest(${textArray(branches)}) listed(branch) on listed.branch = o.branch
      where o.parent_id = ${parent_id}::uuid
        and o.kind = 'branch'
        and o.state <> 'ended'
        and listed.branch is null
      order by random()
      limit ${limit})`,
  )
