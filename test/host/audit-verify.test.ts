// `npm run audit:verify` on a real Postgres, as an operator runs it.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { createHost } from '../../src/host/host.ts'
import { bootstrap } from '../../src/people/access/bootstrap.ts'
import { startCommand, stopCommands } from '../support/commands.ts'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'
import { query } from '../support/postgres.ts'

const SEALING_KEYS = `first:${Buffer.alloc(32, 7).toString('base64url')}`
let folder: string
let databaseUrl: string
let tenant: Awaited<ReturnType<typeof bootstrap>>

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'slipway-audit-'))
  databaseUrl = await createMigratedDatabase()
  const env = { PUBLIC_URL: 'http://slipway.test', SEALING_KEYS, DATABASE_URL: databaseUrl }
  const { app, close } = createHost(env, { log: () => {} })
  tenant = await bootstrap(app.database, { organization: 'Acme' })
  for (const key of ['a', 'b', 'c']) {
    const headers = { 'X-Api-Key': tenant.api_key, 'Content-Type': 'application/json' }
    const request = new Request('http://x/v2/tag-keys', { method: 'POST', headers, body: JSON.stringify({ key }) })
    expect((await app.fetch(request)).status).toBe(201)
  }
  await app.housekeep()
  await close()
})
afterEach(stopCommands)
afterAll(async () => {
  await rm(folder, { recursive: true, force: true, maxRetries: 9 })
})

async function verify(args: string[] = [], env: Record<string, string> = {}) {
  const settings = { DATABASE_SYSTEM_URL: databaseUrl, SEALING_KEYS, SLIPWAY_HOME: folder, ...env }
  const { exited, output } = startCommand('src/host/audit-verify.ts', args, settings)
  return { code: await exited, ...output }
}

test('it ends with 0 on an unchanged journal, and with 1 on a fault, which it names', async () => {
  const counts = '1 journals, 4 events, 1 signatures\n'
  expect(await verify()).toEqual({ code: 0, out: `${counts}No fault found.\n`, err: '' })
  expect(await verify([`--workspace=${tenant.tenant_id}`])).toMatchObject({ code: 0 })

  await query(databaseUrl, `update events set actor_name = 'somebody else' where seq = 3`)
  const { code, out } = await verify([`--workspace=${tenant.tenant_id}`])
  expect(code).toBe(1)
  expect(out).toContain(`journal ${tenant.tenant_id}: Event 3 was changed`)
})

test.each<[string, string[], Record<string, string>, string]>([
  ['without the keys', [], { SEALING_KEYS: '' }, 'SEALING_KEYS'],
  ['without a database', [], { DATABASE_SYSTEM_URL: '' }, 'DATABASE_SYSTEM_URL'],
  ['for a workspace that is no UUID', ['--workspace=x'], {}, '--workspace "x"'],
  ['for a workspace without a journal', ['--workspace=10000000-0000-4000-8000-000000000009'], {}, 'has no journal'],
])('it says what is missing %s', async (_, args, env, message) => {
  const { code, out, err } = await verify(args, env)
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err).toContain(message)
})
