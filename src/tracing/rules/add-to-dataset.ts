// Makes examples of runs. A repeat finds the examples of the first attempt, because their ids follow from the run's.
import { sql } from 'drizzle-orm'
import { derivedUuid } from '../../kernel/crypto/digest.ts'
import { type Row, run, uuidArray } from '../../kernel/db/db.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { Failure } from '../../kernel/http/errors.ts'
import { ValueBudget } from '../../kernel/limits/value-budget.ts'
import { createExampleList } from '../datasets/new-examples.ts'
import { fillPayloads, RUN_PAYLOAD_BYTES } from '../runs/object-links.ts'
import type { StoredRun } from '../store/queries.ts'
import type { ClaimedRule } from './claimed-rule.ts'
import type { RuleOutcome } from './tables.ts'

/** The limit of one statement, so that long payloads do not add up. */
const BATCH = 20

type Candidate = { run_id: string; example_id: string; json: string }
type Outcomes = Map<string, RuleOutcome>

export async function addToDataset(
  ctx: Ctx,
  rule: ClaimedRule,
  dataset_id: string,
  runs: StoredRun[],
): Promise<Outcomes> {
  const outcomes: Outcomes = new Map()
  for (let at = 0; at < runs.length; at += BATCH) {
    const ids = runs.slice(at, at + BATCH).map(({ id }) => id)
    const candidates = await readCandidates(ctx, rule, dataset_id, ids, outcomes)
    await insert(ctx, dataset_id, candidates, outcomes)
    for (const id of ids) if (!outcomes.has(id)) outcomes.set(id, failed('the run was deleted'))
  }
  return outcomes
}

const failed = (error: string): RuleOutcome => ({ outcome: 'error', payload: { error } })

async function readCandidates(
  ctx: Ctx,
  rule: ClaimedRule,
  dataset_id: string,
  ids: string[],
  outcomes: Outcomes,
): Promise<Candidate[]> {
  const query = { ids, order: 'asc' as const, limit: BATCH, columns: ['inputs', 'outputs', 'objects'] as const }
  const { runs } = await ctx.traces.query(ctx, query)
  const corrections = rule.add_to_dataset_prefer_correction ? await readCorrections(ctx, ids) : new Map()
  await fillPayloads(ctx, runs, RUN_PAYLOAD_BYTES)
  return runs.flatMap(({ id, inputs, outputs: own }) => {
    const outputs = corrections.get(id) ?? own
    // A text that is stored apart and could not be read is empty.
    if (inputs === '' || outputs === '') {
      outcomes.set(id, failed('its inputs or outputs are too long'))
      return []
    }
    const example_id = exampleIdOf(rule.id, id)
    const members = JSON.stringify({ id: example_id, dataset_id, source_run_id: id }).slice(1, -1)
    return [{ run_id: id, example_id, json: `{${members},"inputs":${inputs ?? '{}'},"outputs":${outputs ?? 'null'}}` }]
  })
}

const exampleIdOf = (ruleId: string, runId: string): string => derivedUuid(`example ${ruleId} ${runId}`)

/** Reads the outputs of the latest feedback of each run that has a correction. */
async function readCorrections(ctx: Ctx, ids: string[]): Promise<Map<string, string>> {
  const latest = sql<Row>`
    select distinct on (f.run_id) f.run_id, f.correction
    from feedbacks f
    where f.tenant_id = current_tenant() and f.run_id = any(${uuidArray(ids)}) and f.correction is not null
    order by f.run_id, f.created_at desc`
  const rows = (await run(ctx, latest)) as [string, string][]
  return new Map(rows.map(([id, text]) => [id, text.startsWith('{') ? text : `{"output":${text}}`]))
}

/** All at once. If some are refused, the others without them; if some exist, each alone. */
async function insert(ctx: Ctx, dataset_id: string, candidates: Candidate[], outcomes: Outcomes): Promise<void> {
  if (candidates.length === 0) return
  const bytes = new TextEncoder().encode(`[${candidates.map(({ json }) => json).join(',')}]`)
  const values = new ValueBudget()
  const raw = { bytes, mediaType: 'application/json', contentType: 'application/json', values }
  const note = ({ run_id, example_id }: Candidate) =>
    outcomes.set(run_id, { outcome: 'success', payload: { dataset_id, example_id } })
  try {
    await createExampleList(ctx, { raw })
    candidates.forEach(note)
  } catch (error) {
    if (!(error instanceof Failure) || RETRYABLE.includes(error.code)) throw error
    const exists = error.code === 'example_exists'
    if (candidates.length === 1) {
      const [only] = candidates as [Candidate]
      if (exists) note(only)
      else outcomes.set(only.run_id, failed(describe(error)))
      return
    }
    const faulty = new Set((error.extra.errors ?? []).map(({ loc }) => Number(loc[1])))
    const isTold = faulty.size > 0 && faulty.size < candidates.length
    const parts = isTold
      ? [candidates.filter((_, i) => !faulty.has(i)), ...candidates.filter((_, i) => faulty.has(i)).map(one => [one])]
      : candidates.map(one => [one])
    for (const part of parts) await insert(ctx, dataset_id, part, outcomes)
  }
}

const RETRYABLE = ['database_unavailable', 'database_busy', 'storage_unavailable', 'not_configured']

const describe = ({ code, extra }: Failure): string => {
  const [first] = extra.errors ?? []
  return first ? `${first.loc.slice(2).join('.')} ${first.msg}` : code
}
