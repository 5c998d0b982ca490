// Log lines on a terminal: their colors, and the sequences that are removed.
import { styleText } from 'node:util'
import { expect, it } from 'vitest'
import { formatLogMessage } from '../../src/cli/log-lines.ts'
import type { Output } from '../../src/cli/output.ts'

const paint: Output['paint'] = (style, text) => styleText(style, text, { validateStream: false })
const onTerminal = { paint } as Output
const withoutColors = { paint: (_, text) => text } as Output

it.each([
  ['a color', '␛[32mok␛[0m', '\x1b[32mok\x1b[0m\x1b[0m', 'ok'],
  ['a color of 256', '␛[1;38;5;208mhot', '\x1b[1;38;5;208mhot\x1b[0m', 'hot'],
  ['a color of 24 bits', '␛[38;2;1;2;3mhot', '\x1b[38;2;1;2;3mhot\x1b[0m', 'hot'],
  ['a reset without a number', '␛[mok', '\x1b[mok\x1b[0m', 'ok'],
  ['hidden text', '␛[8mhidden', '␛[8mhidden', '␛[8mhidden'],
  ['a move of the cursor', '␛[2J␛[1;1Hfake', '␛[2J␛[1;1Hfake', '␛[2J␛[1;1Hfake'],
  ['a title', '␛]0;fake␇', '␛]0;fake␇', '␛]0;fake␇'],
  ['raw control characters', '\x1b[2Jfake\x07\r\n\x9b1m', ' [2Jfake    1m', ' [2Jfake    1m'],
])('%s in a line', (_, message, shown, plain) => {
  expect(formatLogMessage(onTerminal, { level: 'INFO', message })).toBe(shown)
  expect(formatLogMessage(withoutColors, { level: 'INFO', message })).toBe(plain)
})

it('has the color of its level', () => {
  const format = (level: 'DEBUG' | 'INFO' | 'WARNING' | 'CRITICAL') =>
    formatLogMessage(onTerminal, { level, message: 'x' })
  expect([format('INFO'), format('WARNING'), format('CRITICAL'), format('DEBUG')]).toEqual([
    'x',
    paint('yellow', 'x'),
    paint('red', 'x'),
    paint('dim', 'x'),
  ])
})
