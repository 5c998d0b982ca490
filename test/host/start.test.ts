// `npm start`, on each runtime, and `npm run bootstrap` as users run them: what they serve, print and refuse, and how
// the server ends.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { request } from 'node:http'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { newApiKey } from '../../src/kernel/crypto/crypto.ts'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { isListening, RUNTIMES, startCommand, startServer, stopCommands } from '../support/commands.ts'
import { GITHUB_APP } from '../support/fake-git-hosts.ts'
import { PKCS1 } from '../support/github-app-key.ts'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'
import { query } from '../support/postgres.ts'

const root = fs.mkdtempSync(join(tmpdir(), 'slipway-node-'))
const SEALING_KEYS = `first:${Buffer.alloc(32, 7).toString('base64url')}`
let databaseUrl: string
let settings: Record<string, string>
/** The key of the organization that `npm run bootstrap` has created. */
let headers: Record<string, string>

beforeAll(async () => {
  execFileSync(process.execPath, [join(import.meta.dirname, '../../scripts/server-build.mjs')])
  databaseUrl = await createMigratedDatabase()
  settings = await makeSettings()
  const first = operator('--organization', 'Acme', '--workspace', 'Main', '--email', 'a@example.com,b@example.com')
  expect(await first.exited).toBe(0)
  headers = { 'X-Api-Key': first.output.out.match(/slw_\w+/)![0], 'Content-Type': 'application/json' }
})
beforeEach(async () => {
  settings = await makeSettings()
})
const makeSettings = async () => ({
  PUBLIC_URL: 'http://slipway.test',
  DATABASE_URL: databaseUrl,
  DATABASE_SYSTEM_URL: databaseUrl,
  SEALING_KEYS,
  PORT: String(await findFreePort()),
  SLIPWAY_HOME: root,
})
afterEach(stopCommands)
afterAll(async () => {
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 9 })
})

const start = (env: Record<string, string> = {}) => startServer('node', { ...settings, ...env })
const operator = (...args: string[]) => startCommand('src/host/bootstrap.ts', args, settings)

test('`npm start` and `npm run bootstrap` refuse a database without migrations and name `db:migrate`', async () => {
  const empty = crypto.randomUUID()
  await query(databaseUrl, `create database "${empty}"`)
  settings.DATABASE_URL = Object.assign(new URL(databaseUrl), { pathname: empty }).href
  settings.DATABASE_SYSTEM_URL = settings.DATABASE_URL
  for (const { output: said, exited } of [start(), operator('--organization', 'Acme')]) {
    expect(await exited).toBe(1)
    expect(said.err.trim().split('\n')).toEqual([expect.stringContaining('db:migrate')])
  }
})

describe.each(RUNTIMES)('the server on %s', runtime => {
  test('serves, and while it ends it is not ready, answers what it has accepted, and ends streams', async () => {
    const server = startServer(runtime, { ...settings, SHUTDOWN_DELAY_SECONDS: '2' })
    const url = `http://127.0.0.1:${settings.PORT}`
    await server.until(() => isListening(settings.PORT!))
    expect((await fetch(`${url}/readyz`)).status).toBe(200)
    const members = await fetch(`${url}/workspaces/current/members`, { headers })
    const { resources } = (await members.json()) as { resources: { email: string; tenant_id: string }[] }
    expect(resources.map(({ email }) => email).sort()).toEqual(['a@example.com', 'b@example.com'])
    await server.until(() => server.output.out.includes('\n'))
    expect(server.output.out.split('\n')[0]).toContain(`${url}. `)
    const stream = await fetch(`${url}/v2/events/stream?after=0`, { headers })
    const text = stream.text()
    const { next_after } = (await (await fetch(`${url}/v2/events`, { headers })).json()) as { next_after: number }
    const poll = fetch(`${url}/v2/events?after=${next_after}&wait=30`, { headers })
    // With `100 Continue` the server confirms that it has accepted this one.
    const late = request(`${url}/workspaces/${resources[0]!.tenant_id}`, {
      method: 'PATCH',
      headers: { ...headers, Expect: '100-continue' },
    })
    late.flushHeaders()
    await once(late, 'continue')
    // Its headers never end.
    const half = createConnection(Number(settings.PORT), '127.0.0.1').on('error', () => {})
    half.write('GET /healthz HTTP/1.1\r\n')

    const stopped = server.stop('SIGTERM')
    await server.until(async () => (await fetch(`${url}/readyz`)).status === 503)
    const served = await fetch(`${url}/workspaces`, { headers })
    expect([served.status, served.headers.get('connection')]).toEqual([200, 'close'])
    expect(await text).toMatch(/\nid: \d+\nretry: \d+\n\n$/)
    expect((await poll).status).toBe(200)
    await server.until(async () => !(await isListening(settings.PORT!)))
    const [answer] = await once(late.end('{"display_name":"Late"}'), 'response')
    expect(answer.statusCode).toBe(200)
    expect(await stopped).toBe(0)
    expect(server.output.err).toBe('')
  })

  test('knows the addresses of its clients, refuses a PORT in use, and ends at once on the second signal', async () => {
    const limits = { UNKNOWN_KEYS_PER_MINUTE: '1', TRUSTED_PROXIES: '127.0.0.1', SHUTDOWN_DELAY_SECONDS: '60' }
    const server = startServer(runtime, { ...settings, ...limits })
    await server.until(() => isListening(settings.PORT!))
    const second = startServer(runtime, settings)
    const url = `http://127.0.0.1:${settings.PORT}`
    const send = async (address: string) => {
      const sent = { 'X-Api-Key': newApiKey(), 'X-Forwarded-For': address }
      return (await fetch(`${url}/workspaces`, { headers: sent })).status
    }
    const addresses = ['203.0.113.1', '203.0.113.1', '203.0.113.2']
    const statuses = []
    for (const address of addresses) statuses.push(await send(address))
    expect(statuses).toEqual([401, 429, 401])

    expect(await second.exited).toBe(1)
    expect(second.output.err.trim().split('\n')).toEqual([expect.stringContaining('PORT')])
    void server.stop('SIGTERM')
    await server.until(async () => (await fetch(`${url}/readyz`)).status === 503)
    expect(await server.stop('SIGINT')).toBe(130)
  })

  test('refuses an invalid setting with one line that names it', async () => {
    const { output, exited } = startServer(runtime, { ...settings, SEALING_KEYS: 'short' })
    expect(await exited).toBe(1)
    expect(output.err.trim().split('\n')).toEqual([expect.stringContaining('SEALING_KEYS')])
  })
})

