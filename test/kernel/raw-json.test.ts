import { expect, it } from 'vitest'
import { rawJson, writeJson } from '../../src/kernel/json/raw-json.ts'

const SEVERAL = '{"a":{"n":1.10},"b":[2,3],"c":[ ]}'

it.each([
  ['no text', { a: [1, null], b: 'x' }, '{"a":[1,null],"b":"x"}'],
  ['a text alone', rawJson('12345678901234567890'), '12345678901234567890'],
  ['several texts, in their order', { a: rawJson('{"n":1.10}'), b: [rawJson('2'), 3], c: rawJson('[ ]') }, SEVERAL],
  ['a text twice', [rawJson('1e400'), rawJson('1e400')], '[1e400,1e400]'],
  ['a text that looks like a replacement pattern', [rawJson('"$& $1"'), rawJson('"$$"')], '["$& $1","$$"]'],
  ['an omitted member beside a text', { a: undefined, b: rawJson('1.0') }, '{"b":1.0}'],
])('a reply with %s is written', (_, reply, json) => {
  expect(writeJson(reply)).toBe(json)
})

it('a text is refused where it would be written as a string', () => {
  expect(() => JSON.stringify({ a: rawJson('1') })).toThrow()
  writeJson({ a: rawJson('1') })
  expect(() => JSON.stringify({ a: rawJson('1') })).toThrow()
})
