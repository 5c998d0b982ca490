// Applies the rules to the runs that have ended. A rule is evaluated by one worker at a time, a page of runs at once.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, run, runAsSystem, uuidArray } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { workInTurns } from '../../kernel/db/worker-pool.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { RUN_FIELDS } from '../runs/filter/fields.ts'
import { readFilters } from '../runs/filter/resolve.ts'
import type { RunQuery, StoredRun } from '../store/queries.ts'
import { applyRule } from './apply.ts'
import { actAsRule, type ClaimedRule, claimRule, releaseRule } from './claimed-rule.ts'
import { runEvaluations } from './evaluations.ts'
import { readFinishedRuns } from './finished-runs.ts'
import { sendRuleWebhooks } from './rule-messages.ts'
import { isSampled } from './sampling.ts'

const MAX_RULES = 500
const MAX_CONCURRENT = 8
/** The time of a sweep. */
const WORK_MS = 20_000
const MIN_SHARE_MS = 1000
const PAGE = 100

/** The rules with runs to look at: of each workspace the one that waits longest, then the second of each. */
const listDue = (condition: SQL): SQL<Row> => sql<Row>`
  select r.id, r.tenant_id
  from run_rules r
  where r.is_enabled
    and r.next_evaluation_at <= clock()
    and ${condition}
    and (
      r.backfill_status in ('waiting', 'running')
      or exists (
        select from finished_runs f
        where f.tenant_id = r.tenant_id and f.session_id = r.session_id and f.id > r.position
      )
      or exists (
        select from projects p
        join finished_runs f on f.tenant_id = p.tenant_id and f.session_id = p.id and f.id > r.position
        where p.reference_dataset_id = r.dataset_id and p.tenant_id = r.tenant_id
      )
    )
  order by row_number() over (partition by r.tenant_id order by r.next_evaluation_at), r.next_evaluation_at
  limit ${MAX_RULES}`

/** The condition is on rules `r`. */
export async function evaluateAndSend(services: Services, condition: SQL): Promise<void> {
  const raisedIn = await evaluateRules(services, condition)
  // Models are slow, and nothing waits for them.
  await Promise.all([
    ...[...raisedIn].map(tenant => services.deliverEvents?.(tenant)),
    sendRuleWebhooks(services, condition),
    runEvaluations(services, condition),
  ])
}

/** Returns the workspaces in which an alert was raised. */
async function evaluateRules(services: Services, condition: SQL): Promise<Set<string>> {
  const { platform, database } = services
  const raisedIn = new Set<string>()
  const [, rows] = (await runAsSystem(database, setClock(platform), listDue(condition))) as [
    unknown,
    [string, string][],
  ]
  const due = rows.map(([id, workspace]) => ({ id, workspace }))
  // A rule with many runs does not take the time of the others.
  const share = Math.max(MIN_SHARE_MS, (WORK_MS * MAX_CONCURRENT) / Math.max(MAX_CONCURRENT, due.length))
  await workInTurns(due, {
    maxConcurrent: MAX_CONCURRENT,
    stopping: platform.stopping,
    work: async ({ id, workspace }) => {
      if (await evaluateRule(services, id, Date.now() + share)) raisedIn.add(workspace)
    },
  })
  return raisedIn
}

/** True if an alert was raised. */
async function evaluateRule(services: Services, id: string, deadline: number): Promise<boolean> {
  const rule = await claimRule(services, id)
  if (!rule) return false
  const ctx = actAsRule(services, rule)
  try {
    const hasTime = () => Date.now() < deadline && !services.platform.stopping?.aborted
    while (hasTime() && (await evaluatePage(ctx, rule)));
    while (hasTime() && (await backfillPage(ctx, rule)));
    await releaseRule(services, rule)
  } catch (error) {
    services.platform.log({ level: 'warn', rule: id, error: 'rule not evaluated', message: String(error) })
  }
  return rule.hasRaised === true
}

type Filters = { [Name in 'filter' | 'trace_filter' | 'tree_filter']?: string | null | undefined }
export const queryOf = ({ filter, trace_filter, tree_filter }: Filters): Omit<RunQuery, 'limit'> => ({
  ...readFilters({ filter, trace_filter, tree_filter }, RUN_FIELDS),
  order: 'asc',
  columns: ['end_time', 'error', 'thread_id'],
})

/** False once no runs wait. */
async function evaluatePage(ctx: Ctx, rule: ClaimedRule): Promise<boolean> {
  const page = await readFinishedRuns(ctx, rule, PAGE)
  if (page.length === 0) return false
  rule.position = page.at(-1)!.id
  const isTaken = ({ is_applied, trace_id }: (typeof page)[0]) =>
    !is_applied && isSampled(rule.id, trace_id, rule.sampling_rate)
  const ids = [...new Set(page.filter(isTaken).map(({ run_id }) => run_id))]
  const { runs } = ids.length > 0 ? await ctx.traces.query(ctx, { ...queryOf(rule), ids, limit: PAGE }) : { runs: [] }
  const progress = sql`position = greatest(position, ${rule.position}::bigint)`
  return (await applyRule(ctx, rule, runs.filter(isOver), progress, false)) && page.length === PAGE
}

/** Runs that end later are in `finished_runs`. */
export const isOver = ({ end_time, error }: StoredRun): boolean => end_time != null || error != null

/** False once all runs of that time have been looked at. */
async function backfillPage(ctx: Ctx, rule: ClaimedRule): Promise<boolean> {
  if (rule.backfill_status !== 'waiting' && rule.backfill_status !== 'running') return false
  const projects = rule.session_id ? [rule.session_id] : await readExperiments(ctx, rule.dataset_id!)
  const { runs, next } =
    projects.length === 0
      ? { runs: [], next: null }
      : await ctx.traces.query(ctx, {
          ...queryOf(rule),
          projects,
          start_time: rule.backfill_from!,
          end_time: rule.backfill_until!,
          cursor: rule.backfill_cursor ?? undefined,
          limit: PAGE,
        })
  const isTaken = (one: StoredRun) => isOver(one) && isSampled(rule.id, one.trace_id, rule.sampling_rate)
  const taken = await withoutApplied(ctx, rule, runs.filter(isTaken))
  rule.backfill_status = next ? 'running' : 'completed'
  rule.backfill_cursor = next ?? rule.backfill_cursor
  const progress = sql`
      backfill_status = ${rule.backfill_status},
      backfill_cursor = ${rule.backfill_cursor && JSON.stringify(rule.backfill_cursor)}::json,
      backfill_completed_at = ${next ? sql`null` : sql`clock()`}`
  return (await applyRule(ctx, rule, taken, progress, true)) && next !== null
}

export async function readExperiments(ctx: Ctx, dataset_id: string): Promise<string[]> {
  const experiments = sql<Row>`
    select p.id
    from projects p
    where p.reference_dataset_id = ${dataset_id}::uuid and p.tenant_id = current_tenant()`
  return (await run(ctx, experiments)).map(([id]) => id as string)
}

async function withoutApplied(ctx: Ctx, rule: ClaimedRule, runs: StoredRun[]): Promise<StoredRun[]> {
  if (runs.length === 0) return []
  const applied = sql<Row>`
    select a.run_id
    from rule_applications a
    where a.rule_id = ${rule.id}::uuid
      and a.tenant_id = current_tenant()
      and a.run_id = any(${uuidArray(runs.map(({ id }) => id))})`
  const known = new Set((await run(ctx, applied)).map(([id]) => id))
  return runs.filter(({ id }) => !known.has(id))
}
