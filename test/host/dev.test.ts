// `npm run dev` and `npm run bootstrap` as users run them: what they serve, keep, print, refuse and leave behind.
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startPostgres } from '../../src/host/embedded-postgres.ts'
import type { DevState } from '../../src/host/home-folder.ts'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { makeArchive } from '../support/archives.ts'
import {
  type Command,
  filterRunning,
  isListening,
  listProcessTree,
  startCommand,
  stopCommands,
  waitFor,
} from '../support/commands.ts'
import { query } from '../support/postgres.ts'

const root = fs.mkdtempSync(join(tmpdir(), 'slipway-dev-'))
// As root, applications run as other users, who get to their folders below it.
fs.chmodSync(root, 0o755)
let home: string
let homes = 0

beforeEach(() => {
  home = join(root, `home-${++homes}`)
})
afterEach(stopCommands)
afterAll(() => fs.rmSync(root, { recursive: true, force: true, maxRetries: 9 }))

const dev = (args: string[] = [], env: Record<string, string> = {}) =>
  startCommand('src/host/dev.ts', args, { SLIPWAY_HOME: home, ...env })
const stateFile = () => join(home, 'dev.json')
const state = (): DevState => JSON.parse(fs.readFileSync(stateFile(), 'utf8'))

/** Its state, once it is the one that wrote it. */
const served = ({ pid, until }: Command) =>
  until(() => (fs.existsSync(stateFile()) && state().pid === pid ? state() : undefined))

const get = (url: string, key?: string) => fetch(url, { headers: key ? { 'X-Api-Key': key } : {} })
const info = (url: string, key: string) => get(`${url}/orgs/current/info`, key)

/** On which ports of the loopback these processes listen. Linux only. */
function portsOf(pids: number[]): number[] {
  if (process.platform !== 'linux') return []
  const sockets = pids.flatMap(pid =>
    fs.readdirSync(`/proc/${pid}/fd`).flatMap(fd => {
      try {
        return fs.readlinkSync(`/proc/${pid}/fd/${fd}`)
      } catch {
        return []
      }
    }),
  )
  const lines = fs.readFileSync('/proc/net/tcp', 'utf8').trim().split('\n').slice(1)
  return lines
    .map(line => line.trim().split(/\s+/))
    .filter(fields => fields[3] === '0A' && sockets.includes(`socket:[${fields[9]}]`))
    .map(fields => Number.parseInt(fields[1]!.split(':')[1]!, 16))
}

