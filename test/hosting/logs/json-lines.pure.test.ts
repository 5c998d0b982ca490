import { describe, expect, it } from 'vitest'
import { readIds, readJsonLine } from '../../../src/hosting/logs/json-lines.ts'
import { MAX_ATTRIBUTES, MAX_ATTRIBUTES_BYTES } from '../../../src/protocol/logs.schema.ts'

describe('the members of a JSON line', () => {
  it('are flattened, without those that the line has columns for', () => {
    const line = { level: 'info', msg: 'up', user: 42, ok: true, none: null, req: { method: 'GET', tags: ['a', 1] } }
    expect(readJsonLine(JSON.stringify(line))).toEqual({
      user: 42,
      ok: true,
      'req.method': 'GET',
      'req.tags': '["a",1]',
    })
  })

  it('are none of a line that is no object', () => {
    for (const line of ['up', '{up}', '[1]', '"{}"', '{}', '{"level":"info"}', '{"a":1} x', '']) {
      expect(readJsonLine(line), line).toBeUndefined()
    }
  })

  it('stay within their bounds, and hold nothing that a store refuses', () => {
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`m${i}`, i]))
    expect(Object.keys(readJsonLine(JSON.stringify(many))!)).toHaveLength(MAX_ATTRIBUTES)
    const long = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`m${i}`, 'x'.repeat(5000)]))
    const bytes = Buffer.byteLength(JSON.stringify(readJsonLine(JSON.stringify(long))))
    expect(bytes).toBeLessThanOrEqual(MAX_ATTRIBUTES_BYTES)
    expect(bytes).toBeGreaterThan(MAX_ATTRIBUTES_BYTES / 2)
    expect(readJsonLine(String.raw`{"a\u0000": "b\u0000\ud800", "__proto__": 1}`)).toEqual({
      'a␀': 'b␀\ufffd',
      ['__proto__']: 1,
    })
    const deep = JSON.parse(`${'{"a":'.repeat(50)}1${'}'.repeat(50)}`)
    expect(Object.keys(readJsonLine(JSON.stringify(deep))!)).toEqual(['a.a.a.a'])
  })

  it('cost no more than the line is long, and fail for no line', () => {
    const line = (value: string) => `{"a":${value},"b":1}`
    expect(readJsonLine(line('['.repeat(8000) + ']'.repeat(8000)))).toEqual({ b: 1 })
    expect(readJsonLine(line('1e999'))).toEqual({ a: 'Infinity', b: 1 })
    const members = Array.from({ length: 1000 }, (_, i) => `"${i}":1`).join(',')
    const started = performance.now()
    for (let i = 0; i < 100; i++) readJsonLine(`{"${'k'.repeat(7500)}":{${members}}}`)
    // It was 50 ms for each.
    expect(performance.now() - started).toBeLessThan(1000)
  })

  it('connect lines by the names that loggers give to ids', () => {
    const trace = '0af7651916cd43dd8448eb211c80319c'
    expect(readIds({ requestId: 'r-1', 'trace.id': trace.toUpperCase() })).toEqual({
      request_id: 'r-1',
      trace_id: trace,
    })
    expect(readIds({ trace: `projects/p/traces/${trace}` }).trace_id).toBe(trace)
    expect(readIds({ trace_id: '0af76519-16cd-43dd-8448-eb211c80319c' }).trace_id).toBe(trace)
    expect(readIds({ trace_id: 'mine', request_id: 'x'.repeat(129) })).toEqual({ request_id: null, trace_id: null })
    expect(readIds(undefined)).toEqual({ request_id: null, trace_id: null })
  })
})
