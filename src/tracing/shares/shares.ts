// Links that show a run, and the runs below it, to anyone who has them.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run, runAsSystem } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, createKeylessCaller, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { Feedback } from '../feedback/feedback.schema.ts'
import { findFeedback } from '../feedback/feedback.ts'
import { RUN_PAYLOAD_BYTES } from '../runs/object-links.ts'
import { columnsOf, FULL_SELECT } from '../runs/run-wire.ts'
import type * as runSchema from '../runs/runs.schema.ts'
import { showRuns } from '../runs/runs.ts'
import type { NewTraceShare } from '../runs/runs-v2.schema.ts'
import type { DetailColumn, StoredRun } from '../store/queries.ts'
import { inThread } from '../threads/threads.ts'
import type * as schema from './shares.schema.ts'

type RunParams = z.output<typeof runSchema.RunRef>
type ShareRow = { id: string; share_token: string | null }

const isShareOf = (id: string) => sql`tenant_id = current_tenant() and run_id = ${id}::uuid`

export const shareRun = verb(
  'runs:share',
  (ctx, input: RunParams & z.output<typeof schema.NewRunShare>): Promise<schema.RunShare> => createShare(ctx, input),
)

/** A run `of` the same project and trace, by default itself, is the one that access policies have admitted. */
async function createShare(
  ctx: Ctx,
  { run_id, share_token, of = run_id }: RunParams & z.output<typeof schema.NewRunShare> & { of?: string },
): Promise<schema.RunShare> {
  const runs = await ctx.traces.findRuns(ctx, [run_id, of])
  const existing = sql`
        select r.id, r.session_id, r.trace_id
        from ${runs} r
        join projects p on p.tenant_id = current_tenant() and p.id = r.session_id
        join ${runs} c on c.tenant_id = current_tenant() and c.session_id = r.session_id and c.trace_id = r.trace_id
        where r.tenant_id = current_tenant() and r.id = ${run_id}::uuid and r.name is not null and c.id = ${of}::uuid
        limit 1`
  const added = sql`added as (
        insert into run_shares (share_token, organization_id, tenant_id, session_id, run_id, trace_id)
        select coalesce(${share_token ?? null}::uuid, gen_random_uuid()), current_organization(), current_tenant(),
          r.session_id, r.id, r.trace_id
        from (${existing}) r
        on conflict do nothing
        returning run_id, share_token
      )`
  const change = sql<ShareRow>`
        select run_id as id, share_token, true as is_new from added
        union all
        select run_id, share_token, false
        from run_shares
        where ${isShareOf(run_id)} and exists (${existing})
        union all
        select id, null, false
        from (${existing}) r
        where not exists (select from added) and not exists (select from run_shares where ${isShareOf(run_id)})`
  const event = sql`case when changed.is_new then 'run.shared' end`
  const rows = await commit(ctx, event, change, {}, { ctesBefore: [added] })
  const row = requireRow(rows, 'run_not_found')
  if (row.share_token === null) throw fail('share_token_taken')
  return { run_id, share_token: row.share_token }
}

/** The link of a trace is that of its root. */
export const shareTrace = verb(
  'runs:share',
  async (ctx, { run_id, trace_id }: RunParams & z.output<typeof NewTraceShare>): Promise<{ share_token: string }> => {
    const { share_token } = await createShare(ctx, { run_id: trace_id, of: run_id })
    return { share_token }
  },
)

export const unshareRun = verb('runs:share', async (ctx, { run_id }: RunParams): Promise<void> => {
  const runs = await ctx.traces.findRuns(ctx, [run_id])
  const deleted = sql`deleted as (delete from run_shares where ${isShareOf(run_id)} returning run_id)`
  const change = sql`
        select r.id, exists (select from deleted) as was_shared
        from ${runs} r
        join projects p on p.tenant_id = current_tenant() and p.id = r.session_id
        where r.tenant_id = current_tenant() and r.id = ${run_id}::uuid
        limit 1`
  const event = sql`case when changed.was_shared then 'run.unshared' end`
  requireRow(await commit(ctx, event, change, {}, { ctesBefore: [deleted] }), 'run_not_found')
})

export const readRunShare = verb('runs:read', async (ctx, { run_id }: RunParams): Promise<schema.RunShare | null> => {
  const share_token = await findShare(ctx, run_id)
  return share_token === null ? null : { run_id, share_token }
})