test('it starts, refuses a second start, stops all its processes, and starts again with its data and key', async () => {
  const port = await findFreePort()
  const first = dev([`--port=${port}`])
  const made = await served(first)
  expect(Object.keys(made).sort()).toEqual(['api_key', 'organization_id', 'pid', 'tenant_id', 'url'])
  expect(made.url).toBe(`http://127.0.0.1:${port}`)
  const answer = await info(made.url, made.api_key)
  expect(answer.status).toBe(200)
  expect(await answer.json()).toMatchObject({ id: made.organization_id })
  expect((await get(`${made.url}/docs`)).status).toBe(200)
  await first.until(() => first.said.out.includes('"path":"/docs"'))
  expect(first.said.out).not.toContain('\x1b')

  const second = dev()
  expect(await second.exited).toBe(1)
  expect(second.said.err).toContain(String(first.pid))

  const operator = startCommand('src/host/bootstrap.ts', ['--organization', 'Acme', '--organization-key'], {
    SLIPWAY_HOME: home,
  })
  expect(await operator.exited).toBe(0)
  const acme = operator.said.out.match(/slw_\w+/)![0]
  expect((await info(made.url, acme)).status).toBe(200)
  expect((await get(`${made.url}/workspaces`, acme)).status).toBe(200)

  for (const name of ['dev.json', 'listener.json', 'secrets.json', 'worker.env', 'database-url'])
    expect(fs.statSync(join(home, name)).mode & 0o777, name).toBe(0o600)
  const family = listProcessTree(first.pid)
  const database = new URL(fs.readFileSync(join(home, 'database-url'), 'utf8'))
  expect(family.length).toBeGreaterThan(4)
  // A debugger of the Worker would let every local process read its memory.
  const debuggers = portsOf(family).map(async port => {
    const asked = fetch(`http://127.0.0.1:${port}/json/list`, { signal: AbortSignal.timeout(2000) })
    return await asked.then(answer => answer.text()).catch(() => '')
  })
  expect((await Promise.all(debuggers)).join()).not.toContain('webSocketDebuggerUrl')
  expect(await first.stop('SIGINT')).toBe(0)
  await waitFor(() => filterRunning(family).length === 0)
  expect(await Promise.all([port, database.port].map(isListening))).toEqual([false, false])
  expect(fs.existsSync(join(home, 'worker.env'))).toBe(false)

  // The default port, or one after it, whoever has it here.
  const squatter = createServer().listen(8787, '127.0.0.1')
  await once(squatter, 'listening').catch(() => {})
  const third = dev()
  const again = await served(third)
  squatter.close()
  expect(again).toEqual({ ...made, url: again.url, pid: third.pid })
  expect(Number(new URL(again.url).port)).toBeGreaterThan(8787)
  expect((await info(again.url, made.api_key)).status).toBe(200)
  expect((await info(again.url, acme)).status).toBe(200)

  const orphans = listProcessTree(third.pid)
  await third.stop('SIGKILL')
  // Elsewhere than on Linux nothing tells Postgres that its parent was killed.
  if (process.platform === 'linux') await waitFor(() => filterRunning(orphans).length === 0)
})

test('it shares the Postgres of DATABASE_URL if allowed, passes settings on, replaces an unknown key', async () => {
  const postgres = await startPostgres({ dataDir: join(root, 'theirs'), durable: false })
  try {
    fs.mkdirSync(home)
    fs.writeFileSync(stateFile(), JSON.stringify({ api_key: 'slw_another', pid: 1 }))
    const settings = { RATE_LIMIT_PER_MINUTE: '2', CORS_ORIGINS: 'https://$console.example' }
    const env = { DATABASE_URL: postgres.url, ...settings }
    await query(postgres.url, 'create table orders (id integer)')
    const refused = dev([], env)
    expect(await refused.exited).toBe(1)
    expect(refused.said.err.trim().split('\n')).toEqual([expect.stringMatching(/DATABASE_URL.*SHARE_DATABASE/)])
    // The user's own folder is read-only too.
    const running = dev([`--port=${await findFreePort()}`], { ...env, SHARE_DATABASE: 'true', HOME: '/dev/null/home' })
    const { url, api_key } = await served(running)
    const answers = [await info(url, api_key), await info(url, api_key), await info(url, api_key)]
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429])
    const { headers } = await fetch(`${url}/healthz`, { headers: { Origin: settings.CORS_ORIGINS } })
    expect(headers.get('Access-Control-Allow-Origin')).toBe(settings.CORS_ORIGINS)
    expect(fs.existsSync(join(home, 'postgres'))).toBe(false)
    const family = listProcessTree(running.pid)
    expect(await running.stop('SIGTERM')).toBe(0)
    await waitFor(() => filterRunning(family).length === 0)
    expect(await isListening(postgres.port)).toBe(true)
  } finally {
    await postgres.stop()
  }
})

