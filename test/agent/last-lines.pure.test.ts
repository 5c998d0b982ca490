// The lines of a log that the message of a failure contains.
import { expect, test } from 'vitest'
import { cutMessage } from '../../src/agent/redaction/redaction.ts'
import { appendLastLines, selectLastLines, truncateText } from '../../src/agent/system/last-lines.ts'

test('the message and the first stack frames of an uncaught exception in Node are selected', () => {
  const output = `
> start
> node main.cjs

connecting
/app/main.cjs:1
throw new Error('DATABASE_URL is not set')
^

Error: DATABASE_URL is not set
    at Object.<anonymous> (/app/main.cjs:1:50)
    at Module._compile (node:internal/modules/cjs/loader:1929:14)
    at Object..js (node:internal/modules/cjs/loader:2060:10)
    at Module.load (node:internal/modules/cjs/loader:1651:32)

Node.js v24.21.0
npm error
npm error A complete log of this run can be found in: /home/x/.npm/_logs/1.log`
  expect(selectLastLines(output.split('\n'))).toEqual([
    'connecting',
    '/app/main.cjs:1',
    "throw new Error('DATABASE_URL is not set')",
    '^',
    'Error: DATABASE_URL is not set',
    '    at Object.<anonymous> (/app/main.cjs:1:50)',
    '    at Module._compile (node:internal/modules/cjs/loader:1929:14)',
  ])
})

test('the newest lines are selected', () => {
  const many = Array.from({ length: 50 }, (_, i) => `line ${i}`)
  expect(selectLastLines(many).at(-1)).toBe('line 49')
  expect(selectLastLines(many).length).toBeLessThan(20)
})

test('lines without terminal escapes and without empty lines are selected', () => {
  expect(selectLastLines(['\x1b[31merror\x1b[39m TS2304\0', '\x1b[2m\x1b[22m'])).toEqual(['error TS2304'])
})

test('lines are appended to a message only if one was selected', () => {
  expect(appendLastLines('It ended.', ['', '> start'])).toBe('It ended.')
  expect(appendLastLines('It ended.', ['why'])).toBe('It ended. Its last lines:\nwhy')
})

test('a truncated text never ends within a surrogate pair', () => {
  for (const text of ['🚀'.repeat(2000), `a${'🚀'.repeat(2000)}`, `${'🚀'.repeat(2000)}a`])
    expect([cutMessage(text).isWellFormed(), truncateText(text, 1001).isWellFormed()]).toEqual([true, true])
})
