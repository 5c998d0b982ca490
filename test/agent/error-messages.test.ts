// Unexpected errors are described without paths of the agent's machine.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { describeError } from '../../src/agent/redaction/error-messages.ts'

const catchError = (work: () => unknown): unknown => {
  try {
    return work()
  } catch (error) {
    return error
  }
}

test.each<[string, () => unknown]>([
  ['a name that is too long', () => catchError(() => fs.lstatSync(`/srv/agent/${'n'.repeat(300)}`))],
  ['a missing file', () => catchError(() => fs.readFileSync('/srv/agent/missing'))],
  ['two paths', () => catchError(() => fs.renameSync('/srv/agent/one', '/srv/agent/other'))],
  ['a file that is not a folder', () => catchError(() => fs.readdirSync('/dev/null/srv'))],
  ['a missing program', async () => (await once(spawn('/srv/agent/program'), 'error'))[0]],
  ['a missing socket', async () => (await once(connect('/srv/agent/engine.sock'), 'error'))[0]],
])('the description of an error about %s contains no path', async (_, fail) => {
  const description = describeError(await fail())
  expect(description).toMatch(/^[a-z][^/']+ \(E[A-Z]+\)$/)
})

test('a message written for users is not changed', () => {
  expect(describeError(new Error('The branch does not exist. Push it.'))).toBe('The branch does not exist. Push it.')
})
