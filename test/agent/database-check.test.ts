// The command that tries an attached database, run with what different images have, against a real Postgres.
import { execFile, spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import { delimiter, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CHECK_CODES, checkCommand, describeCheck } from '../../src/agent/reconcile/database-check.ts'
import { startPostgres } from '../../src/host/embedded-postgres.ts'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { makeTempFolder } from '../support/process-engine.ts'

const { unreachable, refused, noAddress, noTool } = CHECK_CODES
let folder: string
let postgres: Awaited<ReturnType<typeof startPostgres>>
let unused: number
beforeAll(async () => {
  folder = makeTempFolder()
  postgres = await startPostgres({ dataDir: join(folder, 'postgres'), durable: false })
  unused = await findFreePort()
})
afterAll(async () => {
  await postgres.stop()
  fs.rmSync(folder, { recursive: true, force: true })
})

const find = (name: string) =>
  process.env
    .PATH!.split(delimiter)
    .map(path => join(path, name))
    .find(file => fs.existsSync(file))
/** Runs it with these programs alone. The packages of this folder are those of the application. */
function check(programs: Record<string, string | undefined>, DATABASE_URL: string, cwd = process.cwd()) {
  const PATH = fs.mkdtempSync(join(folder, 'bin-'))
  for (const [name, file] of Object.entries({ sleep: find('sleep'), timeout: find('timeout'), ...programs }))
    if (file) fs.symlinkSync(file, join(PATH, name))
  const options = { cwd, env: { PATH, DATABASE_URL } }
  return new Promise<number>(resolve =>
    execFile('/bin/sh', ['-c', checkCommand('DATABASE_URL', 1)], options, (error, ...printed) => {
      expect(printed.join('')).toBe('')
      resolve(error === null ? 0 : Number(error.code))
    }),
  )
}
const wrongHost = () => `postgresql://app:hush@127.0.0.1:${unused}/shop`
const wrongLogin = () => postgres.url.replace(/\/\/[^@]*@/, '//nobody:hush@')

/** The program itself: in the PATH it may be a script that chooses a version. */
const python3 = spawnSync('python3', ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' }).stdout?.trim()
const PROGRAMS = { node: process.execPath, python3, bash: find('bash') }
test.each(Object.entries(PROGRAMS).filter(([, file]) => file))('%s tells whether it answers', async (name, file) => {
  const programs = { [name]: file }
  expect(await check(programs, postgres.url)).toBe(0)
  expect(await check(programs, wrongHost())).toBe(unreachable)
  expect(await check(programs, 'shop')).toBe(noAddress)
  // The application brings no driver.
  expect(await check(programs, wrongLogin(), folder)).toBe(0)
})

test('the driver of the application tells whether it may enter, and nothing at all is a warning', async () => {
  expect(await check({ node: process.execPath }, wrongLogin())).toBe(refused)
  expect(await check({}, postgres.url)).toBe(noTool)
  for (const code of [unreachable, refused, noAddress])
    expect(describeCheck('DATABASE_URL', code)).toHaveProperty('failure')
  // An image without a shell, and a run of which nothing is left.
  for (const code of [noTool, 127, null]) expect(describeCheck('DATABASE_URL', code)).toHaveProperty('warning')
})
