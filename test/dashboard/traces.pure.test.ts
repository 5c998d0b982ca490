// The pure rules of tracing in the dashboard: filters, messages, trees, and numbers as people read them.
import { describe, expect, it } from 'vitest'
import type { Run } from '../../src/dashboard/api/runs.ts'
import { formatCost, formatCount, formatLatency, formatShare } from '../../src/dashboard/format/amount.ts'
import { readRubric } from '../../src/dashboard/screens/annotation/rubric.ts'
import { previewOf, splitsOf } from '../../src/dashboard/screens/datasets/preview.ts'
import { toTokens } from '../../src/dashboard/screens/traces/json-lines.ts'
import { lastTurn, readChat } from '../../src/dashboard/screens/traces/messages.ts'
import { parseRunFilter } from '../../src/dashboard/screens/traces/run-filter.ts'
import { barOf, boundsOf, buildTree, toBlocks, toRows } from '../../src/dashboard/screens/traces/tree.ts'
import { RUN_FIELDS } from '../../src/tracing/runs/filter/fields.ts'
import { readFilters } from '../../src/tracing/runs/filter/resolve.ts'

describe('the filter of runs', () => {
  it.each([
    ['late  order', 'search("late order")'],
    ['name:50%_off', String.raw`like(name, "%50\\%\\_off%")`],
    ['type:llm tag:"in review"', 'and(eq(run_type, "llm"), has(tags, "in review"))'],
    ['meta:user=ada', 'and(eq(metadata_key, "user"), eq(metadata_value, "ada"))'],
    ['latency:>=1.5s tokens:<10', 'and(gte(latency, "1.5s"), lt(total_tokens, 10))'],
    ['score:helpful>-0.5', 'and(eq(feedback_key, "helpful"), gt(feedback_score, -0.5))'],
    ['thread:a"b', 'eq(thread_id, "ab")'],
    [String.raw`error:a\b`, String.raw`like(error, "%a\\\\b%")`],
    ['tag: ', undefined],
  ])('%s is a filter that the API reads', (text, filter) => {
    expect(parseRunFilter(text)).toEqual({ filter, unknown: undefined })
    if (filter) expect(readFilters({ filter }, RUN_FIELDS).filter).toBeDefined()
  })

  it.each(['type:model', 'latency:slow', 'tokens:5s', 'meta:=x', 'score:>1'])('names %s, which means nothing', text => {
    expect(parseRunFilter(text)).toEqual({ filter: undefined, unknown: text })
  })

  it('takes what only looks like a condition for a word', () => {
    expect(parseRunFilter('http://shop.example constructor:x').filter).toBe(
      'search("http://shop.example constructor:x")',
    )
  })
})

describe('the messages of a run', () => {
  const text = (value: string) => ({ kind: 'text', text: value })
  const call = { kind: 'call', name: 'find', args: { id: 1 }, id: 'c1' }
  it.each([
    ['a chat', { messages: [{ role: 'user', content: 'Hi' }], temperature: 0 }, [['user', [text('Hi')]]]],
    ['a batch', { messages: [[{ type: 'human', content: 'Hi' }]] }, [['user', [text('Hi')]]]],
    [
      'serialized objects',
      { messages: [{ lc: 1, id: ['langchain', 'AIMessage'], kwargs: { content: 'Yes', tool_calls: [] } }] },
      [['assistant', [text('Yes')]]],
    ],
    [
      'choices with a call',
      {
        choices: [
          {
            message: {
              role: 'assistant',
              content: null,
              tool_calls: [{ id: 'c1', function: { name: 'find', arguments: '{"id":1}' } }],
            },
          },
        ],
      },
      [['assistant', [call]]],
    ],
    [
      'generations',
      { generations: [[{ text: 'Yes', message: { kwargs: { content: 'Yes' }, id: ['x', 'AIMessageChunk'] } }]] },
      [['assistant', [text('Yes')]]],
    ],
    [
      'parts, with the same call beside them',
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Hm' },
          { type: 'text', text: 'A' },
          { type: 'tool_use', id: 'c1', name: 'find', input: { id: 1 } },
        ],
        tool_calls: [{ id: 'c1', name: 'find', args: { id: 1 } }],
      },
      [['assistant', [{ kind: 'thinking', text: 'Hm' }, text('A'), call]]],
    ],
    [
      'parts of OpenTelemetry',
      { messages: [{ role: 'user', parts: [{ type: 'text', content: 'Hi' }] }] },
      [['user', [text('Hi')]]],
    ],
    [
      'an image',
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] },
      [['user', [{ kind: 'other', label: 'image url', value: { type: 'image_url', image_url: { url: 'x' } } }]]],
    ],
  ])('are read from %s', (_, value, messages) => {
    expect(readChat(value)?.messages.map(({ role, parts }) => [role, parts])).toEqual(messages)
  })

  it.each([
    [{ question: 'Hi' }],
    [{ messages: 'Hi' }],
    [{ messages: [{ role: 'user' }] }],
    [{ messages: [] }],
    [{ type: 'object', content: 'a schema' }],
    [null],
    ['Hi'],
    [[1]],
  ])('are not found in %j', value => {
    expect(readChat(value)).toBeUndefined()
  })

  it('leave the other members', () => {
    expect(readChat({ messages: [{ role: 'user', content: 'Hi' }], model: 'm' })?.rest).toEqual({ model: 'm' })
  })

  it('belong to the last turn if they come after the last answer', () => {
    const messages = ['system', 'user', 'assistant', 'tool', 'user'].map(role => ({ role, name: undefined, parts: [] }))
    expect(lastTurn(messages).map(({ role }) => role)).toEqual(['tool', 'user'])
  })
})