test.runIf(process.platform === 'linux')(
  'eight unsigned deliveries of 25 MiB at the same time take less memory than their bodies',
  async () => {
    const names = ['ID', 'SLUG', 'PRIVATE_KEY', 'CLIENT_ID', 'CLIENT_SECRET', 'WEBHOOK_SECRET']
    const values = [
      GITHUB_APP.id,
      GITHUB_APP.slug,
      PKCS1,
      GITHUB_APP.clientId,
      GITHUB_APP.clientSecret,
      'hush-webhook-secret',
    ]
    const server = start(Object.fromEntries(names.map((name, i) => [`GITHUB_APP_${name}`, values[i]!])))
    await server.until(() => isListening(settings.PORT!))
    const readMemoryMib = (what: 'VmRSS' | 'VmHWM') =>
      Number(new RegExp(`${what}:\\s+(\\d+)`).exec(fs.readFileSync(`/proc/${server.pid}/status`, 'utf8'))![1]) / 1024
    const address = `http://127.0.0.1:${settings.PORT}/v1/integrations/forge/githost`
    const headers = { 'Content-Type': 'application/json', 'X-Hub-Signature-256': `sha256=${'0'.repeat(64)}` }
    const body = Buffer.alloc(25 * 1024 * 1024, ' ')
    const send = async (path: string) =>
      (await fetch(`${address}${path}/webhook`, { method: 'POST', headers, body, signal: AbortSignal.timeout(20_000) }))
        .status
    expect(await send('')).toBe(401)
    const before = readMemoryMib('VmRSS')
    for (const path of ['', `/${crypto.randomUUID()}`]) {
      const answers = await Promise.allSettled(Array.from({ length: 8 }, () => send(path)))
      // A client that is still sending may see a closed connection instead of the refusal.
      for (const answer of answers) if (answer.status === 'fulfilled') expect([401, 503]).toContain(answer.value)
    }
    // 87 to 135 MiB, of which the heap of a fresh process takes a part. All bodies at once are 200.
    expect(readMemoryMib('VmHWM') - before).toBeLessThan(170)
    expect((await fetch(`http://127.0.0.1:${settings.PORT}/healthz`)).status).toBe(200)
  },
)

test.each([
  ['DATABASE_URL', ''],
  ['DATABASE_URL', 'postgres://u:hunter2@127.0.0.1:1/app'],
  ['PORT', 'http'],
  ['HOST', '192.0.2.1'],
])('%s=%s is refused with one line that names the setting', async (name, value) => {
  const { output: said, exited } = start({ [name]: value })
  expect(await exited).toBe(1)
  expect(said.err.trim().split('\n')).toEqual([expect.stringContaining(name)])
  expect(said.err).not.toContain('hunter2')
})

test('a login that the database rejects is reported with the name of the setting, without the password', async () => {
  const wrong = new URL(databaseUrl)
  wrong.password = 'hunter2'
  const { output: said, exited } = start({ DATABASE_URL: wrong.href })
  expect(await exited).toBe(1)
  expect(said.err.trim().split('\n')).toEqual([expect.stringContaining('DATABASE_URL')])
  expect(said.err).not.toContain('hunter2')
})

test.each([[[]], [['--organization', ' ']], [['--organization', 'A', '--email', 'nobody']], [['--org', 'A']]])(
  '`npm run bootstrap` refuses the arguments %j',
  async args => {
    const { output: said, exited } = operator(...args)
    expect(await exited).toBe(1)
    expect(said.out).toBe('')
  },
)
