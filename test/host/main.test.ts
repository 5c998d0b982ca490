import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import commands from '../../src/host/commands.json' with { type: 'json' }

const run = promisify(execFile)
const MAIN = fileURLToPath(new URL('../../src/host/main.mjs', import.meta.url))

test.each(Object.entries(commands))('the module of slipway %s exists', (_, { module }) => {
  expect(existsSync(new URL(module, new URL('../../src/host/', import.meta.url)))).toBe(true)
})

test('a command that does not exist lists those that do', async () => {
  const failure = await run(process.execPath, [MAIN, 'strat']).catch(error => error)
  expect(failure.code).toBe(2)
  for (const name of Object.keys(commands)) expect(failure.stderr).toContain(`  ${name} `)
})

test('a program gets its options', async () => {
  const { stdout } = await run(process.execPath, [MAIN, 'bootstrap', '--help'])
  expect(stdout).toContain('--organization')
})
