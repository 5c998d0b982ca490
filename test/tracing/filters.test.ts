// Compares the filters of the store with a naive evaluator, over random runs and random filters.
import { beforeAll, describe, expect, it } from 'vitest'
import { type Filter, parseFilter } from '../../src/tracing/runs/filter/grammar.ts'
import { newTenant, type Tenant } from '../support/app.ts'
import { matches, type NaiveRun } from '../support/naive-filter.ts'
import { appendRuns, newTrace, projectId } from '../support/new-traces.ts'
import * as fc from '../support/seeded-fast-check.ts'

const TEXTS = ['a', 'B', 'a b', 'Zoë', '50%', 'x_y', "it's", 'say "hi"', 'back\\slash', '']
const text = fc.constantFrom(...TEXTS)
const scalar = fc.oneof(text, fc.constantFrom(0, 1, 2.5, -1, 10), fc.boolean(), fc.constant(null))
const KEYS = ['k', 'user_id', 'deep', 'list', 'a.b']
const key = fc.constantFrom(...KEYS)
const members = fc.dictionary(
  key,
  fc.oneof(
    scalar,
    fc.dictionary(key, scalar, { maxKeys: 2 }),
    fc.array(fc.oneof(scalar, fc.dictionary(key, scalar)), { maxLength: 3 }),
  ),
  { maxKeys: 4 },
)
const START = Date.parse('2026-11-20T10:00:00Z')

const runData = fc.record({
  name: fc.constantFrom('agent', 'Chat', 'search', 'a'),
  run_type: fc.constantFrom('chain', 'llm', 'tool'),
  latency: fc.option(fc.constantFrom(0, 500, 2000, 6000), { nil: undefined }),
  error: fc.option(fc.constantFrom('boom', 'Boom: a b', ''), { nil: undefined }),
  tags: fc.subarray(['prod', 'v1', 'a']),
  metadata: fc.tuple(members, fc.option(fc.constantFrom('t-1', 't-2'), { nil: undefined })),
  inputs: members,
  outputs: members,
  total_tokens: fc.constantFrom(0, 10, 100),
  feedback: fc.array(
    fc.record({
      key: fc.constantFrom('user_score', 'Correctness'),
      score: fc.option(fc.constantFrom(0, 0.5, 1, 5), { nil: undefined }),
      value: fc.option(fc.constantFrom('good', 5, true), { nil: undefined }),
      comment: text,
      source: fc.constantFrom('api', 'app'),
    }),
    { maxLength: 3 },
  ),
})
const traces = fc.array(fc.array(runData, { minLength: 1, maxLength: 4 }), { minLength: 12, maxLength: 12 })

const literalFor: Record<string, fc.Arbitrary<unknown>> = {
  name: fc.constantFrom('agent', 'chat', 'a', 'none'),
  run_type: fc.constantFrom('chain', 'llm'),
  status: fc.constantFrom('success', 'error', 'pending'),
  error: fc.constantFrom('boom', 'Boom: a b', null),
  thread_id: fc.constantFrom('t-1', 't-3', null),
  start_time: fc.constantFrom('2026-11-20T10:00:00Z', '2026-11-20T10:00:05', '2026-11-20T10:00:09.002Z'),
  latency: fc.constantFrom(0, 2, 0.5, 5),
  total_tokens: fc.constantFrom(0, 10, 100, 110),
}
const leaf = (operators: string[], field: fc.Arbitrary<string>, literal: fc.Arbitrary<unknown>) =>
  fc
    .tuple(fc.constantFrom(...operators), field, literal)
    .map(([operator, name, value]) => `${operator}(${name}, ${JSON.stringify(value)})`)
const inList = (field: fc.Arbitrary<string>, literal: fc.Arbitrary<unknown>) =>
  fc.tuple(field, fc.array(literal, { maxLength: 3 })).map(([name, values]) => `in(${name}, ${JSON.stringify(values)})`)
