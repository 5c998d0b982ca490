// Log lines of `npm run dev` on a terminal.
import { stripVTControlCharacters } from 'node:util'
import { expect, test } from 'vitest'
import { formatLogEntry, parseLogLine } from '../../src/host/log-lines.ts'

const time = new Date(2026, 0, 2, 12, 0, 1)
const format = (entry: object, hasColors = false) =>
  formatLogEntry(parseLogLine(JSON.stringify(entry))!, { time, hasColors })

const request = { level: 'info', request_id: 'r-1', method: 'GET', path: '/v2/deployments', status: 200, ms: 8 }
const caller = { organization_id: 'o', tenant_id: 't', actor_id: 'a' }

test.each([
  ['a request that succeeded', { ...request, ...caller }, '200 GET /v2/deployments 8 ms'],
  [
    'a request that failed, with its code and id',
    { ...request, ...caller, status: 404, code: 'deployment_not_found' },
    '404 GET /v2/deployments 8 ms deployment_not_found request_id=r-1',
  ],
  ['an error', { level: 'error', request_id: 'r-1', error: 'Failure', message: 'No.' }, 'Failure: No. request_id=r-1'],
  [
    'an error with its stack',
    { error: 'Error', message: 'No.', stack: 'Error: No.\n    at f' },
    'Error: No.\n      at f',
  ],
  ['a notice', { level: 'warn', notice: 'One login does everything.' }, 'One login does everything.'],
  [
    'an event of the agent',
    { event: 'revision serving', deployment: 'shop', revision: 2, url: null },
    'revision serving deployment=shop revision=2',
  ],
  [
    'an event of the agent that is about an error',
    { event: 'poll failed', error: 'No route to host.' },
    'poll failed error="No route to host."',
  ],
  ['anything else', { level: 'info', items: [1] }, '{"level":"info","items":[1]}'],
])('%s is one short line with the time', (_, entry, line) => {
  expect(format(entry)).toBe(`12:00:01 ${line}`)
})

test('successes, mistakes of clients and failures of the server have different colors', () => {
  const lines = [200, 404, 500].map(status => format({ ...request, status }, true))
  expect(new Set(lines.map(line => line.split('12:00:01')[0])).size).toBe(3)
  expect(lines.map(line => stripVTControlCharacters(line))).toEqual(
    [200, 404, 500].map(status => expect.stringMatching(`^12:00:01 ${status} GET `)),
  )
})

test('nothing that a request or an application wrote can move the cursor or imitate another line', () => {
  const forged = 'x\x1b[2J\r\x07\n12:00:01 200 GET / 1 ms'
  for (const entry of [{ ...request, path: forged }, { error: forged }, { event: 'revision failed', reason: forged }]) {
    const line = format(entry)
    for (const character of ['\x1b', '\r', '\x07']) expect(line).not.toContain(character)
    expect(line.split('\n').slice(1)).toEqual([expect.stringMatching(/^ {2}12:00:01 /)])
  }
})

test('a line that is not a JSON object is not an entry', () => {
  for (const line of ['', 'Listening', '12', 'null', '{']) expect(parseLogLine(line)).toBeUndefined()
})
