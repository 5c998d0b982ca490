import { describe, expect, it } from 'vitest'
import { kindOf, listKeys, toVerdicts } from '../../../src/tracing/rules/verdicts.ts'

const SCHEMA = {
  properties: {
    correct: { type: 'boolean' },
    score: { type: ['number', 'null'] },
    tone: { enum: ['kind', 'rude'] },
    comment: { type: 'string' },
  },
  required: ['correct'],
}

describe('an answer of an evaluator', () => {
  it('is feedback for each property, with its comment', () => {
    expect(listKeys(SCHEMA)).toEqual(['correct', 'score', 'tone'])
    expect(toVerdicts(SCHEMA, { correct: true, score: 0.5, tone: 'kind', comment: 'Fine.', other: 1 })).toEqual([
      { key: 'correct', score: true, comment: 'Fine.' },
      { key: 'score', score: 0.5, comment: 'Fine.' },
      { key: 'tone', value: 'kind', comment: 'Fine.' },
    ])
    expect(toVerdicts(SCHEMA, { correct: false, score: null })).toEqual([{ key: 'correct', score: false }])
    const text = { properties: { summary: { type: 'string' }, reasoning: { type: 'string' } } }
    expect(toVerdicts(text, { summary: 'a\0b\ud800', reasoning: 'So.' })).toEqual([
      { key: 'summary', value: 'ab\ufffd', comment: 'So.' },
    ])
    // A comment that is a number is a score of its own.
    expect(listKeys({ properties: { comment: { type: 'number' } } })).toEqual(['comment'])
  })

  it.each<[unknown]>([
    [undefined],
    ['yes'],
    [[true]],
    [{}],
    [{ correct: 'true' }],
    [{ correct: true, score: 'high' }],
    [{ correct: true, score: 1e12 }],
    [{ correct: true, tone: 'loud' }],
    [{ comment: 'Only that.' }],
  ])('%j does not fit', answer => {
    expect(toVerdicts(SCHEMA, answer)).toBeNull()
  })

  it.each([
    [{ type: 'integer' }, 'score'],
    [{ enum: [1, 2] }, 'score'],
    [{ type: 'string', enum: ['a'] }, 'text'],
    [{ type: 'object' }, undefined],
    [{ type: ['string', 'number'] }, undefined],
    [{ type: 'array' }, undefined],
    [true, undefined],
  ])('a property %j is %s', (property, kind) => {
    expect(kindOf(property)).toBe(kind)
  })
})
