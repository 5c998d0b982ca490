// Fields of filters: which operators and values they take, and which conditions are about one pair.
import { describe, expect, it } from 'vitest'
import { Failure } from '../../../../src/kernel/http/errors.ts'
import { RUN_FIELDS } from '../../../../src/tracing/runs/filter/fields.ts'
import { FilterFault, parseFilter } from '../../../../src/tracing/runs/filter/grammar.ts'
import {
  type ResolvedFilter,
  readFilters,
  resolveFilter,
  resolveFilters,
} from '../../../../src/tracing/runs/filter/resolve.ts'
import { toRegularExpression } from '../../../../src/tracing/store/postgres/text-matches.ts'

const resolve = (text: string) => resolveFilter(parseFilter(text), RUN_FIELDS)
const valuesOf = (text: string) => (resolve(text) as { values: unknown[] }).values

/** Pairs in braces: `{…}` is some pair, `!{…}` no pair. */
function sketch(filter: ResolvedFilter): string {
  if ('parts' in filter) return `${filter.operator}(${filter.parts.map(sketch).join(' ')})`
  if ('conditions' in filter)
    return `${filter.operator === 'none' ? '!' : ''}{${filter.conditions.map(sketch).join(' ')}}`
  return `${filter.field} ${filter.operator} ${filter.values.join()}`
}

describe('the value of a field', () => {
  it.each([
    ['gt(latency, "5s")', 5],
    ['gt(latency, "500ms")', 0.5],
    ['gt(latency, "1.5 h")', 5400],
    ['gt(latency, 2)', 2],
    ['eq(total_tokens, "12")', 12],
    ['eq(is_root, 1)', true],
    ['eq(is_root, "false")', false],
    ['eq(name, 5)', '5'],
    ['eq(error, null)', null],
    ['eq(id, "ABCDEF01-0000-4000-8000-000000000000")', 'abcdef01-0000-4000-8000-000000000000'],
    ['gt(start_time, "2023-07-15T12:34:56Z")', '2023-07-15T12:34:56.000000Z'],
    ['gt(start_time, "2023-07-15T12:34:56.123456")', '2023-07-15T12:34:56.123456Z'],
    ['gt(start_time, "2023-07-15 12:34+0200")', '2023-07-15T10:34:00.000000Z'],
    ['gt(start_time, "2023-01-01T00:00:00.5+23:59")', '2022-12-31T00:01:00.500000Z'],
    ['gt(start_time, "2023-07-15")', '2023-07-15T00:00:00.000000Z'],
    ['has(metadata, \'{ "a" : [1.0] }\')', '{"a":[1]}'],
  ])('is read: %s', (text, value) => {
    expect(valuesOf(text)).toEqual([value])
  })

  it.each([
    'gt(latency, "5 parsecs")',
    'gt(latency, "s")',
    'gt(latency, null)',
    'eq(total_tokens, "many")',
    'eq(total_tokens, true)',
    'in(total_tokens, [1, null])',
    'eq(is_root, 2)',
    'eq(id, "1")',
    'eq(id, 1)',
    'gt(start_time, "yesterday")',
    'gt(start_time, "2023-02-30")',
    'gt(start_time, "2023-13-01")',
    'gt(start_time, "2023-07-15T25:00:00Z")',
    'gt(start_time, "0001-01-01")',
    'gt(start_time, "2023-07-15T12:00:00+99:00")',
    'gt(start_time, 5)',
    'gt(start_time, "9999-12-31T23:00:00-10:00")',
    `has(metadata, '${'{"a":'.repeat(300)}1${'}'.repeat(300)}')`,
    'has(tags, 1)',
    'has(metadata, "a")',
    'has(metadata, "[1]")',
    'has(metadata, "{")',
    String.raw`has(metadata, '{"a": "\\u0000"}')`,
    String.raw`has(metadata, '{"a": "\\udc00"}')`,
    'like(name, 1)',
    'search(error, null)',
    'search(" ")',
    `search("${'word '.repeat(21)}")`,
    `search(name, "${'word '.repeat(21)}")`,
    String.raw`like(name, "a\\")`,
    `like(name, "${'a'.repeat(256)}")`,
    `like(name, "${'a_'.repeat(17)}")`,
    `search(name, "${'a'.repeat(256)}")`,
    'eq(tags, "a")',
    'eq(metadata, "{}")',
    'gt(is_root, true)',
    'lt(id, "abcdef01-0000-4000-8000-000000000000")',
    'eq(inputs, "a")',
    'has(name, "a")',
    'eq(nme, "a")',
    'eq(constructor, "a")',
    'eq(__proto__, "a")',
    'or(eq(name, "a"), eq(nme, "a"))',
  ])('or its operator is refused: %s', text => {
    expect(() => resolve(text)).toThrow(FilterFault)
  })
})

