// Secrets are planted in every setting, table and log, and none is in a support bundle.
import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { SETTINGS } from '../../../src/env.ts'
import { createLineFilter } from '../../../src/host/operate/bundle-lines.ts'
import { startCommand, stopCommands } from '../../support/commands.ts'
import { fillEveryTable } from '../../support/every-table.ts'
import { createMigratedDatabase } from '../../support/migrated-postgres.ts'
import { connect } from '../../support/postgres.ts'

const folder = mkdtempSync(join(tmpdir(), 'slipway-bundle-'))
afterAll(async () => {
  await stopCommands()
  rmSync(folder, { recursive: true, force: true })
})

const SECRET = 'hunter2planted'
const REVISION = '00000000-0000-4000-8000-00000000abcd'
const LOG = [
  JSON.stringify({
    level: 'error',
    request_id: REVISION,
    method: 'GET',
    path: `/v2/deployments/${REVISION}/${SECRET}`,
    status: 500,
    ms: 12,
    code: 'internal',
    message: SECRET,
    error: `Error: ${SECRET}`,
    [SECRET]: 1,
  }),
  `revision failed deployment=${REVISION} reason="${SECRET} at line 3" lease=4 key=${SECRET}`,
  `${SECRET} said the application token=${SECRET}`,
  `Authorization: Bearer ${SECRET}`,
  JSON.stringify([SECRET]),
].join('\n')

test('a support bundle has what helps, and nothing that was planted', async () => {
  const url = await createMigratedDatabase()
  const client = await connect(url)
  await fillEveryTable(client)
  await client.query(`update revisions set status = 'BUILD_FAILED', status_message = '${SECRET}'`)
  await client.query(`update listeners set agent_version = '${SECRET}', compute_id = '${SECRET}'`)
  await client.query(`update members set email = '${SECRET}@example.com'`)
  await client.end()
  writeFileSync(join(folder, 'slipway.log'), LOG)
  const planted = Object.fromEntries([...SETTINGS, 'SLIPWAY_LISTENER_KEY'].map(name => [name, `${SECRET}-${name}`]))
  const file = join(folder, 'bundle.tgz')
  const env = { ...planted, DATABASE_URL: url, DATABASE_SYSTEM_URL: url, HOST: '127.0.0.1', PORT: '1' }
  const bundle = startCommand(
    'src/host/main.ts',
    ['support-bundle', file, '--log', join(folder, 'slipway.log')],
    env as Record<string, string>,
  )
  expect(await bundle.exited, bundle.output.err).toBe(0)
  expect(statSync(file).mode & 0o077).toBe(0)
  await promisify(execFile)('tar', ['xzf', file, '-C', folder])
  const files = readdirSync(join(folder, 'slipway-support'))
  const read = (name: string) => readFileSync(join(folder, 'slipway-support', name), 'utf8')
  expect(files).toEqual(expect.arrayContaining(['database.json', 'health.json', 'log-1.txt', 'machine.json']))
  for (const name of files) {
    const text = read(name)
    const parts = [SECRET, 'slash\\', 'quote"', new URL(url).password].filter(Boolean)
    expect(
      parts.filter(part => text.includes(part)),
      name,
    ).toEqual([])
  }
  const database = JSON.parse(read('database.json'))
  expect(database.failed_revisions).toMatchObject([{ id: REVISION, status: 'BUILD_FAILED' }])
  expect(database.tables.find(({ table }: { table: string }) => table === 'events').bound).toContain('EVENTS_PER_DAY')
  expect(database.tables.every(({ bound }: { bound: string | null }) => bound !== null)).toBe(true)
  expect(JSON.parse(read('settings.json'))).toMatchObject({ SEALING_KEYS: 'set, left out', PORT: '1' })
  expect(read('log-1.txt')).toContain(`"path":"/v2/deployments/${REVISION}/*","status":500`)
})

test('only lines of Slipway are kept from a log, with their ids, codes and numbers', () => {
  const filter = createLineFilter(new Set(['v2', 'deployments']))
  expect(LOG.split('\n').map(filter)).toEqual([
    `{"level":"error","request_id":"${REVISION}","method":"GET","path":"/v2/deployments/${REVISION}/*","status":500,` +
      '"ms":12,"code":"internal"}',
    `{"event":"revision failed","deployment":"${REVISION}","lease":"4"}`,
    null,
    null,
    null,
  ])
})