const ORDER = ['eq', 'neq', 'gt', 'gte', 'lt', 'lte']
const notNull = (values: fc.Arbitrary<unknown>) => values.filter(value => value !== null)
const fieldLeaves = Object.entries(literalFor).map(([name, literal]) =>
  fc.oneof(
    leaf(['eq', 'neq'], fc.constant(name), literal),
    leaf(ORDER, fc.constant(name), notNull(literal)),
    inList(fc.constant(name), notNull(literal)),
  ),
)
const pairKey = fc.constantFrom('metadata_key', 'input_key', 'output_key')
const pairValue = fc.constantFrom('metadata_value', 'input_value', 'output_value')
const anyKey = fc.constantFrom(...KEYS, 'deep.k', 'list.k', 'none')
const words = fc.constantFrom('a', 'B', 'zo', '50%', 'hi', '"hi"', 'k deep', 'slash', 'none', 'x_y')
const condition = fc.oneof(
  ...fieldLeaves,
  leaf(['eq', 'neq'], fc.constant('is_root'), fc.boolean()),
  leaf(['has'], fc.constant('tags'), fc.constantFrom('prod', 'v1', 'none')),
  leaf(['exists'], fc.constant('metadata'), key),
  leaf(
    ['has'],
    fc.constant('metadata'),
    members.map(value => JSON.stringify(value)),
  ),
  leaf(['like'], fc.constant('name'), fc.constantFrom('%a%', 'a_ent', 'chat', '%')),
  leaf(['search'], fc.constantFrom('name', 'error', 'inputs', 'outputs'), words),
  words.map(word => `search(${JSON.stringify(word)})`),
)
const feedbackCondition = fc.oneof(
  leaf(['eq', 'neq', 'eq'], fc.constant('feedback_key'), fc.constantFrom('user_score', 'Correctness', 'none')),
  leaf(ORDER, fc.constant('feedback_score'), fc.constantFrom(0, 1, 0.5, 4)),
  leaf(['eq'], fc.constant('feedback_score'), fc.constant(null)),
  leaf(['eq', 'neq'], fc.constant('feedback_value'), fc.constantFrom('good', 5, true, '5')),
  leaf(['eq', 'neq'], fc.constant('feedback_source'), fc.constantFrom('api', 'app')),
  leaf(['search', 'eq'], fc.constant('feedback_comment'), fc.constantFrom('a', 'B')),
)
const pairCondition = fc.oneof(
  { arbitrary: feedbackCondition, weight: 3 },
  leaf(['eq', 'neq'], pairKey, anyKey),
  leaf(['eq'], pairKey, anyKey),
  inList(pairKey, anyKey),
  leaf(['like', 'search'], pairKey, fc.constantFrom('k', '%k%')),
  leaf(ORDER, pairValue, notNull(scalar)),
  leaf(['like', 'search'], pairValue, fc.constantFrom('a', '%a%')),
  inList(pairValue, notNull(scalar)),
)
const filterText = fc.letrec<{ filter: string }>(tie => ({
  filter: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    condition,
    pairCondition,
    fc
      .array(fc.oneof(condition, pairCondition, pairCondition), { minLength: 1, maxLength: 4 })
      .map(all => `and(${all})`),
    fc
      .tuple(fc.constantFrom('and', 'or'), fc.array(tie('filter'), { minLength: 1, maxLength: 3 }))
      .map(([operator, parts]) => `${operator}(${parts})`),
    tie('filter').map(part => `not(${part})`),
  ),
})).filter

let tenant: Tenant
let project: string
let runs: NaiveRun[]
const traceOf = ({ trace_id }: NaiveRun) => runs.filter(run => run.trace_id === trace_id)

beforeAll(async () => {
  tenant = await newTenant()
  runs = fc.sample(traces, { numRuns: 1, seed: fc.seed })[0]!.flatMap((data, i) => {
    const trace = newTrace(
      data.slice(1).map(() => 'child'),
      new Date(START + i * 1000),
    )
    return trace.runs.map((run, k): NaiveRun => {
      const {
        latency,
        metadata: [metadata, thread_id],
        ...rest
      } = data[k]!
      const end_time = latency === undefined ? undefined : new Date(Date.parse(run.start_time) + latency).toISOString()
      return { ...run, ...rest, end_time, metadata: { ...metadata, ...(thread_id && { thread_id }) } }
    })
  })
  const rows = runs.map(({ metadata, inputs, outputs, total_tokens, feedback: _feedback, ...run }) => ({
    ...run,
    run_type: run.run_type as 'llm',
    extra: JSON.stringify({ metadata: { ...metadata, usage_metadata: { total_tokens } } }),
    inputs: JSON.stringify(inputs),
    outputs: JSON.stringify(outputs),
  }))
  for (const run of runs) run.metadata = { ...run.metadata, usage_metadata: { total_tokens: run.total_tokens } }
  await appendRuns(tenant, rows)
  const feedback = runs.flatMap(({ id, feedback }) => feedback.map(given => ({ run_id: id, ...given })))
  await Promise.all(
    feedback.map(async ({ source, ...given }) => {
      const body = { ...given, feedback_source: { type: source }, extend_trace_retention: false }
      expect(await tenant.post('/feedback', body)).toMatchObject({ status: 200 })
    }),
  )
  project = await projectId(tenant, 'traced')
})

async function find(body: Record<string, unknown>): Promise<string[]> {
  const found: string[] = []
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const reply = await tenant.post('/runs/query', { session: [project], select: ['id'], ...body, cursor })
    expect(reply.status, JSON.stringify([body, reply.body])).toBe(200)
    found.push(...reply.body.runs.map((run: { id: string }) => run.id))
    cursor = reply.body.cursors.next
  }
  return found.toSorted()
}
const idsOf = (found: NaiveRun[]) => found.map(({ id }) => id).toSorted()

describe('a filter', () => {
  it('finds the runs that a naive evaluator finds', async () => {
    let nonTrivial = 0
    await fc.assert(
      fc.asyncProperty(filterText, async filter => {
        const tree: Filter = parseFilter(filter)
        const expected = runs.filter(run => matches(run, tree, traceOf(run)))
        if (expected.length > 0 && expected.length < runs.length) nonTrivial += 1
        expect(await find({ filter }), filter).toEqual(idsOf(expected))
      }),
      { numRuns: 300 },
    )
    expect(nonTrivial).toBeGreaterThan(100)
  })

  it('on the root or on any run of the trace finds the runs of those traces', async () => {
    await fc.assert(
      fc.asyncProperty(filterText, filterText, async (trace_filter, tree_filter) => {
        const [ofRoot, ofSome] = [parseFilter(trace_filter), parseFilter(tree_filter)]
        const expected = runs.filter(run => {
          const trace = traceOf(run)
          const root = trace.find(({ id }) => id === run.trace_id)!
          return matches(root, ofRoot, trace) && trace.some(one => matches(one, ofSome, trace))
        })
        expect(await find({ trace_filter, tree_filter })).toEqual(idsOf(expected))
      }),
      { numRuns: 60 },
    )
  })
})
