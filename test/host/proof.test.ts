// `npm run proof`: what a part printed becomes a row, and a part that hangs ends with everything that it started.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { cores } from '../proof/mutants/cores.ts'
import { type Part, parts } from '../proof/parts.ts'
import { runPart } from '../proof/support/run-part.ts'
import { selectByName } from '../proof/support/selection.ts'
import { filterRunning, waitFor } from '../support/commands.ts'

const logFile = join(mkdtempSync(join(tmpdir(), 'slipway-proof-')), 'part.log')
const run = (script: string, more: Partial<Part> = {}, options: { minutes?: number; isInstalling?: boolean } = {}) =>
  runPart(
    { name: 'part', about: '', command: ['bash', '-c', script], minutes: 1, ...more },
    { isInstalling: false, minutes: 1, isShown: false, logFile, ...options },
  )

it('reads the last counts, and the reasons for what was skipped', async () => {
  const script =
    'echo 9 passed, 9 failed, 9 skipped; echo skipped the chart: no helm; echo 4 passed, 0 failed, 1 skipped'
  expect(await run(script)).toMatchObject({ passed: 4, failed: 0, skipped: 1, reasons: ['the chart: no helm'] })
  expect(readFileSync(logFile, 'utf8')).toContain('no helm')
})

it.each([
  ['that prints no count', 'echo 3 passed', 'it printed no count, and ended with 0'],
  ['with a failure', 'echo 3 passed, 1 failed, 0 skipped', '1 failed'],
  ['that ends with another status', 'echo 3 passed, 0 failed, 0 skipped; exit 7', 'it ended with 7'],
])('a part %s has failed', async (_, script, error) => expect((await run(script)).error).toBe(error))

it('stops a part after its time, with the processes that it started', async () => {
  const { error } = await run('sleep 1000 & echo $!; wait', {}, { minutes: 0.01 })
  expect(error).toBe('it was stopped after 0.01 minutes')
  // A process that was killed is there until its parent has noticed.
  await waitFor(async () => filterRunning([Number(readFileSync(logFile, 'utf8'))]).length === 0)
})

it('skips what the machine lacks, and installs it when asked', async () => {
  const part = { findObstacle: () => 'not installed: podman', install: ['true'] }
  const script = 'echo 1 passed, 0 failed, 0 skipped'
  expect(await run(script, part)).toMatchObject({
    skipped: 1,
    passed: 0,
    reasons: ['not installed: podman: --install'],
  })
  expect(await run(script, part, { isInstalling: true })).toMatchObject({ skipped: 0, passed: 1 })
})

it('lists the parts for the workflow', () => {
  const listed = execFileSync(process.execPath, ['test/proof/run.ts', '--list', '--json'], { encoding: 'utf8' })
  expect(JSON.parse(listed)).toEqual(parts.map(({ name }) => name))
})

it('refuses a name that no core of mutants has', () => {
  expect(selectByName(cores, ['PLAN'], 'core').map(({ id }) => id)).toEqual(['plan'])
  expect(selectByName(cores, [], 'core')).toEqual(cores)
  expect(() => selectByName(cores, ['plan', 'unknown'], 'core')).toThrow()
})
