// Derives columns of a run from its JSON.
import { describe, expect, it } from 'vitest'
import { firstTokenTime, previewOf, readMetadata, readUsage } from '../../src/tracing/ingest/run-contents.ts'

describe('a preview', () => {
  const long = 'x'.repeat(250)
  it.each([
    ['a text by its usual name', { question: 'Why?' }, 'Why?'],
    [
      'the last message',
      {
        messages: [
          { role: 'system', content: 'a' },
          { role: 'user', content: 'b' },
        ],
      },
      'b',
    ],
    ['a text within the only member', { state: { step: [{ text: 'deep' }] } }, 'deep'],
    ['a text of a chat model', { generations: [[{ text: '', message: { kwargs: { content: 'said' } } }]] }, 'said'],
    ['the JSON where no text stands out', { a: 1, b: true }, '{"a":1,"b":true}'],
    ['no more than 200 characters, none of them cut', { text: `${'x'.repeat(199)}😀` }, 'x'.repeat(199)],
    ['one line', { text: 'one\n\n  two\t' }, 'one two'],
    ['an empty text for nothing', '', ''],
    ['a long text, cut', { text: long }, long.slice(0, 200)],
  ])('is %s', (_, value, expected) => {
    expect(previewOf(JSON.stringify(value))).toBe(expected)
  })

  it('does not exist for an absent member', () => {
    expect(previewOf(undefined)).toBe(undefined)
  })
})

describe('the usage of a run', () => {
  it.each([
    [
      'tokens and their sum',
      { input_tokens: 1, output_tokens: 2 },
      { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
    ],
    ['the total that was given', { input_tokens: 1, total_tokens: 9 }, { prompt_tokens: 1, total_tokens: 9 }],
    [
      'costs and their sum',
      { input_cost: 0.5, output_cost: 0.25 },
      { prompt_cost: 0.5, completion_cost: 0.25, total_cost: 0.75 },
    ],
    [
      'no numbers that cannot be counts',
      { input_tokens: -1, output_tokens: '2', total_tokens: 1.5, input_cost: null },
      {},
    ],
  ])('has %s', (_, usage_metadata, expected) => {
    const { usage_details, ...sums } = readUsage(JSON.stringify({ usage_metadata }), undefined)!
    expect([usage_details, JSON.parse(JSON.stringify(sums))]).toEqual([{}, expected])
  })

  it('is that of the outputs, of the message of a chat model, or else of the metadata', () => {
    const of = (input_tokens: number) => ({ usage_metadata: { input_tokens } })
    const chat = { generations: [[{ message: { kwargs: of(2) } }]] }
    const totals = [
      [JSON.stringify(of(1)), of(3)],
      [JSON.stringify(chat), of(3)],
      ['{"a":1}', of(3)],
    ] as const
    const readTokens = (outputs: string, metadata: object) =>
      readUsage(outputs, readMetadata(JSON.stringify({ metadata })).usage)?.prompt_tokens
    expect(totals.map(([outputs, metadata]) => readTokens(outputs, metadata))).toEqual([1, 2, 3])
    expect(readUsage('{"a":1}', undefined)).toBe(undefined)
    expect(readUsage('not JSON, "usage_metadata"', undefined)).toBe(undefined)
  })
})

describe('the metadata of a run', () => {
  it('leaves out members that filters cannot use, and keeps the rest', () => {
    const long = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`m${i}`, 'x'.repeat(4000)]))
    const { columns } = readMetadata(JSON.stringify({ metadata: { short: 1, huge: 'x'.repeat(5000), ...long } }))
    expect(Object.keys(columns.metadata!)).toEqual(['short', ...Array.from({ length: 8 }, (_, i) => `m${i}`)])
  })

  it.each([
    [{ session_id: 's', thread_id: 't' }, 's'],
    [{ thread_id: 't', conversation_id: 'c' }, 't'],
    [{ conversation_id: 7 }, '7'],
    [{ session_id: '', thread_id: null }, undefined],
  ])('%j names the thread %s', (metadata, thread) => {
    expect(readMetadata(JSON.stringify({ metadata })).columns.thread_id).toBe(thread)
  })

  it.each([undefined, 'null', '[]', '{"metadata":[]}', 'not JSON'])('%s has none', extra => {
    expect(readMetadata(extra)).toEqual({ usage: undefined, columns: {} })
  })
})

it('only the short members of a text of megabytes are parsed, in bounded time', () => {
  const size = 2 * 1024 * 1024
  const fill = (unit: string) => unit.repeat(size / unit.length)
  const usage = '"usage_metadata":{"input_tokens":7}'
  const metadata = `{"thread_id":"t","big":"${fill('x')}",${usage}}`
  const started = process.cpuUsage()
  for (const unit of ['[],', '{"a":1},', '"\\"\\\\",', '12,']) {
    const long = `[${fill(unit)}0]`
    const read = readMetadata(`{"runtime":${long},"metadata":{"long":${long},${metadata.slice(1)}}`)
    expect(read).toEqual({
      usage: { input_tokens: 7 },
      columns: { thread_id: 't', metadata: { thread_id: 't', usage_metadata: { input_tokens: 7 } } },
    })
    const message = `{"generations":[[{"message":{"kwargs":{"content":${long},${usage}}}}]]}`
    for (const outputs of [`{"long":${long},${usage}}`, message])
      expect(readUsage(outputs, undefined)?.prompt_tokens).toBe(7)
    expect(firstTokenTime(`[${long},{"name":"new_token","time":0}]`)).toBe('1970-01-01T00:00:00.000000Z')
    expect(previewOf(long)?.length).toBe(200)
  }
  // Parsed, the texts would be hundreds of megabytes of objects and take ten times as long.
  expect(process.cpuUsage(started).user / 1000).toBeLessThan(2000)
})

it.each([
  ['2026-11-22T11:03:33.700', '2026-11-22T11:03:33.700000Z'],
  ['2026-11-22T12:03:33+01:00', '2026-11-22T11:03:33.000000Z'],
  [1795345413000, '2026-11-22T11:03:33.000000Z'],
  ['yesterday', undefined],
  // Postgres would refuse these, and with them the whole request.
  [7.9e15, undefined],
  [-7e15, undefined],
  ['0000-01-01T00:00:00Z', undefined],
  ['2026-02-30T10:00:00Z', undefined],
  ['2026-11-22 09:00 (x', undefined],
  ['2026-11-22T09:00:00+16:00', '2026-11-21T17:00:00.000000Z'],
  [null, undefined],
])('the first token came at %s', (time, expected) => {
  const events = [
    { name: 'start', time: 1 },
    { name: 'new_token', time },
    { name: 'new_token', time: 5 },
  ]
  expect(firstTokenTime(JSON.stringify(events))).toBe(expected)
})
