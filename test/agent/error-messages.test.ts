// Unexpected errors are described without details of the agent's machine.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { describeError } from '../../src/agent/redaction/error-messages.ts'

const thrown = (work: () => unknown): unknown => {
  try {
    return work()
  } catch (error) {
    return error
  }
}

test.each<[string, () => unknown]>([
  ['a name that is too long', () => thrown(() => fs.lstatSync(`/srv/agent/${'n'.repeat(300)}`))],
  ['a missing file', () => thrown(() => fs.readFileSync('/srv/agent/missing'))],
  ['two paths', () => thrown(() => fs.renameSync('/srv/agent/one', '/srv/agent/other'))],
  ['a folder that is a file', () => thrown(() => fs.readdirSync('/dev/null/srv'))],
  ['a missing program', async () => (await once(spawn('/srv/agent/program'), 'error'))[0]],
  ['a socket', async () => (await once(connect('/srv/agent/engine.sock'), 'error'))[0]],
])('%s', async (_, failing) => {
  const told = describeError(await failing())
  expect(told).toMatch(/^[a-z][^/']+ \(E[A-Z]+\)$/)
})

test('a message written for users is not changed', () => {
  expect(describeError(new Error('The branch is not there: push it.'))).toBe('The branch is not there: push it.')
})
