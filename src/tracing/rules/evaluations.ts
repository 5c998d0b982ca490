// Asks the evaluators of rules about runs. The answer of a model is stored before it becomes feedback, and feedback has
// ids that follow from the evaluation: a repeat asks no answered question again, and adds nothing twice.
import { type SQL, sql } from 'drizzle-orm'
import { derivedUuid } from '../../kernel/crypto/digest.ts'
import { type Row, run, runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { AttemptError, drainOutbox, type Outbox, type OutboxItem } from '../../kernel/db/outbox.ts'
import { workInTurns } from '../../kernel/db/worker-pool.ts'
import { detailOf } from '../../kernel/http/codes.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { Failure } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { readFeedbackRows, storeFeedback, toCategory, toFeedbackRows, toScore } from '../feedback/store-feedback.ts'
import { cleanText } from '../ingest/run-contents.ts'
import { actAsRule } from './claimed-rule.ts'
import { claimNext, isOwnAttempt, listDueRules, type RuleWork } from './due-work.ts'
import { callRunId } from './evaluation-ids.ts'
import { askModel, readJudgedRun } from './judge.ts'
import { addSpending, isOverLimit } from './spending.ts'
import type { JudgePrompt, StoredVerdict } from './tables.ts'

const MAX_ATTEMPTS = 3
/** Rules at once. */
const MAX_CONCURRENT = 8
const CALLS_PER_RULE = 8
/** The time in which a sweep begins calls. A rule has at least the second, so that slow models do not take it all. */
const WORK_MS = 20_000
const MIN_SHARE_MS = 1000
const MAX_CALLS = 400

type Evaluation = OutboxItem & {
  run_id: string
  evaluator_id: string
  verdicts: StoredVerdict[] | null
  call_run_id: string | null
  /** Null if the rule does not have the evaluator any more. */
  evaluator: JudgePrompt | null
  is_over_limit: boolean
  rule: { id: string; organization_id: string; tenant_id: string; display_name: string }
}
type Outcome = { state: 'done' | 'skipped'; reason: string | null }

/** Failures that a retry would not change. */
const FINAL = new Set<string>([
  'evaluator_removed',
  'run_expired',
  'answer_invalid',
  'feedback_out_of_range',
  'feedback_config_differs',
  'feedback_exists',
  'model_call_failed',
  'model_not_found',
  'model_url_not_allowed',
  'blocked_url',
  'upstream_redirected',
])
/** Decisions of the workspace or the rule. */
export const SKIPPED = new Set<string>(['model_budget_spent', 'model_proxy_off'])

/** Words for people who read the log. Only failures of ours are shown. */
export function explainFailure(error: unknown): string | null {
  if (error instanceof AttemptError) return error.message === error.code ? null : error.message
  if (!(error instanceof Failure)) return null
  return cleanText((error.extra.detail ?? detailOf(error.code, error.extra.about)).slice(0, 500))
}

const EVALUATIONS: RuleWork = { table: 'rule_evaluations', lastAt: 'last_judged_at' }

const claimEvaluation = (rule: string): SQL<Row> => sql<Row>`
  with ${claimNext(EVALUATIONS, rule)}
  select json_build_object(
      'id', e.id, 'attempts', e.attempts, 'run_id', e.run_id, 'evaluator_id', e.evaluator_id, 'verdicts', e.verdicts,
      'call_run_id', e.call_run_id, 'is_over_limit', ${isOverLimit(sql`r`)},
      'evaluator', coalesce(
        (
          select i -> 'structured'
          from json_array_elements(r.evaluators) i
          where i ->> 'id' = e.evaluator_id::text
        ),
        (
          select v.structured
          from evaluators v
          where v.id = e.evaluator_id and v.id = r.evaluator_id and v.tenant_id = r.tenant_id
        )
      ),
      'rule', json_build_object(
        'id', r.id, 'organization_id', r.organization_id, 'tenant_id', r.tenant_id, 'display_name', r.display_name
      )
    )::text
  from claimed e
  join run_rules r on r.id = e.rule_id`

const OUTBOX: Outbox<Evaluation, Outcome> = {
  maxAttempts: MAX_ATTEMPTS,
  work: evaluate,
  markDone: (item, { state, reason }) => sql`
    update rule_evaluations
    set state = ${state}, next_attempt_at = null, attempted_at = clock(), error = ${reason}, message = null
    where ${isOwnAttempt(item)}`,
  markFailed: (item, { code, isLast, nextAttemptAt, error }) => {
    const state = SKIPPED.has(code) ? 'skipped' : isLast || FINAL.has(code) ? 'failed' : 'waiting'
    return sql`
      update rule_evaluations
      set state = ${state}, next_attempt_at = ${state === 'waiting' ? nextAttemptAt : sql`null`},
        attempted_at = clock(), error = ${code}, message = ${explainFailure(error)}
      where ${isOwnAttempt(item)}`
  },
  logMembers: ({ id, rule }) => ({ rule: rule.id, evaluation: id }),
}

async function evaluate(services: Services, item: Evaluation): Promise<Outcome> {
  const ctx = actAsRule(services, item.rule)
  if (item.verdicts) {
    await giveFeedback(ctx, item, item.verdicts)
    return { state: 'done', reason: null }
  }
  if (!item.evaluator) throw new AttemptError('evaluator_removed')
  if (item.is_over_limit) return { state: 'skipped', reason: 'spend_limit_reached' }
  const judged = await readJudgedRun(ctx, item.run_id)
  if (!judged) throw new AttemptError('run_expired')
  if (judged === 'too_long') return { state: 'skipped', reason: 'run_too_long' }
  const asked = await askModel(ctx, item.evaluator, judged, {
    actor: item.evaluator_id,
    // The id of the evaluation, so that a provider answers a repeat without another charge.
    idempotency_key: item.id,
    run_id: callRunId(item.id, item.attempts),
    metadata: { rule_id: item.rule.id, evaluator_id: item.evaluator_id, run_id: item.run_id },
  })
  if ('missing' in asked) return { state: 'skipped', reason: `missing ${asked.missing.join(', ')}` }
  const { verdicts, completion } = asked
  const isOwn = await storeAnswer(services, item, { verdicts, cost: completion.usage.cost, run: completion.run_id })
  // Another worker has taken over, and asks again.
  if (!isOwn) throw new AttemptError('lease_lost')
  if (!verdicts) throw new AttemptError('answer_invalid', 'The answer of the model does not fit the schema.')
  await giveFeedback(ctx, { ...item, call_run_id: completion.run_id }, verdicts)
  return { state: 'done', reason: null }
}

type StoredAnswer = { verdicts: StoredVerdict[] | null; cost: number | null; run: string | null }

/** The cost counts in any case. Returns false if the lease is lost. */
async function storeAnswer({ platform, database }: Services, item: Evaluation, answer: StoredAnswer): Promise<boolean> {
  const store = sql<Row>`
    with spent as (
      update run_rules r
      set ${addSpending(sql`r`, sql`${answer.cost ?? 0}::double precision`)}
      where r.id = ${item.rule.id}::uuid
    )
    update rule_evaluations
    set verdicts = ${answer.verdicts && JSON.stringify(answer.verdicts)}::json, call_run_id = ${answer.run}::uuid,
      cost_usd = coalesce(cost_usd + ${answer.cost}, cost_usd, ${answer.cost}::double precision)
    where ${isOwnAttempt(item)}
    returning id`
  const [, rows] = (await runAsSystem(database, setClock(platform), store)) as [unknown, Row[]]
  return rows.length > 0
}

async function giveFeedback(ctx: Ctx, item: Evaluation, verdicts: StoredVerdict[]): Promise<void> {
  const { id, run_id, rule, evaluator_id, call_run_id } = item
  const metadata = { rule_id: rule.id, evaluator_id, ...(call_run_id && { __run: { run_id: call_run_id } }) }
  const feedback = verdicts.map(({ key, score, value, comment }) => ({
    id: derivedUuid(`feedback ${id} ${key}`),
    run_id,
    key,
    comment,
    score: toScore(score),
    value: value && JSON.stringify(value),
    category: toCategory(value),
    source_type: 'auto_eval' as const,
    source_metadata: JSON.stringify(metadata),
    is_error: false,
    extends_retention: true,
  }))
  const found = await ctx.traces.findRuns(ctx, [run_id])
  const store = sql<Row>`
    with
    ${sql.join(storeFeedback(readFeedbackRows(toFeedbackRows(feedback)), { found }), sql`,`)}
    select id
    from stored_feedback`
  await run(ctx, store)
}

export async function runEvaluations(services: Services, condition: SQL = sql`true`): Promise<void> {
  const due = await listDueRules(services, EVALUATIONS, sql`${condition} and r.is_enabled`)
  const share = Math.max(MIN_SHARE_MS, (WORK_MS * MAX_CONCURRENT) / Math.max(MAX_CONCURRENT, due.length))
  await workInTurns(due, {
    maxConcurrent: MAX_CONCURRENT,
    stopping: services.platform.stopping,
    work: ({ id }) => judgeForRule(services, id, Date.now() + share),
  })
}

async function judgeForRule(services: Services, rule: string, deadline: number): Promise<void> {
  const limits = { maxConcurrent: CALLS_PER_RULE, maxItems: MAX_CALLS, claimUntil: deadline }
  await drainOutbox(services, OUTBOX, { claim: claimEvaluation(rule), ...limits })
}
