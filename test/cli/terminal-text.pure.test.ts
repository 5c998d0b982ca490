// Text of a server on a terminal.
import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { shellWord } from '../../src/cli/failure.ts'
import { printableWithStyles, toJson } from '../../src/cli/terminal-text.ts'

it.each([
  ['the clipboard', '\x1b]52;c;eA==\x07'],
  ['the title', '\x1b]0;title\x1b\\'],
  ['the cursor', '\x1b[2A\x1b[K\r'],
  ['hidden text', '\x1b[8m'],
  ['one character for both of an escape sequence', '\u009b2A'],
  ['the order of letters', '\u202ecod.exe\u2066'],
])('a name that would change %s is shown without its control characters', (_, text) => {
  expect(printableWithStyles(text)).not.toMatch(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/u)
  expect(toJson({ text })).not.toMatch(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/u)
  expect(JSON.parse(toJson({ text }, 2))).toEqual({ text })
})

it('colors, line ends and tabs stay', () => {
  const text = '\x1b[1mshop\x1b[22m\n\t\x1b[38;5;208mready\x1b[39m'
  expect(printableWithStyles(text)).toBe(text)
})

it('a shell reads a word of a next command as the text it was', () => {
  const words = ['shop', 'my folder', '$(id)', "it's", '`id`; x', 'a\nb', '-n', '*']
  const script = `printf '%s\\0' ${words.map(shellWord).join(' ')}`
  expect(execFileSync('sh', ['-c', script], { encoding: 'utf8' }).split('\0')).toEqual([...words, ''])
})
