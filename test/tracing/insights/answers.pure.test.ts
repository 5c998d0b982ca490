// Answers of models: read from what models really send, cleaned, and refused with a reason.
import { describe, expect, it } from 'vitest'
import { AttributeSchemas } from '../../../src/tracing/insights/attributes.schema.ts'
import { readAttributes } from '../../../src/tracing/insights/attributes.ts'
import { computeStats } from '../../../src/tracing/insights/cluster-stats.ts'
import { askForConfig } from '../../../src/tracing/insights/config-question.ts'
import { shareSize, sizesOf } from '../../../src/tracing/insights/hierarchy.ts'
import { UnusableAnswer } from '../../../src/tracing/insights/question.ts'
import { askForSummary } from '../../../src/tracing/insights/summary-question.ts'

const values = { run: { inputs: {}, outputs: {}, error: null, feedback: {} }, all_thread_messages: [] }

describe('a summary', () => {
  const schemas: AttributeSchemas = {
    mood: { type: 'string', enum: ['good', 'bad'] },
    turns: { type: 'number' },
    solved: { type: 'boolean' },
  }
  const question = askForSummary({ attribute_schemas: schemas, partitions: { a: 'x', b: 'y' } }, values, 'XYZ')

  it.each([
    ['an object', { summary: 'It did.', category: 2, attributes: { mood: 'bad', turns: 3, solved: false } }],
    ['a text', '{"summary":"It did.","category":2,"attributes":{"mood":"bad","turns":3,"solved":false}}'],
    [
      'a code block',
      'Sure:\n```json\n{"summary":" It\\ndid. ","category":2,' +
        '"attributes":{"mood":"bad","turns":3,"solved":false,"x":1}}\n```',
    ],
  ])('is read from %s', (_, answer) => {
    expect(question.read(answer)).toEqual({
      summary: 'It did.',
      category: 2,
      attributes: { mood: 'bad', turns: 3, solved: false },
    })
  })

  it('has null for attributes that do not fit, and no category that was not given', () => {
    const attributes = { mood: 'ugly', turns: '3', solved: 'true', __proto__: { solved: true } }
    for (const category of [3, -1, undefined])
      expect(question.read({ summary: 's', category, attributes })).toEqual({
        summary: 's',
        category: 0,
        attributes: { mood: null, turns: null, solved: null },
      })
  })

  it.each([['no text'], ['{"summary":'], [{ summary: '' }], [{}], [null], [[]], [{ summary: 's', category: 'a' }]])(
    'is refused: %j',
    answer => {
      expect(() => question.read(answer)).toThrow(UnusableAnswer)
    },
  )

  it('asks for structure that providers accept', () => {
    expect(question.schema).toMatchObject({
      additionalProperties: false,
      required: ['summary', 'category', 'attributes'],
      properties: { attributes: { properties: { mood: { type: ['string', 'null'], enum: ['good', 'bad', null] } } } },
    })
  })
})

describe('schemas of attributes', () => {
  it.each([
    [{ solved: { type: 'boolean', filter_by: true } }, true],
    [{ mood: { type: 'string', description: 'd', enum: ['a'] } }, true],
    [{ turns: { type: 'number', filter_by: true } }, false],
    [{ turns: { type: 'number', enum: ['a'] } }, false],
    [{ turns: { type: 'object' } }, false],
    [{ 'two words': { type: 'number' } }, false],
    [Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`a${i}`, { type: 'number' }])), false],
  ])('%j', (schemas, isAllowed) => {
    expect(AttributeSchemas.safeParse(schemas).success).toBe(isAllowed)
  })

  it('bound texts, and take no endless number', () => {
    const schemas: AttributeSchemas = { a: { type: 'string' }, b: { type: 'number' } }
    const { a, b } = readAttributes(schemas, { a: 'x'.repeat(9999), b: Number.POSITIVE_INFINITY })
    expect([(a as string).length, b]).toEqual([200, null])
  })
})

describe('a configuration', () => {
  const { read } = askForConfig({ 'What for?': 'refunds' }, [], 'XYZ')
  const answer = {
    name: 'Refunds',
    summary_prompt: 'Say why: {{run.inputs}}',
    attributes: [
      { name: 'refunded', type: 'boolean', description: 'd', filter_by: true },
      { name: 'amount', type: 'number', description: 'd', filter_by: true },
    ],
  }

  it('has attributes that can be used', () => {
    expect(read(answer)).toEqual({
      name: 'Refunds',
      summary_prompt: answer.summary_prompt,
      attribute_schemas: {
        refunded: { type: 'boolean', description: 'd', filter_by: true },
        amount: { type: 'number', description: 'd' },
      },
    })
  })

  it.each([
    [{ summary_prompt: 'No variable' }],
    [{ summary_prompt: '{{secrets.key}}' }],
    [{ attributes: [{ name: 'a b', type: 'number' }] }],
    [{ attributes: [{ name: 'a', type: 'list' }] }],
  ])('is refused with %j', members => {
    expect(() => read({ ...answer, ...members })).toThrow(UnusableAnswer)
  })
})

describe('sizes of levels', () => {
  it.each([
    [[10, 3], 100, [10, 3]],
    [[10, 30], 100, [10, 10]],
    [[10, 3], 2, [2, 2]],
    [undefined, 1000, [20, 5]],
    [[], 1, [1, 1]],
  ])('%j of %i runs', (hierarchy, runs, sizes) => {
    expect(sizesOf(hierarchy, runs)).toEqual(sizes)
  })

  it('are shared by the number of runs', () => {
    expect(shareSize(10, [60, 39, 1, 0])).toEqual([6, 4, 1, 0])
  })
})

describe('statistics', () => {
  it('count existing values', () => {
    const run = (latency: number | null, has_error: boolean, avg: number | null, mood: string | null) => ({
      facts: { latency, has_error, tokens: 10, cost: 0.5, feedback: { thumbs: { n: 2, avg } } },
      attributes: { mood, turns: latency, solved: has_error },
    })
    expect(computeStats([run(1, true, 1, 'good'), run(3, false, 0, 'good'), run(null, false, null, null)])).toEqual({
      num_runs: 3,
      latency_p50: 1,
      latency_p99: 3,
      error_rate: 0.333333,
      total_tokens: 30,
      total_cost: 1.5,
      feedback_stats: { thumbs: { n: 6, avg: 0.5 } },
      attributes: {
        mood: { type: 'string', n: 2, values: { good: 2 } },
        turns: { type: 'number', n: 2, avg: 2, min: 1, max: 3 },
        solved: { type: 'boolean', n: 3, true: 1 },
      },
    })
  })
})