describe('the tree of a trace', () => {
  const run = (order: string, part: Partial<Run> = {}): Run =>
    ({
      id: order.split('.').at(-1),
      name: order,
      status: 'success',
      dotted_order: order,
      start_time: '2026-01-01T00:00:00Z',
      end_time: '2026-01-01T00:00:10Z',
      ...part,
    }) as Run
  const nodes = buildTree([
    run('a.c'),
    run('a'),
    run('a.b.x', { status: 'error', end_time: '2026-01-01T00:00:05Z' }),
    run('a.b'),
    run('a.lost.y', { start_time: '2026-01-01T00:00:09.99Z' }),
  ])
  const ids = (rows: { run: Run }[]) => rows.map(({ run }) => run.id)

  it('has each run below the nearest one that is there', () => {
    expect(nodes.map(({ run, depth, below, failedBelow }) => [run.id, depth, below, failedBelow])).toEqual([
      ['a', 0, 4, 1],
      ['b', 1, 1, 1],
      ['x', 2, 0, 0],
      ['c', 1, 0, 0],
      ['y', 1, 0, 0],
    ])
  })

  it('shows what is open, or what matches with the runs above it', () => {
    const shown = { closed: new Set<string>(), find: '', onlyFailed: false }
    expect(ids(toRows(nodes, { ...shown, closed: new Set(['b']) }))).toEqual(['a', 'b', 'c', 'y'])
    expect(ids(toRows(nodes, { ...shown, onlyFailed: true }))).toEqual(['a', 'b', 'x'])
    expect(toRows(nodes, { ...shown, find: 'A.C' }).map(({ run, isMatch }) => [run.id, isMatch])).toEqual([
      ['a', false],
      ['c', true],
    ])
    expect(toRows(nodes, { ...shown, find: 'nothing' })).toEqual([])
  })

  it('draws only the blocks that have changed again', () => {
    const rows = Array.from({ length: 250 }, (_, i) => ({
      ...nodes[0]!,
      run: run(`r${i}`),
      isOpen: true,
      isMatch: true,
    }))
    const before = toBlocks(rows, [])
    const after = toBlocks(
      rows.map((row, i) => (i === 120 ? { ...row, isOpen: false } : { ...row })),
      before,
    )
    expect(after.map((block, i) => block === before[i])).toEqual([true, false, true])
  })

  it('has a bar for each run, wide enough to be seen', () => {
    const bounds = boundsOf(nodes)
    expect(nodes.map(({ run }) => Object.values(barOf(run, bounds)).map(Math.round))).toEqual([
      [0, 100],
      [0, 100],
      [0, 50],
      [0, 100],
      [99, 1],
    ])
    expect(barOf(run('z', { end_time: null }), bounds)).toEqual({ x: 0, width: 100 })
  })
})

it.each([
  [formatCount, [0, 999, 9_999, 10_000, 123_456, 2_500_000], ['0', '999', '9,999', '10.0 k', '123 k', '2.5 M']],
  [formatCost, [0, '0.00001', '0.0042', '0.123', '12.3'], ['$0', '< $0.0001', '$0.0042', '$0.12', '$12.3']],
  [formatShare, [0, 0.0001, 0.004, 0.5, 1], ['0 %', '< 0.1 %', '0.4 %', '50 %', '100 %']],
  [formatLatency, [0, 0.0421, 0.9999, 9.994, 72], ['0 ms', '42 ms', '1.00 s', '9.99 s', '1 m 12 s']],
] as const)('%o writes numbers as people read them', (format, values, texts) => {
  expect(values.map(value => (format as (value: number | string) => string)(value))).toEqual(texts)
})

it('colors the parts of a line of JSON', () => {
  expect(
    toTokens('  "a\\"b": [-1.5e3, "true", null]').map(({ text, kind }) => (kind === 'mark' ? '' : kind + text)),
  ).toEqual(['', 'key"a\\"b"', '', '', 'number-1.5e3', '', 'text"true"', '', 'wordnull', ''])
})

it('reads questions, previews and splits', () => {
  expect(readRubric('correct: Is it: right?\n\n tone \n: nothing')).toEqual([
    { feedback_key: 'correct', description: 'Is it: right?' },
    { feedback_key: 'tone' },
  ])
  expect([previewOf({ q: 'Hi', n: 1 }), previewOf({ a: 'x', b: 'y' }), previewOf(null)]).toEqual([
    'Hi',
    '{"a":"x","b":"y"}',
    '',
  ])
  expect([splitsOf({ dataset_split: ['a', 'b'] }), splitsOf({ dataset_split: 'a' }), splitsOf({})]).toEqual([
    ['a', 'b'],
    ['a'],
    [],
  ])
})
