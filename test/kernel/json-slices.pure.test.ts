// Slices of JSON texts are the texts of their members and items, byte for byte.
import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { changeItems, changeMembers, sliceArray, sliceObject } from '../../src/kernel/json/json-slices.ts'
import { expectCheap, measureCpu } from '../support/cpu-cost.ts'

it('keeps numbers, escapes and spaces of a member as they were sent', () => {
  const text =
    ' { "a" : [ 1e400, 12345678901234567890 ] ,"b\\"":"\\ud800 \\\\", "c\\u0041":{"x":"}]"},"d":-0.0\n,"e":null } '
  expect([...sliceObject(text)]).toEqual([
    ['a', '[ 1e400, 12345678901234567890 ]'],
    ['b"', '"\\ud800 \\\\"'],
    ['cA', '{"x":"}]"}'],
    ['d', '-0.0'],
    ['e', 'null'],
  ])
})

it('changes members and items, and keeps every other byte', () => {
  const text = ' { "\\u0061" : 1e400 , "b":[ 1 ,2 ], "c" : {"a":1} } '
  expect(changeMembers(text, (name, value) => [name, value])).toBe(text)
  const change = (name: string, value: string): [string, string] =>
    name === 'a' ? ['a', '7'] : name === 'b' ? ['x"', changeItems(value, item => `${item}0`)] : [name, value]
  expect(changeMembers(text, change)).toBe(' { "\\u0061" : 7 , "x\\"":[ 10 ,20 ], "c" : {"a":1} } ')
  for (const other of ['[1]', '1', '"{}"', 'null', '']) expect(changeMembers(other, () => ['a', '1'])).toBe(other)
  for (const other of ['{"a":1}', '1', '"[]"', 'null', ' [ ] ']) expect(changeItems(other, () => '1')).toBe(other)
})

it('takes the last of two members with one name', () => {
  expect([...sliceObject('{"a":1,"b":2,"a":3}')]).toEqual([
    ['a', '3'],
    ['b', '2'],
  ])
})

it('finds no members in what is no object, and no items in what is no array', () => {
  for (const text of ['[1]', '1', '"{}"', 'null', ' {} ']) expect(sliceObject(text).size).toBe(0)
  for (const text of ['{"a":1}', '1', '"[]"', 'null', ' [ ] ']) expect(sliceArray(text)).toEqual([])
})

it('cuts every JSON text into what JSON.parse finds in it', () => {
  const space = fc.constantFrom('', ' ', '\n', '\t ')
  const agrees = fc.property(fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue()), space, (value, indent) => {
    const slices = sliceObject(JSON.stringify(value, null, indent))
    const parsed = [...slices].map(([name, slice]) => [name, JSON.parse(slice)])
    expect(Object.fromEntries(parsed)).toEqual(JSON.parse(JSON.stringify(value)))
    const items = sliceArray(JSON.stringify(Object.values(value), null, indent))
    expect(items.map(slice => JSON.parse(slice))).toEqual(Object.values(JSON.parse(JSON.stringify(value))))
  })
  fc.assert(agrees, { numRuns: 200 })
})

it('takes time in proportion to the length', async () => {
  const texts = ['\\\\'.repeat(1e6), '\\"'.repeat(1e6), '['.repeat(100)].map(part => `{"a":"${part}","b":[[],{}]}`)
  const nested = `{"a":${'['.repeat(5e5)}${']'.repeat(5e5)}}`
  for (const text of texts)
    await expectCheap('a text', text.length, () => expect(sliceObject(text).get('b')).toBe('[[],{}]'))
  await expectCheap('nesting', nested.length, () => expect(sliceObject(nested).get('a')!.length).toBe(1e6))
})

it('a text of escaped quotes costs less than a list of as many characters', async () => {
  const [text, list] = [`"${'\\"'.repeat(500_000)}"`, `[${'"",'.repeat(500_000)}1]`].map(value => `{"a":${value}}`)
  const budget = await measureCpu(() => sliceObject(list!))
  await expectCheap('escaped quotes', text!.length, () => expect(sliceObject(text!).size).toBe(1), budget)
})

it('ends a text at its first quote that no backslash escapes, wherever a search begins', () => {
  for (let plain = 0; plain < 40; plain++)
    for (let backslashes = 0; backslashes < 40; backslashes++) {
      const value = JSON.stringify(`${'a'.repeat(plain)}${'\\'.repeat(backslashes)}"${'b'.repeat(plain)}`)
      expect(sliceObject(`{"a":${value},"b":1}`).get('a')).toBe(value)
    }
})
