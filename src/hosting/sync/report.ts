// Applies the reports of an agent: each is checked against what is wanted now, and moves revisions through their queue.
import { sql } from 'drizzle-orm'
import { type Row, run } from '../../kernel/db/db.ts'
import { agentDailyLimit, announceEvents } from '../../kernel/db/journal.ts'
import { verb } from '../../kernel/http/context.ts'
import {
  type ReportResult,
  type ReportResults,
  type Reports,
  type reportCodes,
  reportOutcomes,
} from '../../protocol/report.schema.ts'
import { UNUSED_AFTER } from '../deployments/lifecycle.ts'

type ReportCode = (typeof reportCodes)[number]
/** The wanted state has changed, and the next poll has it. A report with any other code never becomes valid. */
const STALE_CODES: ReportCode[] = ['revision_ended', 'generation_passed']

type ResultRow = [
  deployment_id: string,
  revision_id: string | null,
  code: ReportCode | null,
  generation: string | null,
  hookedTenant: string | null,
]

export const report = verb('listeners:sync', async (ctx, { agent_id, fence, reports }: Reports) => {
  const applyReports = sql<Row>`
    select deployment_id, revision_id, code, generation, hooked_tenant
    from apply_reports(
      ${agent_id},
      ${fence},
      ${JSON.stringify(reports)},
      ${agentDailyLimit(ctx)},
      ${UNUSED_AFTER} * interval '1 millisecond'
    )`
  const results = (await run(ctx, applyReports)) as ResultRow[]
  for (const tenant of new Set(results.map(([, , , , tenant]) => tenant))) announceEvents(ctx, tenant)
  if (reports.some(hasHealth) && ctx.lookAtAlerts) ctx.waitUntil?.(ctx.lookAtAlerts())
  const moved = results.flatMap(([deployment_id, revision_id, code]) => (revision_id && !code ? [deployment_id] : []))
  if (moved.length > 0 && ctx.notifyGitHosts) ctx.waitUntil?.(ctx.notifyGitHosts([...new Set(moved)]))
  const passed = reports.flatMap(({ deployment_id, traffic }) =>
    traffic?.rollout?.outcome === 'passed' && moved.includes(deployment_id) ? [deployment_id] : [],
  )
  if (passed.length > 0)
    ctx.waitUntil?.(import('../rollouts/sweep.ts').then(sweep => sweep.lookAtRollouts(ctx, passed)))
  return { results: results.map(toResult) } satisfies ReportResults
})

/** Alerts look at it at once. */
const hasHealth = ({ health, healthy, incidents }: Reports['reports'][number]): boolean =>
  health != null || healthy != null || (incidents?.length ?? 0) > 0

function toResult([deployment_id, revision_id, code, generation]: ResultRow): ReportResult {
  const [accepted, stale, refused] = reportOutcomes
  const outcome = code === null ? accepted : STALE_CODES.includes(code) ? stale : refused
  return { deployment_id, revision_id, outcome, code, generation: generation === null ? null : Number(generation) }
}
