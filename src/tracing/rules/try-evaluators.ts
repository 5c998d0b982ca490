// Asks evaluators about one run before a rule has them, and stores no feedback.
import type { Ctx } from '../../kernel/http/context.ts'
import { fail, toFailure } from '../../kernel/http/errors.ts'
import type { StoredRun } from '../store/queries.ts'
import { isOver, queryOf, readExperiments } from './evaluate.ts'
import { explainFailure, SKIPPED } from './evaluations.ts'
import { askModel, readJudgedRun } from './judge.ts'
import type { JudgedRun } from './run-variables.ts'
import type * as schema from './schema.ts'
import type { JudgePrompt } from './tables.ts'

/** The latest of these runs that has ended is taken. */
const LATEST = 20
const NOTHING = { feedback: [], evaluation_run_id: null, cost_usd: null, reason: null, message: null }

export async function tryEvaluators(
  ctx: Ctx,
  rule: schema.ValidatedRule,
  judges: JudgePrompt[],
): Promise<schema.RuleVerdicts> {
  const sample = await findSample(ctx, rule)
  const judged = sample && (await readJudgedRun(ctx, sample.id))
  if (!judged) return []
  const { id: run_id, name: run_name } = sample
  if (judged === 'too_long') {
    const payload = { ...NOTHING, reason: 'run_too_long' }
    return judges.map(() => ({ run_id, run_name, outcome: 'skipped', payload }))
  }
  return Promise.all(judges.map(async judge => ({ run_id, run_name, ...(await tryOne(ctx, judge, judged, run_id)) })))
}

async function tryOne(
  ctx: Ctx,
  judge: JudgePrompt,
  judged: JudgedRun,
  run_id: string,
): Promise<Pick<schema.RuleVerdicts[0], 'outcome' | 'payload'>> {
  try {
    const question = { actor: ctx.requestInfo.actor!, run_id: crypto.randomUUID(), metadata: { run_id } }
    const asked = await askModel(ctx, judge, judged, question)
    if ('missing' in asked)
      return { outcome: 'skipped', payload: { ...NOTHING, reason: `missing ${asked.missing.join(', ')}` } }
    const { verdicts, completion } = asked
    const payload = { ...NOTHING, evaluation_run_id: completion.run_id, cost_usd: completion.usage.cost }
    if (verdicts) return { outcome: 'success', payload: { ...payload, feedback: verdicts } }
    return {
      outcome: 'error',
      payload: { ...payload, reason: 'answer_invalid', message: completion.text.slice(0, 500) },
    }
  } catch (error) {
    const failure = toFailure(error)
    const { code } = failure
    if (code === 'internal') throw error
    const payload = { ...NOTHING, reason: code, message: explainFailure(failure) }
    return { outcome: SKIPPED.has(code) ? 'skipped' : 'error', payload }
  }
}

async function findSample(ctx: Ctx, rule: schema.ValidatedRule): Promise<StoredRun | undefined> {
  const { session_id, dataset_id, sample_run_id } = rule
  if (sample_run_id) {
    const query = { ids: [sample_run_id], order: 'desc' as const, limit: 1, columns: [] }
    const [found] = (await ctx.traces.query(ctx, query)).runs
    if (!found) throw fail('run_not_found')
    return found
  }
  const projects = session_id ? [session_id] : await readExperiments(ctx, dataset_id!)
  if (projects.length === 0) return undefined
  const filters = { filter: rule.filter, trace_filter: rule.trace_filter, tree_filter: rule.tree_filter }
  const { runs } = await ctx.traces.query(ctx, { ...queryOf(filters), order: 'desc', projects, limit: LATEST })
  return runs.find(isOver)
}
