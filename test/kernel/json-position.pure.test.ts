// The position of a JSON error, against JSON.parse.
import { describe, expect, it } from 'vitest'
import { describeJsonError } from '../../src/kernel/json/json-position.ts'
import * as fc from '../support/seeded-fast-check.ts'

const positionOf = (text: string) => /line (\d+), column (\d+)/.exec(describeJsonError(text))!.slice(1, 3).map(Number)

describe('the position of a JSON error', () => {
  it.each([
    ['', [1, 1]],
    ['{', [1, 2]],
    ['{"a": }', [1, 7]],
    ['{"a": 1,}', [1, 9]],
    ['{\n  "a": 1\n  "b": 2\n}', [3, 3]],
    ["{'a': 1}", [1, 2]],
    ['[1, 2', [1, 6]],
    ['[01]', [1, 3]],
    ['{"a": undefined}', [1, 7]],
    ['{"a": "line\nbreak"}', [1, 7]],
    ['{} {}', [1, 4]],
    ['nul', [1, 1]],
  ])('in %j is %j', (text, position) => expect(positionOf(text)).toEqual(position))

  it('is after every valid text, so no valid token counts as an error', () => {
    fc.assert(
      fc.property(fc.json(), text => {
        const lines = text.split('\n')
        expect(positionOf(text)).toEqual([lines.length, lines.at(-1)!.length + 1])
      }),
    )
  })

  it('is at the end of a text that only lacks its rest', () => {
    fc.assert(
      fc.property(fc.json(), fc.string(), fc.nat(), (json, noise, cut) => {
        const line = (json.slice(0, cut % json.length) + noise).replace(/[\n\r]/g, ' ')
        const [, column] = positionOf(line)
        expect(positionOf(line.slice(0, column! - 1))).toEqual([1, column])
      }),
    )
  })
})