/** Fails if there is no such run. */
async function findShare(ctx: Ctx, id: string): Promise<string | null> {
  const runs = await ctx.traces.findRuns(ctx, [id])
  const found = sql<Row>`
    select s.share_token
    from ${runs} r
    join projects p on p.tenant_id = current_tenant() and p.id = r.session_id
    left join run_shares s on s.tenant_id = current_tenant() and s.run_id = r.id
    where r.tenant_id = current_tenant() and r.id = ${id}::uuid
    limit 1`
  return requireRow(await run(ctx, found), 'run_not_found')[0] as string | null
}

/** A request without a key. */
export type Visit = { services: Services; share_token: string; requestId: string; origin: string }
/** The thread, or the run with those below it. A link is of one project: other runs of its trace are not shown. */
type OpenShare = { ctx: Ctx; projects: [string] } & ({ thread: string } | { run_id: string; trace_id: string })

async function openShare({ services, share_token, requestId, origin }: Visit): Promise<OpenShare> {
  const [found] = await runAsSystem(
    services.database,
    sql<Row>`
      select p.organization_id, s.tenant_id, s.session_id, s.thread_id, s.run_id, s.trace_id
      from (
        select tenant_id, session_id, null as thread_id, run_id, trace_id
        from run_shares
        where share_token = ${share_token}::uuid
        union all
        select tenant_id, session_id, thread_id, null, null
        from thread_shares
        where share_token = ${share_token}::uuid
      ) s
      join projects p on p.tenant_id = s.tenant_id and p.id = s.session_id`,
  )
  const [organization, tenant, project, thread, run_id, trace_id] = requireRow(found as Row[], 'run_share_not_found')
  const actor = { kind: 'visitor', id: null, organization: organization as string, tenant: tenant as string } as const
  const ctx: Ctx = { ...createKeylessCaller(services, actor, requestId, origin), permission: 'runs:read' }
  const place = { ctx, projects: [project as string] as [string] }
  return thread === null
    ? { ...place, run_id: run_id as string, trace_id: trace_id as string }
    : { ...place, thread: thread as string }
}

const MAX_SHOWN_RUNS = 1000
type Shown = { ctx: Ctx; runs: StoredRun[] }
/** Ids of runs, or the first one: the shared run, or the first trace of the thread. */
type Wanted = string[] | 'first' | 'all'

/** Runs that the link shows, in their order. All of a thread are the roots of its traces. */
export async function listSharedRuns(visit: Visit, columns: DetailColumn[], wanted: Wanted = 'all'): Promise<Shown> {
  const { ctx, projects, ...shared } = await openShare(visit)
  const limit = wanted === 'first' ? 1 : MAX_SHOWN_RUNS
  const query = { projects, order: 'asc' as const, limit, columns }
  if ('thread' in shared) {
    const ofThread = inThread(shared.thread)
    const selection =
      typeof wanted === 'string' ? { is_root: true, filter: ofThread } : { ids: wanted, trace_filter: ofThread }
    return { ctx, runs: (await ctx.traces.query(ctx, { ...query, ...selection })).runs }
  }
  const { run_id, trace_id } = shared
  const ids = wanted === 'first' ? [run_id] : wanted
  const { runs } = await ctx.traces.query(ctx, {
    ...query,
    ...(ids === 'all' ? { trace: trace_id } : { ids: [run_id, ...ids] }),
  })
  const shown = selectShown(runs, run_id)
  return { ctx, runs: ids === 'all' ? shown : shown.filter(({ id }) => ids.includes(id)) }
}

/** Selects the shared run and those below it. */
function selectShown(runs: StoredRun[], shared: string): StoredRun[] {
  const root = runs.find(({ id }) => id === shared)
  if (!root) throw fail('run_share_not_found')
  return runs.filter(({ dotted_order }) => `${dotted_order}.`.startsWith(`${root.dotted_order}.`))
}

export async function readSharedRuns(visit: Visit, wanted: string[] | 'first'): Promise<runSchema.Run[]> {
  const { ctx, runs } = await listSharedRuns(visit, columnsOf(FULL_SELECT), wanted)
  return showRuns(ctx, runs, FULL_SELECT, RUN_PAYLOAD_BYTES)
}

/** Lists the feedback of the runs that the link shows, without who gave it. */
export async function listSharedFeedback(
  visit: Visit,
  query: z.output<typeof schema.SharedFeedbackQuery>,
): Promise<Feedback[]> {
  const { ctx, runs } = await listSharedRuns(visit, [])
  const shown = runs.map(({ id }) => id).filter(id => query.run === undefined || query.run.includes(id))
  const found = await findFeedback(ctx, { ...query, run: shown, include_user_names: false })
  return found.map(({ feedback_source, ...feedback }) => ({
    ...feedback,
    feedback_source: { ...feedback_source, user_id: null },
  }))
}
