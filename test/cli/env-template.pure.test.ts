// The file of `slipway env edit`, and what a person's edits of it mean.
import { describe, expect, it } from 'vitest'
import { readTemplate, writeTemplate } from '../../src/cli/env-template.ts'

const hidden = writeTemplate(
  'shop',
  [
    { name: 'TOKEN', value: '' },
    { name: 'MODE', value: '' },
  ],
  false,
)
const VALUES = {
  PLAIN: 'hush',
  EMPTY: '',
  SPACES: ' a b ',
  COMMENT: 'a # b',
  LINES: 'one\n-TOKEN=\nthree',
  QUOTED: `it's`,
  BOTH: `'"`,
  ALL: '\'"`',
  ESCAPED: 'a\\nb',
  UNICODE: 'ü-𝄞',
}
const secrets = Object.entries(VALUES).map(([name, value]) => ({ name, value }))
const revealed = writeTemplate('shop', secrets, true)

describe('a template without values', () => {
  it.each([
    ['is saved as it is', (text: string) => text, {}],
    ['gets a value', (text: string) => text.replace('TOKEN=', 'TOKEN=new'), { set: { TOKEN: 'new' } }],
    ['gets a new variable', (text: string) => `${text}NEW="1 2"\n`, { set: { NEW: '1 2' } }],
    ['gets a new variable that is empty', (text: string) => `${text}NEW=\n`, { set: { NEW: '' } }],
    ['gets a minus', (text: string) => text.replace('TOKEN=', '-TOKEN='), { unset: ['TOKEN'] }],
    ['gets a minus and a value', (text: string) => `${text}-TOKEN=x\n`, { unset: ['TOKEN'] }],
    ['loses a line', (text: string) => text.replace('TOKEN=\n', ''), { missing: ['TOKEN'] }],
    ['loses all lines', () => '', { missing: ['TOKEN', 'MODE'] }],
  ])('%s', (_, edit, expected) => {
    const edits = readTemplate(hidden, edit(hidden))
    expect({ ...edits, missing: edits.missing.toSorted().reverse() }).toEqual({
      set: {},
      unset: [],
      missing: [],
      ...expected,
    })
  })
})

describe('a template with values', () => {
  it('has all of them but those that no .env file can have, and changes none that stays', () => {
    const { ALL: _, ...readable } = VALUES
    expect(readTemplate('', revealed)).toEqual({ set: { ...readable, ALL: '' }, unset: [], missing: [] })
    expect(readTemplate(revealed, revealed)).toEqual({ set: {}, unset: [], missing: [] })
  })

  it('empties a value whose line has none', () => {
    expect(readTemplate(revealed, revealed.replace('PLAIN=hush', 'PLAIN=')).set).toEqual({ PLAIN: '' })
  })
})