test('its scheduled work reaches the bucket: an unused archive is removed after the next start', async () => {
  const first = dev([`--port=${await findFreePort()}`])
  const { url, api_key } = await served(first)
  const post = async (path: string, body?: object) => {
    const headers = { 'X-Api-Key': api_key, 'Content-Type': 'application/json' }
    const answer = await fetch(url + path, { method: 'POST', headers, ...(body && { body: JSON.stringify(body) }) })
    return (await answer.json()) as Record<string, string>
  }
  const { id } = await post('/v2/deployments', {
    ...{ name: 'shop', source: 'internal_source' },
    ...{ source_config: {}, source_revision_config: {}, secrets: [] },
  })
  const { upload_url } = await post(`/v2/deployments/${id}/upload-url`)
  expect((await fetch(upload_url!, { method: 'PUT', body: await makeArchive() })).status).toBe(200)
  const blobs = () =>
    fs
      .readdirSync(join(home, 'worker'), { recursive: true, encoding: 'utf8' })
      .filter(path => /r2\/.*blobs\/./.test(path))
  expect(blobs().length).toBeGreaterThan(0)

  const ask = (text: string) => query(fs.readFileSync(join(home, 'database-url'), 'utf8'), text)
  // The clock of another process cannot be moved.
  await ask(`update uploads set expires_at = now() - interval '2 days'`)
  await first.stop('SIGTERM')
  const second = dev([`--port=${await findFreePort()}`])
  await served(second)
  await second.until(async () => (await ask('select from uploads')).length === 0)
  expect(blobs()).toEqual([])
  expect(await ask(`select actor_kind from events where type = 'upload.removed'`)).toEqual([{ actor_kind: 'cron' }])
})

test('a killed database is restarted at the same address', async () => {
  const running = dev([`--port=${await findFreePort()}`])
  const { url, api_key } = await served(running)
  const kill = () => {
    const [pid] = fs.readFileSync(join(home, 'postgres/postmaster.pid'), 'utf8').split('\n')
    process.kill(Number(pid), 'SIGKILL')
    return pid
  }
  const killed = kill()
  await running.until(() => running.said.err.includes('Restarting'))
  await running.until(async () => (await info(url, api_key)).status === 200)
  const file = join(home, 'postgres/postmaster.pid')
  const again = await running.until(() => {
    const [pid, , , , , , , status] = fs.readFileSync(file, 'utf8').split('\n')
    return status?.trim() === 'ready' && pid !== killed && pid
  })
  expect(again).not.toBe(killed)
  const family = listProcessTree(running.pid)
  await running.stop('SIGTERM')
  await waitFor(() => filterRunning(family).length === 0)
})

describe('refuses in one sentence that names it', () => {
  test('a port that is given and taken, before anything is started', async () => {
    const squatter = createServer().listen(0, '127.0.0.1')
    await once(squatter, 'listening')
    const { port } = squatter.address() as { port: number }
    const { said, exited } = dev([`--port=${port}`])
    expect(await exited).toBe(1)
    expect(said.err.trim().split('\n')).toEqual([expect.stringContaining(String(port))])
    expect(said.out).toBe('')
    expect(fs.existsSync(join(home, 'postgres'))).toBe(false)
    squatter.close()
  })

  test.each([
    ['SEALING_KEYS', 'short'],
    ['RATE_LIMIT_PER_MINUTE', 'many'],
    ['DATABASE_URL', 'mysql://localhost/app'],
    ['DATABASE_URL', 'postgres://u:hunter2@:::/app'],
    ['DATABASE_URL', 'postgres://u:hunter2@127.0.0.1:1/app'],
    ['SHARE_DATABASE', 'maybe'],
  ])('%s=%s', async (name, value) => {
    const { said, exited } = dev([], { [name]: value })
    expect(await exited).toBe(1)
    expect(said.err.trim().split('\n')).toEqual([expect.stringContaining(name)])
    expect(said.out + said.err).not.toContain('hunter2')
    expect(fs.existsSync(stateFile())).toBe(false)
  })

  test.each([['--port=http'], ['--port=0'], ['--port=65536'], ['--prot=1']])('%s', async option => {
    const { said, exited } = dev([option])
    expect(await exited).toBe(1)
    expect(said.err.trim().split('\n')).toEqual([expect.stringContaining(option.split('=')[0]!)])
  })
})