describe('conditions on pairs', () => {
  it.each([
    ['eq(metadata_key, "k")', '{metadata_key eq k}'],
    ['and(eq(metadata_key, "k"), eq(metadata_value, "v"))', '{metadata_key eq k metadata_value eq v}'],
    ['and(eq(metadata_value, "v"), eq(metadata_key, "k"))', '{metadata_key eq k metadata_value eq v}'],
    // Negative filters, as the documentation of published clients explains them.
    ['and(neq(metadata_key, "k"))', '!{metadata_key eq k}'],
    ['and(eq(metadata_key, "k"), neq(metadata_value, "v"))', '{metadata_key eq k metadata_value neq v}'],
    ['and(neq(metadata_key, "k"), neq(metadata_value, "v"))', 'and(!{metadata_key eq k} !{metadata_value eq v})'],
    ['and(neq(metadata_key, "k"), eq(metadata_value, "v"))', 'and(!{metadata_key eq k} {metadata_value eq v})'],
    [
      'and(eq(name, "n"), eq(feedback_key, "a"), gt(feedback_score, 1), eq(feedback_key, "b"), lt(feedback_score, 2))',
      'and(name eq n {feedback_key eq a feedback_score gt 1} {feedback_key eq b feedback_score lt 2})',
    ],
    [
      'and(and(eq(input_key, "a"), eq(input_value, "b")), and(eq(output_key, "a"), eq(output_value, "b")))',
      'and({input_key eq a input_value eq b} {output_key eq a output_value eq b})',
    ],
    ['or(eq(feedback_key, "a"), eq(feedback_score, 1))', 'or({feedback_key eq a} {feedback_score eq 1})'],
    ['and(gt(feedback_score, 1), lt(feedback_score, 3))', 'and({feedback_score gt 1} {feedback_score lt 3})'],
    ['not(and(eq(feedback_key, "a"), eq(feedback_score, 1)))', 'not({feedback_key eq a feedback_score eq 1})'],
  ])('%s: %s', (text, expected) => {
    expect(sketch(resolve(text))).toBe(expected)
  })
})

describe('the filters of a request', () => {
  it('are read by their names, and empty ones filter nothing', () => {
    const filters = readFilters({ filter: 'eq(name, "a")', trace_filter: null, tree_filter: ' ' }, RUN_FIELDS)
    expect(Object.keys(filters)).toEqual(['filter'])
  })

  it('are refused with the faults of all of them', () => {
    const read = () =>
      readFilters({ filter: 'eq(', trace_filter: 'eq(id, 1)', tree_filter: 'eq(name, "a")' }, RUN_FIELDS)
    expect(read).toThrow(Failure)
    try {
      read()
    } catch (error) {
      const { code, extra } = error as Failure
      expect([code, extra.errors!.map(({ loc }) => loc)]).toEqual([
        'filter_invalid',
        [
          ['body', 'filter'],
          ['body', 'trace_filter'],
        ],
      ])
    }
  })
})

describe('patterns and words', () => {
  const like = (count: number) => `or(${Array.from({ length: count }, () => 'like(name, "a%")').join(', ')})`

  it('are thirty in one filter, together', () => {
    const faultOf = (filter: string) => resolveFilters({ filter }, RUN_FIELDS).faults[0]?.fault.position
    expect(faultOf(like(30))).toBeUndefined()
    expect(faultOf(like(31))).toBe(like(30).length + 2)
    expect(faultOf(`and(${like(12)}, search("${'a '.repeat(19)}"))`)).toBe(like(12).length + 7)
  })

  it('may have 255 characters, and 16 wildcards besides escaped ones', () => {
    expect(() => resolve(`like(name, "${'a'.repeat(255)}")`)).not.toThrow()
    expect(() => resolve(`like(name, "${'_%'.repeat(8)}")`)).not.toThrow()
    expect(() => resolve(`like(name, "${'\\\\_'.repeat(20)}")`)).not.toThrow()
  })
})

describe('a pattern as a regular expression', () => {
  it.each([
    ['a', '^a$'],
    ['', '^$'],
    ['%', ''],
    ['%%', ''],
    ['%a', 'a$'],
    ['a%', '^a'],
    ['%a%b_%', 'a.*b.'],
    ['%_%', '.'],
    ['\\%a\\\\%', '^%a\\\\'],
    ['a.b|(c)', '^a\\.b\\|\\(c\\)$'],
  ])('%s', (pattern, expected) => {
    expect(toRegularExpression(pattern)).toBe(expected)
  })
})
