// Looks at rules about traces: each by one question to the store of traces, under a lease.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { type Ctx, createKeylessCaller } from '../../kernel/http/context.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { ConditionOf } from '../../protocol/alerts.schema.ts'
import { RUN_FIELDS } from '../../tracing/runs/filter/fields.ts'
import { readFilters } from '../../tracing/runs/filter/resolve.ts'
import type { RunTotals, Statistic } from '../../tracing/store/queries.ts'
import type { Sample } from './decide.ts'
import { decideOn, readWatched, writeDecisions } from './look.ts'
import { pairOf, type Watched } from './samples.ts'

const MAX_RULES = 50
/** The next look at a project with traces, and the longest wait for one without. */
const LOOK_S = 10
const MAX_WAIT_S = 60

/** The lease is the next look: another instance does not take the rule before that. */
const claimRules = sql<Row>`
  update alert_rules r
  set next_look_at = clock() + ${LOOK_S} * interval '1 second'
  from (
    select a.id
    from alert_rules a
    where a.enabled and a.next_look_at <= clock()
    order by a.next_look_at
    limit ${MAX_RULES}
    for update skip locked
  ) due
  where r.id = due.id
  returning r.id, r.project_id`

const STATISTICS: Record<Exclude<ConditionOf<'trace'>['metric'], 'feedback'>, Statistic & keyof RunTotals> = {
  error_rate: 'error_rate',
  latency_p50: 'latency_p50',
  latency_p99: 'latency_p99',
  cost: 'total_cost',
  traces: 'run_count',
}

const actAs = (services: Services, { id, organization_id, tenant_id, name }: Watched['rule']): Ctx => ({
  ...createKeylessCaller(
    services,
    { kind: 'cron', id, name, organization: organization_id, tenant: tenant_id },
    `alert-${id}`,
    configuredOrigin(services.config),
  ),
  permission: null,
})

async function readTraceSample(services: Services, watched: Watched, at: number): Promise<Sample> {
  const condition = watched.rule.condition as ConditionOf<'trace'>
  const { metric, feedback_key, filter, window_seconds, min_traces, project_id } = condition
  const ctx = actAs(services, watched.rule)
  const { groups } = await ctx.traces.stats(ctx, {
    projects: [project_id],
    is_root: true,
    start_time: new Date(at - window_seconds * 1000).toISOString(),
    ...readFilters({ filter }, RUN_FIELDS),
    statistics: ['run_count', metric === 'feedback' ? 'feedback_stats' : STATISTICS[metric]],
  })
  const totals = groups[0]?.totals ?? {}
  const count = totals.run_count ?? 0
  const value =
    metric === 'feedback'
      ? (totals.feedback_stats?.[feedback_key!]?.avg ?? null)
      : ((totals[STATISTICS[metric]] as number | null | undefined) ?? null)
  // Without traces there is no rate and no latency, but there is a number of traces, and a cost of nothing.
  const known = count === 0 && metric !== 'traces' && metric !== 'cost' ? null : (value ?? 0)
  return { at, value: metric === 'feedback' ? value : known, isEnough: count >= min_traces }
}

export async function lookAtTraces(services: Services): Promise<void> {
  const { database, platform } = services
  const [, rows] = await runAsSystem(database, setClock(platform), claimRules)
  for (const [rule, project] of rows as [string, string][]) {
    if (platform.stopping?.aborted) return
    try {
      const [watched] = await readWatched(services, pairOf(rule, project))
      if (!watched) continue
      const at = platform.clock.now()
      const sample = await readTraceSample(services, watched, at)
      await writeDecisions(services, [decideOn(watched, sample)])
      if (sample.value === null && watched.state === null) await waitLonger(services, rule)
    } catch (error) {
      platform.log({ level: 'warn', alert_rule: rule, error: 'traces not looked at', message: String(error) })
      await waitLonger(services, rule)
    }
  }
}

/** A project without traces is looked at once a minute. */
const waitLonger = ({ database, platform }: Services, rule: string) =>
  runAsSystem(
    database,
    setClock(platform),
    sql`update alert_rules set next_look_at = clock() + ${MAX_WAIT_S} * interval '1 second' where id = ${rule}::uuid`,
  )
