import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkJson, findJsonFault } from '../../src/kernel/json/json-check.ts'
import { expectCheap, measureCpu } from '../support/cpu-cost.ts'

const parses = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
const LONG = 'x'.repeat(100)
const MANY = 500_000

it.each([
  '{}',
  '[]',
  ' [ ] ',
  '""',
  '0',
  '-0',
  '1.5e+10',
  'true',
  'false',
  'null',
  '\t\r\n1 ',
  '[1,{"a":[]},"b"]',
  '1E1',
  '{"a":1,"b":{"c":[null]}}',
  '{"a" : 1 , "a" : 2}',
  '"\\u00e9\\"\\\\\\/\\b\\f\\n\\r\\t"',
  '"\ud800"',
  '"\u2028\x7f"',
  `"${LONG}"`,
  `"${LONG}\\n${LONG}"`,
  `["${LONG}","${LONG}"]`,
  `"${'\\u0041'.repeat(50)}"`,
])('%j is JSON', text => {
  expect([findJsonFault(text, 64), parses(text)]).toEqual([null, true])
})

it.each([
  '',
  ' ',
  '{',
  '[',
  '"',
  '}',
  ']',
  ',',
  ':',
  '[1',
  '[1,',
  '[1,]',
  '[,1]',
  '[1 2]',
  '{"a"}',
  '{"a":}',
  '{"a":1,}',
  '{a:1}',
  "{'a':1}",
  '{1:1}',
  '{"a":1 "b":2}',
  '{"a"::1}',
  '[}',
  '{]',
  '[[1}]',
  '1 1',
  '01',
  '.5',
  '1.',
  '1e',
  '+1',
  '-',
  'nul',
  'nulll',
  'True',
  'NaN',
  'Infinity',
  'undefined',
  '"\n"',
  '"\0"',
  '"\\x"',
  '"\\u00g0"',
  '"\\"',
  '"\\u123',
  `"${LONG}`,
  `"${LONG}\n"`,
  `"${LONG}\\x"`,
  '\ufeff1',
  '\u00a01',
  '[1]]',
  '{}{}',
  '//',
  '[1,/**/2]',
  '0x1',
  '1_0',
])('%j is not JSON', text => {
  expect([findJsonFault(text, 64)?.type, parses(text)]).toEqual(['json_invalid', false])
})

it('judges every text as JSON.parse does', () => {
  const sound = fc.jsonValue({ maxDepth: 5 }).map(value => JSON.stringify(value))
  const broken = fc
    .tuple(sound, fc.nat(), fc.nat(3), fc.string({ unit: fc.constantFrom(...'{}[]":,\\ \n0e-.tu') }))
    .map(([text, at, length, other]) => {
      const start = at % (text.length + 1)
      return text.slice(0, start) + other + text.slice(start + length)
    })
  const agrees = fc.property(fc.oneof(sound, broken), text => {
    expect(findJsonFault(text, 64) === null).toBe(parses(text))
  })
  fc.assert(agrees, { numRuns: 1000 })
})

it('counts the levels of objects and arrays', () => {
  expect(findJsonFault('[{"a":[1]},{"a":[1]}]', 3)).toBeNull()
  expect(findJsonFault('[{"a":[[]]}]', 3)?.type).toBe('too_deep')
  expect(findJsonFault('['.repeat(1_000_000), 64)?.type).toBe('too_deep')
  expect(findJsonFault(`${'['.repeat(64)}${']'.repeat(64)}`, 64)).toBeNull()
})

describe('the time for 8 MiB stays within its budget', () => {
  it.each(['[],', '1,', '"",', '"\\n",', '{"a":1},', '" ",', `"${LONG}",`])('for %s', async unit => {
    // A body comes from bytes, too: a text that was put together of parts is slower to read.
    const text = Buffer.from(`[${unit.repeat((8 * 1024 * 1024) / unit.length)}1]`).toString()
    await expectCheap(unit, text.length, () => expect(findJsonFault(text, 64)).toBeNull())
  })
})

it.each([
  ['1', 1],
  ['[]', 1],
  ['[[],[],0,"a"]', 5],
  ['{"a":1,"b":{"c":[null]}}', 8],
  [' { } ', 1],
])('%s has %i values and names', (text, seen) => {
  expect(checkJson(text, { maxDepth: 64, maxValues: seen })).toEqual({ fault: null, seen })
  expect(checkJson(text, { maxDepth: 64, maxValues: seen - 1 }).fault).toMatchObject({ type: 'too_many_values' })
})

it('stops reading at the limit of values', async () => {
  const text = `[${'[],'.repeat(4_000_000)}[]]`
  const check = () => expect(checkJson(text, { maxDepth: 64, maxValues: 1000 }).seen).toBe(1001)
  await expectCheap('a limit', 64 * 1024, check)
})

it.each(['\\n', '\\"'])('a text of %s costs less than a list of as many characters', async unit => {
  const [text, list] = [`"${unit.repeat(MANY)}"`, `[${'"",'.repeat(MANY)}1]`]
  const budget = await measureCpu(() => findJsonFault(list, 64))
  await expectCheap(unit, text.length, () => expect(findJsonFault(text, 64)).toBeNull(), budget)
})
