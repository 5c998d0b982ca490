// Judges what an agent cannot: the scores of traces, and the answer of a webhook. A rollout is looked at by one worker
// at a time.
import { type SQL, sql } from 'drizzle-orm'
import { derivedUuid } from '../../kernel/crypto/digest.ts'
import { type Row, runAsSystem, uuidArray } from '../../kernel/db/db.ts'
import { announceEvents, setClock, setSystemSettings } from '../../kernel/db/journal.ts'
import { workInTurns } from '../../kernel/db/worker-pool.ts'
import { type Ctx, createKeylessCaller } from '../../kernel/http/context.ts'
import { createGuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { GateJudgement, ReportedRollout, ScoresGate, StoredProgress } from '../../protocol/rollout.schema.ts'
import { judgeScores, type Scores } from '../../protocol/rollout-gates.ts'
import { describeFailure } from '../../protocol/rollout-step.ts'
import { messageHeaders, signBySecret } from '../../protocol/webhook-signing.ts'
import { ROLLOUT_SEAL_CONTEXT } from './rollouts.ts'

const MAX_ROLLOUTS = 500
const MAX_CONCURRENT = 8
const ASK_LIMITS = { fetchMs: 10_000, totalMs: 10_000, fetches: 1, bytes: 64 * 1024 }

/** The answer of claim_rollout() of the database. */
type Claimed = {
  deployment_id: string
  organization_id: string
  tenant_id: string
  name: string
  project_id: string | null
  revision_id: string
  serving_id: string
  number: number
  share: number
  progress: StoredProgress
  judged: ReportedRollout | null
  /** The policy has the same address as when the rollout began. `secret` is for that address alone. */
  is_webhook_kept: boolean
  secret: string | null
  /** The keys whose lower scores are better. */
  lower_keys: string[]
}

/** The one of each workspace that waits longest, then the second of each. */
const listDue = (condition: SQL): SQL<Row> => sql<Row>`
  select d.id, d.tenant_id
  from deployments d
  where d.rollout_due_at <= clock() and ${condition}
  order by row_number() over (partition by d.tenant_id order by d.rollout_due_at), d.rollout_due_at
  limit ${MAX_ROLLOUTS}`

export const sweepRollouts = (services: Services): Promise<void> => lookAtDue(services, sql`true`)

/** For deployments whose agent has just reported that a step is passed. */
export const lookAtRollouts = (services: Services, deployments: string[]): Promise<void> =>
  lookAtDue(services, sql`d.id = any(${uuidArray(deployments)})`)

async function lookAtDue(services: Services, condition: SQL): Promise<void> {
  const { platform, database } = services
  const [, rows] = (await runAsSystem(database, setClock(platform), listDue(condition))) as [
    unknown,
    [string, string][],
  ]
  await workInTurns(
    rows.map(([id, workspace]) => ({ id, workspace })),
    { maxConcurrent: MAX_CONCURRENT, stopping: platform.stopping, work: ({ id }) => lookAt(services, id) },
  )
}

/** The lease stays after a failure: it is looked at again when it ends. */
async function lookAt(services: Services, id: string): Promise<void> {
  const { platform, database } = services
  const claim = sql<Row>`select claim_rollout(${id}::uuid)::text`
  const [, rows] = (await runAsSystem(database, setClock(platform), claim)) as [unknown, [string | null][]]
  const text = rows[0]?.[0]
  if (!text) return
  const claimed = JSON.parse(text) as Claimed
  const ctx = actAsRollout(services, claimed)
  try {
    const { outcome, gates } = await judge(ctx, claimed)
    const message = outcome === 'failed' ? describeFailure(gates, claimed.share) : null
    const conclude = sql<Row>`
      select conclude_rollout(
        ${id}::uuid,
        ${claimed.revision_id}::uuid,
        ${claimed.progress.step},
        ${outcome},
        ${JSON.stringify(gates)}::jsonb,
        ${message}
      )`
    const settings = setSystemSettings(platform, `rollout-${crypto.randomUUID()}`)
    const [, concluded] = (await runAsSystem(database, settings, conclude)) as [unknown, [boolean | string][]]
    if (String(concluded[0]?.[0]).startsWith('t')) announceEvents(ctx, claimed.tenant_id)
  } catch (error) {
    platform.log({ level: 'warn', deployment: id, error: 'rollout not judged', message: String(error) })
  }
}

/** Row-level security confines it to the workspace. */
function actAsRollout(services: Services, { deployment_id: id, name, organization_id, tenant_id }: Claimed): Ctx {
  const actor = { kind: 'cron' as const, id, name, organization: organization_id, tenant: tenant_id }
  return {
    ...createKeylessCaller(services, actor, `rollout-${id}`, configuredOrigin(services.config)),
    permission: null,
  }
}

type Outcome = { outcome: ReportedRollout['outcome']; gates: GateJudgement[] }

/** The webhook is asked last, once all else is passed. */
async function judge(ctx: Ctx, claimed: Claimed): Promise<Outcome> {
  const { passed, paused, policy, signed } = claimed.progress
  const gates = await judgeAllScores(ctx, claimed)
  if (gates.some(({ verdict }) => verdict === 'failed')) return { outcome: 'failed', gates }
  const isPassed = passed && !paused && gates.every(({ verdict }) => verdict === 'passed')
  if (!isPassed) return { outcome: 'holds', gates }
  if (!policy.gates.webhook) return { outcome: 'passed', gates }
  if (signed && !claimed.is_webhook_kept) return { outcome: 'holds', gates: [...gates, gateOf('undecided', CHANGED)] }
  const asked = await askWebhook(ctx, claimed, policy.gates.webhook.url)
  const outcomes = { passed: 'passed', failed: 'failed', undecided: 'holds' } as const
  return { outcome: outcomes[asked.verdict], gates: [...gates, asked] }
}

// ---- scores

async function judgeAllScores(ctx: Ctx, claimed: Claimed): Promise<GateJudgement[]> {
  const { scores } = claimed.progress.policy.gates
  if (scores.length === 0) return []
  const found = await readScores(ctx, claimed)
  return scores.map(gate => judgeOne(gate, found, claimed))
}

type Summaries = Map<string | null, Record<string, { n: number; avg: number | null; stdev: number | null }>>

/** Traces have the revision in their metadata, where the tracing clients put LANGCHAIN_REVISION_ID. */
async function readScores(ctx: Ctx, { project_id, revision_id, serving_id, progress }: Claimed): Promise<Summaries> {
  if (project_id === null) return new Map()
  const { groups } = await ctx.traces.stats(ctx, {
    projects: [project_id],
    start_time: new Date(progress.since).toISOString(),
    statistics: ['feedback_stats'],
    group_by: { attribute: 'metadata', path: 'revision_id', groups: [revision_id, serving_id], max_groups: 2 },
  })
  return new Map(groups.map(({ group, totals }) => [group, totals.feedback_stats ?? {}]))
}

function judgeOne(
  { key, margin, alpha, least }: ScoresGate,
  found: Summaries,
  { revision_id, serving_id, lower_keys }: Claimed,
): GateJudgement {
  const sign = lower_keys.includes(key) ? -1 : 1
  const scoresOf = (revision: string): Scores => {
    const { n = 0, avg = null, stdev = null } = found.get(revision)?.[key] ?? {}
    if (avg === null) return { count: 0, mean: 0, variance: 0 }
    return { count: n, mean: sign * avg, variance: (stdev ?? 0) ** 2 }
  }
  const judged = judgeScores(scoresOf(revision_id), scoresOf(serving_id), { margin, alpha, least })
  const withSign = ({ count, value }: typeof judged.canary) => ({ count, value: value === null ? null : sign * value })
  const [canary, serving] = [withSign(judged.canary), withSign(judged.serving)]
  const mean = ({ count, value }: typeof canary) =>
    value === null ? 'none' : `${Math.round(value * 1000) / 1000} of ${count}`
  const message = `Its scores \`${key}\`: ${mean(canary)}. Those of the serving revision meanwhile: ${mean(serving)}.`
  return { gate: 'scores', key, verdict: judged.verdict, canary, serving, p: judged.p, message: message.slice(0, 500) }
}

// ---- the webhook

const CHANGED =
  'The policy has another webhook now, and the secret of this one is gone. Promote the revision, or abort it.'

const gateOf = (verdict: GateJudgement['verdict'], text: string): GateJudgement => ({
  gate: 'webhook',
  verdict,
  message: text.slice(0, 500),
})

/** Each question about a step has the same `webhook-id`. */
async function askWebhook(
  { config, platform, sealer }: Ctx,
  { deployment_id, name, revision_id, number, share, progress, judged, secret }: Claimed,
  url: string,
): Promise<GateJudgement> {
  const about = { deployment_id, name, revision_id, revision_number: number, step: progress.step, share }
  const body = JSON.stringify({ type: 'rollout.step_ended', ...about, gates: judged?.gates ?? [] })
  const id = derivedUuid(`rollout ${revision_id} ${progress.step} ${progress.since}`)
  const message = { id, timestamp: Math.floor(Date.now() / 1000), body }
  const signatures =
    secret === null ? [] : [await signBySecret(await sealer.open(secret, deployment_id, ROLLOUT_SEAL_CONTEXT), message)]
  const client = createGuardedClient({ config, platform }, configuredOrigin(config), ASK_LIMITS)
  client.stage('rollout webhook')
  try {
    const headers = messageHeaders(message, signatures)
    const response = await client.fetch(url, { method: 'POST', headers, body })
    await response.body?.cancel()
    const { status } = response
    if (response.ok) return gateOf('passed', `The webhook answered ${status}.`)
    if (status >= 400 && status < 500 && status !== 408 && status !== 429)
      return gateOf('failed', `The webhook answered ${status}: the step is not to go on.`)
    return gateOf('undecided', `The webhook answered ${status}. It is asked again in a minute.`)
  } catch (error) {
    return gateOf(
      'undecided',
      `The webhook gave no answer (${(error as Error).message}). It is asked again in a minute.`,
    )
  }
}
