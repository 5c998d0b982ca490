// The filter language: what is read, what is refused and where.
import { describe, expect, it } from 'vitest'
import { type Filter, FilterFault, parseFilter } from '../../../../src/tracing/runs/filter/grammar.ts'
import { expectCheap } from '../../../support/cpu-cost.ts'
import * as fc from '../../../support/seeded-fast-check.ts'

/** Writes a filter in one spelling. */
function write(filter: Filter): string {
  if ('parts' in filter) return `${filter.operator}(${filter.parts.map(write).join(', ')})`
  const { operator, field, values } = filter
  const written = values.map(value => JSON.stringify(value)).join(', ')
  const list = operator === 'in' ? `[${written}]` : written
  return `${operator}(${field === null ? list : `${field}, ${list}`})`
}

const faultOf = (text: string): FilterFault => {
  try {
    parseFilter(text)
  } catch (error) {
    return error as FilterFault
  }
  throw new Error(`was read: ${text}`)
}

describe('a filter', () => {
  it.each([
    // Published clients and their documentation send these filters.
    'and(in(metadata_key, ["session_id", "conversation_id", "thread_id"]), eq(metadata_value, "t-1"))',
    'eq(name, "extractor")',
    'and(eq(feedback_key, "user_score"), eq(feedback_score, 1))',
    'and(eq(feedback_key, "star_rating"), gt(feedback_score, 4))',
    'gt(latency, "5s")',
    'neq(error, null)',
    'gt(start_time, "2023-07-15T12:34:56Z")',
    'search("substring")',
    'has(tags, "2aa1cf4")',
    'or(neq(error, null), and(eq(feedback_key, "Correctness"), eq(feedback_score, 0)))',
    'and(or(has(tags, "experimental"), has(tags, "beta")), gt(latency, 2))',
    'and(neq(metadata_key, "conversation_id"))',
    'and(eq(is_root, true), and(eq(feedback_key, "user_score"), eq(feedback_score, 1)))',
    'and(not(has(metadata, "{\\"foo\\": \\"bar\\"}")), exists(metadata, "tenant_id"))',
    'like(name, "%Open%")',
    'search(inputs, "words")',
    'in(run_type, [])',
  ])('is read: %s', text => {
    expect(write(parseFilter(text))).toBe(text)
  })

  it.each([
    ["eq(metadata_key, 'user_id')", 'eq(metadata_key, "user_id")'],
    [' eq (\n\tname,\r "a" ) ', 'eq(name, "a")'],
    [String.raw`eq(name, 'it\'s')`, `eq(name, "it's")`],
    [String.raw`eq(name, "a\n\u00e9\/\q")`, String.raw`eq(name, "a\né/q")`],
    ['eq(name, "\u{1f600} ,)(")', 'eq(name, "\u{1f600} ,)(")'],
    ['eq(feedback_score, 0.0)', 'eq(feedback_score, 0)'],
    ['eq(feedback_score, -1.5E3)', 'eq(feedback_score, -1500)'],
    ['eq(error, None)', undefined],
    ['eq(is_root, True)', 'eq(is_root, true)'],
    ['eq(error, NULL)', 'eq(error, null)'],
  ])('in another spelling is the same: %s', (text, written) => {
    if (written === undefined) expect(faultOf(text)).toBeInstanceOf(FilterFault)
    else expect(write(parseFilter(text))).toBe(written)
  })

  it.each([
    ['', 1],
    ['   ', 4],
    ['name', 1],
    ['eq', 3],
    ['eq(', 4],
    ['eq(name', 8],
    ['eq(name)', 8],
    ['eq(name,', 9],
    ['eq(name, )', 10],
    ['eq(name, "a"', 13],
    ['eq(name, "a))', 10],
    ['eq(name, "a\\")', 10],
    ['eq(name, "a") eq(name, "a")', 15],
    ['eq(name, "a", "b")', 13],
    ['eq(name, a)', 10],
    ['eq(name, [1])', 10],
    ['eq("name", 1)', 4],
    ['in(name, "a")', 10],
    ['in(name, ["a" "b"])', 15],
    ['in(name, ["a",,])', 15],
    ['and()', 5],
    ['and(eq(name, 1),)', 17],
    ['and("a")', 5],
    ['not()', 5],
    ['not(eq(id, 1), eq(id, 2))', 14],
    ['nand(eq(name, 1))', 1],
    ['EQ(name, 1)', 1],
    ['eq(name, 1) -- or', 13],
    ['eq(name, 1); drop table runs', 12],
    ['eq(name, 1.)', 10],
    ['eq(name, 1a)', 10],
    ['eq(name, .5)', 10],
    ['eq(name, 9007199254740993)', 10],
    ['eq(name, 1e400)', 10],
    ['eq(name, "a\\u0000")', 10],
    ['eq(name, "a\\ud800")', 10],
    ['search()', 8],
    ['search("a", "b")', 11],
    ['search(1)', 8],
  ])('is refused where it goes wrong: %s', (text, position) => {
    expect([text, faultOf(text).position]).toEqual([text, position])
  })

  it('is nested at most 20 levels, and has at most 100 calls and 1000 values in a list', () => {
    const nested = (levels: number) => `${'not('.repeat(levels - 1)}eq(id, 1)${')'.repeat(levels - 1)}`
    const wide = (calls: number) =>
      `or(${Array(calls - 1)
        .fill('eq(id, 1)')
        .join()})`
    const long = (values: number) => `in(id, [${Array(values).fill('1').join()}])`
    for (const [build, most] of [
      [nested, 20],
      [wide, 100],
      [long, 1000],
    ] as const) {
      expect(() => parseFilter(build(most))).not.toThrow()
      expect(() => parseFilter(build(most + 1))).toThrow(FilterFault)
    }
  })

  it('with hostile characters is read or refused with a position inside it', () => {
    const piece = fc.constantFrom(
      'and(',
      'or(',
      'not(',
      'eq(',
      'in(',
      'search(',
      ')',
      ',',
      '[',
      ']',
      '"',
      "'",
      '\\',
      'name',
      '"a"',
      '1',
      '-',
      '.',
      '1e9',
      'true',
      'null',
      ' ',
      '\n',
      '\0',
      '\ud800',
      '\u2028',
      'é',
      '$1',
      ';',
      '--',
      '/*',
      '{}',
      '(',
      'e',
    )
    fc.assert(
      fc.property(
        fc.oneof(
          fc.array(piece, { maxLength: 60 }).map(pieces => pieces.join('')),
          fc.string(),
        ),
        text => {
          try {
            const filter = parseFilter(text)
            expect(write(parseFilter(write(filter)))).toBe(write(filter))
          } catch (error) {
            const { position } = error as FilterFault
            expect(error).toBeInstanceOf(FilterFault)
            expect(position).toBeGreaterThanOrEqual(1)
            expect(position).toBeLessThanOrEqual(text.length + 1)
          }
        },
      ),
      { numRuns: 2_000 },
    )
  })

  it('that is written and read again is the same', () => {
    const literal = fc.oneof(
      fc.string({ unit: 'grapheme' }).filter(text => !text.includes('\0')),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
    )
    const { filter } = fc.letrec<{ filter: Filter; condition: Filter }>(tie => ({
      condition: fc.record({
        operator: fc.constantFrom('eq', 'neq', 'gt', 'like', 'has'),
        field: fc.constantFrom('name', 'metadata_key', 'latency'),
        values: literal.map(value => [value]),
        position: fc.constant(0),
      }) as fc.Arbitrary<Filter>,
      filter: fc.oneof(
        { maxDepth: 4 },
        tie('condition'),
        fc.record({
          operator: fc.constantFrom('and', 'or'),
          parts: fc.array(tie('filter'), { minLength: 1, maxLength: 3 }),
        }) as fc.Arbitrary<Filter>,
        fc.record({ operator: fc.constant('not'), parts: tie('filter').map(part => [part]) }) as fc.Arbitrary<Filter>,
      ),
    }))
    const withoutPositions = (tree: Filter): Filter =>
      'parts' in tree ? { ...tree, parts: tree.parts.map(withoutPositions) } : { ...tree, position: 0 }
    fc.assert(
      fc.property(filter, tree => {
        expect(withoutPositions(parseFilter(write(tree)))).toEqual(tree)
      }),
    )
  })

  it('with the greatest length takes a few milliseconds', async () => {
    const length = 20_000
    const texts = ['not('.repeat(length / 4), `"${'\\"'.repeat(length / 2 - 1)}`, `eq(a, '${'\\'.repeat(length - 8)}`]
    texts.push(`in(a, [${'1,'.repeat(length / 2 - 8)}])`, ' '.repeat(length), '1'.repeat(length), 'a'.repeat(length))
    texts.push('x'.repeat(10_000_000))
    for (const text of texts) await expectCheap('a filter', text.length, () => faultOf(text), 50)
  })
})
