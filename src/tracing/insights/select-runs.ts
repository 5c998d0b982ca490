// The first step of a job: which runs it is about. A sample depends on nothing but the ids, so a repeat takes the same.
import { sql } from 'drizzle-orm'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { RUN_FIELDS } from '../runs/filter/fields.ts'
import { readFilters } from '../runs/filter/resolve.ts'
import type { RunCursor } from '../store/queries.ts'
import { type ClaimedJob, writeUnderLease } from './claimed-job.ts'

const MAX_RUNS = 1000
/** The newest of those that match. */
const MAX_CANDIDATES = 20_000
const PAGE = 1000

export async function selectRuns(ctx: Ctx, job: ClaimedJob): Promise<'more'> {
  const candidates = await listCandidates(ctx, job)
  const ids = takeSample(job.id, candidates, job.request.sample ?? null)
  const insert = sql`selected as (
      insert into insight_runs (organization_id, tenant_id, job_id, run_id, place)
      select j.organization_id, j.tenant_id, j.id, r.id, r.place
      from job j
      cross join unnest(${sql.param(ids)}::uuid[]) with ordinality r(id, place)
    )`
  await writeUnderLease(ctx, job, [insert], [sql`num_runs = ${ids.length}::integer`])
  job.num_runs = ids.length
  return 'more'
}

/** Ids of roots that have ended, the newest first. */
async function listCandidates(ctx: Ctx, job: ClaimedJob): Promise<string[]> {
  const { filter } = readFilters({ filter: job.request.filter }, RUN_FIELDS)
  const found: string[] = []
  let cursor: RunCursor | null = null
  do {
    const page = await ctx.traces.query(ctx, {
      projects: [job.session_id],
      is_root: true,
      start_time: job.start_time ?? undefined,
      end_time: job.end_time ?? undefined,
      filter,
      order: 'desc',
      limit: PAGE,
      cursor: cursor ?? undefined,
      columns: [],
    })
    found.push(...page.runs.filter(({ status }) => status !== 'pending').map(({ id }) => id))
    cursor = page.next
  } while (cursor && found.length < MAX_CANDIDATES)
  return found
}

/** A sample up to 1 is a part of the runs, above it their number. The order of the runs stays. */
export function takeSample(jobId: string, ids: string[], sample: number | null): string[] {
  const wanted = sample === null ? MAX_RUNS : sample <= 1 ? Math.ceil(sample * ids.length) : sample
  const count = Math.min(MAX_RUNS, wanted)
  if (ids.length <= count) return ids
  const rankOf = new Map(ids.map(id => [id, sha256Hex(`${jobId} ${id}`)]))
  const ranked = ids.toSorted((a, b) => (rankOf.get(a)! < rankOf.get(b)! ? -1 : 1))
  const taken = new Set(ranked.slice(0, count))
  return ids.filter(id => taken.has(id))
}
