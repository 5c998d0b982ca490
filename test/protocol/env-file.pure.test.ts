// The text of a .env file, read and written.
import { parseEnv } from 'node:util'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { describeUnreadLines, listUnreadLines, parseEnvFile, writeVariable } from '../../src/protocol/env-file.ts'

it.each([
  ['a value up to its comment', 'A= b c # d\nB=1', { A: 'b c', B: '1' }],
  ['quoted values, with line breaks and comment signs', 'A="a\nb#c" # d\nB=\'x\ny\'\nC=`"\'`', null],
  ['an escaped line break in double quotes only', 'A="a\\nb"\nB=\'a\\nb\'\nC=a\\nb', null],
  ['the last of several values', 'A=1\nB=2\nA=3', { A: '3', B: '2' }],
  ['lines that export, and those of Windows', '\r\nexport A=1\r\n  B = 2  \r\n', { A: '1', B: '2' }],
  ['nothing of comments and of lines without a name', '# A=1\nword\n\n', {}],
  ['a quote that is not closed as part of the value', 'A="b\nB=it\'s', { A: '"b', B: "it's" }],
  ['a value that has an equals sign', 'A=b=c==\n', { A: 'b=c==' }],
])('reads %s, as Node.js does', (_, text, expected) => {
  if (expected) expect(parseEnvFile(text)).toEqual(expected)
  expect(parseEnvFile(text)).toEqual({ ...parseEnv(text) })
})

it('reads an empty value as empty, and not the line below it', () => {
  expect(parseEnvFile('A= \nB=2\nexport C=\n')).toEqual({ A: '', B: '2', C: '' })
})

it.each([
  ['without any', '# a comment\n\nA=1\nexport B=\n  \t\nC="x\nnot a line\ny" # d', []],
  ['without an equals sign, also after a value of three lines', 'A="x\n\ny"\nno equals here\r\nB=1\nword', [4, 6]],
  ['without a name', 'A=1\n = 2\n=3', [2, 3]],
])('lists the skipped lines of a text %s', (_, text, expected) => {
  expect(listUnreadLines(text)).toEqual(expected)
  expect(describeUnreadLines(text) === undefined).toBe(expected.length === 0)
})

it('reads a long text without an equals sign in linear time', () => {
  const text = 'a\n'.repeat(1_000_000)
  const before = process.cpuUsage()
  expect(parseEnvFile(text)).toEqual({})
  // A search for one to the end of the text, from each line, takes a minute.
  expect(process.cpuUsage(before).user / 1e6).toBeLessThan(3)
})

it('writes a value so that Node.js reads it back, unless it has all three quotes', () => {
  const piece = fc.constantFrom('A', 'B', '=', '\n', '"', "'", '`', '#', ' ', '\t', '\r', '\\n', 'export ', 'x')
  const property = fc.property(fc.array(piece, { maxLength: 12 }), pieces => {
    const line = writeVariable('NAME', pieces.join(''))
    if (line !== undefined) expect(parseEnv(line).NAME).toBe(pieces.join(''))
  })
  fc.assert(property, { numRuns: 500 })
  expect(writeVariable('NAME', 'a "b" \'c\' `d` # e\nf')).toBe(undefined)
  expect(writeVariable('PEM', '-----BEGIN KEY-----\nabc=\n')).toBe("PEM='-----BEGIN KEY-----\nabc=\n'")
})
