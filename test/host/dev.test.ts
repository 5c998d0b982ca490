// `npm run dev` and `npm run bootstrap` as users run them: what they serve, keep, print, refuse and leave behind.
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { DevState } from '../../src/host/home-folder.ts'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { makeArchive } from '../support/archives.ts'
import { startCliIn } from '../support/cli-process.ts'
import {
  type Command,
  filterRunning,
  isListening,
  listProcessTree,
  startCommand,
  stopCommands,
  waitFor,
} from '../support/commands.ts'
import { startMigratedPostgres } from '../support/migrated-postgres.ts'
import { query } from '../support/postgres.ts'

const root = fs.mkdtempSync(join(tmpdir(), 'slipway-dev-'))
// With root, applications run as other users, who have to reach their folders below it.
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
const readState = (): DevState => JSON.parse(fs.readFileSync(stateFile(), 'utf8'))

/** The contents of its state file, as soon as it has written them. */
const waitForState = ({ pid, until }: Command) =>
  until(() => (fs.existsSync(stateFile()) && readState().pid === pid ? readState() : undefined))

const get = (url: string, key?: string) => fetch(url, { headers: key ? { 'X-Api-Key': key } : {} })
const getInfo = (url: string, key: string) => get(`${url}/orgs/current/info`, key)

/** The ports of the loopback on which these processes listen. Linux only. */
function listListeningPorts(pids: number[]): number[] {
  if (process.platform !== 'linux') return []
  // A process may end, and a file be closed, while this looks.
  const orNothing = <T>(read: () => T): T | [] => {
    try {
      return read()
    } catch {
      return []
    }
  }
  const sockets = pids.flatMap(pid =>
    orNothing(() => fs.readdirSync(`/proc/${pid}/fd`)).flatMap(fd =>
      orNothing(() => fs.readlinkSync(`/proc/${pid}/fd/${fd}`)),
    ),
  )
  const lines = fs.readFileSync('/proc/net/tcp', 'utf8').trim().split('\n').slice(1)
  return lines
    .map(line => line.trim().split(/\s+/))
    .filter(fields => fields[3] === '0A' && sockets.includes(`socket:[${fields[9]}]`))
    .map(fields => Number.parseInt(fields[1]!.split(':')[1]!, 16))
}

/** Kills the database of a running installation. Resolves when it serves again, with the two pids. */
async function killDatabase({ until, output }: Command): Promise<{ killed: string; restarted: string }> {
  const file = join(home, 'postgres/postmaster.pid')
  const [killed] = fs.readFileSync(file, 'utf8').split('\n') as [string]
  process.kill(Number(killed), 'SIGKILL')
  await until(() => output.err.includes('Restarting'))
  const restarted = await until(() => {
    const [pid, , , , , , , status] = fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n') : []
    return status?.trim() === 'ready' && pid !== killed ? pid : undefined
  })
  return { killed, restarted }
}

/** Uploads an archive that no revision uses. */
async function uploadUnusedArchive({ url, api_key }: DevState): Promise<void> {
  const post = async (path: string, body?: object) => {
    const headers = { 'X-Api-Key': api_key, 'Content-Type': 'application/json' }
    const response = await fetch(url + path, { method: 'POST', headers, ...(body && { body: JSON.stringify(body) }) })
    return (await response.json()) as Record<string, string>
  }
  const { id } = await post('/v2/deployments', {
    name: 'shop',
    source: 'internal_source',
    source_config: {},
    source_revision_config: {},
    secrets: [],
  })
  const { upload_url } = await post(`/v2/deployments/${id}/upload-url`)
  expect((await fetch(upload_url!, { method: 'PUT', body: await makeArchive() })).status).toBe(200)
}
const listStoredArchives = () =>
  fs
    .readdirSync(join(home, 'worker'), { recursive: true, encoding: 'utf8' })
    .filter(path => /r2\/.*blobs\/./.test(path))
const queryDatabase = (text: string) => query(fs.readFileSync(join(home, 'database-url'), 'utf8'), text)

// One test follows the life of one installation, because each start takes seconds.
test('an installation restarts a killed database, stops all processes and continues after a restart', async () => {
  const port = await findFreePort()
  const first = dev([`--port=${port}`])
  const state = await waitForState(first)
  const { url, api_key } = state
  expect(Object.keys(state).sort()).toEqual(['api_key', 'organization_id', 'pid', 'tenant_id', 'url'])
  expect(url).toBe(`http://127.0.0.1:${port}`)
  const response = await getInfo(url, api_key)
  expect(response.status).toBe(200)
  expect(await response.json()).toMatchObject({ id: state.organization_id })
  expect((await get(`${url}/docs`)).status).toBe(200)
  // Outside the Worker, as Cloudflare does it.
  const [, script] = (await (await get(`${url}/ui`)).text()).match(/type="module" src="([^"]+)"/)!
  expect((await get(url + script)).headers.get('Cache-Control')).toContain('immutable')
  await first.until(() => first.output.out.includes('"path":"/docs"'))
  expect(first.output.out).not.toContain('\x1b')

  const second = dev()
  expect(await second.exited, 'a second start is refused').toBe(1)
  expect(second.output.err).toContain(String(first.pid))

  const operator = startCommand('src/host/bootstrap.ts', ['--organization', 'Acme', '--organization-key'], {
    SLIPWAY_HOME: home,
  })
  expect(await operator.exited, 'bootstrap finds the database').toBe(0)
  const organizationKey = operator.output.out.match(/slw_\w+/)![0]
  expect((await getInfo(url, organizationKey)).status).toBe(200)
  expect((await get(`${url}/workspaces`, organizationKey)).status).toBe(200)

  for (const name of ['dev.json', 'listener.json', 'secrets.json', 'worker.env', 'database-url'])
    expect(fs.statSync(join(home, name)).mode & 0o777, name).toBe(0o600)
  const database = new URL(fs.readFileSync(join(home, 'database-url'), 'utf8'))
  const { killed, restarted } = await killDatabase(first)
  expect(restarted, 'a killed database is restarted').not.toBe(killed)
  await first.until(async () => (await getInfo(url, api_key)).status === 200)

  await uploadUnusedArchive(state)
  expect(listStoredArchives().length).toBeGreaterThan(0)
  // The clock of another process cannot be moved.
  await queryDatabase(`update uploads set expires_at = now() - interval '2 days'`)

  const processes = listProcessTree(first.pid)
  expect(processes.length).toBeGreaterThan(4)
  // A debugger of the Worker would let every local process read its memory.
  const debuggers = listListeningPorts(processes).map(async port => {
    const response = fetch(`http://127.0.0.1:${port}/json/list`, { signal: AbortSignal.timeout(2000) })
    return await response.then(response => response.text()).catch(() => '')
  })
  expect((await Promise.all(debuggers)).join()).not.toContain('webSocketDebuggerUrl')
  // The command line finds it only while it runs.
  const pointer = join(home, 'config/dev', `${first.pid}.json`)
  expect(fs.statSync(pointer).mode & 0o777).toBe(0o600)
  const whoami = () => startCliIn({ cwd: root, env: { SLIPWAY_CONFIG_HOME: join(home, 'config') } }, ['whoami']).exited
  expect((await whoami()).objects[0]).toMatchObject({ from: pointer })
  const stalePointer = fs.readFileSync(pointer)
  expect(await first.stop('SIGINT')).toBe(0)
  expect(fs.existsSync(pointer)).toBe(false)
  fs.writeFileSync(pointer, stalePointer)
  const { code, error } = await whoami()
  expect([code, error?.code], 'a file that a killed one left').toEqual([4, 'not_signed_in'])

  await waitFor(() => filterRunning(processes).length === 0)
  expect(await Promise.all([port, database.port].map(isListening))).toEqual([false, false])
  expect(fs.existsSync(join(home, 'worker.env'))).toBe(false)

  // Makes sure that the default port is in use. Another process may already use it.
  const squatter = createServer().listen(8787, '127.0.0.1')
  await once(squatter, 'listening').catch(() => {})
  const third = dev()
  const restartedState = await waitForState(third)
  squatter.close()
  expect(restartedState, 'data and key survive').toEqual({ ...state, url: restartedState.url, pid: third.pid })
  expect(Number(new URL(restartedState.url).port)).toBeGreaterThan(8787)
  expect((await getInfo(restartedState.url, api_key)).status).toBe(200)
  expect((await getInfo(restartedState.url, organizationKey)).status).toBe(200)

  // The scheduled work runs at the start, too.
  await third.until(async () => (await queryDatabase('select from uploads')).length === 0)
  expect(listStoredArchives()).toEqual([])
  expect(await queryDatabase(`select actor_kind from events where type = 'upload.removed'`)).toEqual([
    { actor_kind: 'cron' },
  ])

  const children = listProcessTree(third.pid)
  await third.stop('SIGKILL')
  // Elsewhere than on Linux, Postgres does not learn that its parent was killed.
  if (process.platform === 'linux') await waitFor(() => filterRunning(children).length === 0)
})

test('it shares the Postgres of DATABASE_URL if that is allowed, and replaces an unknown saved key', async () => {
  const postgres = await startMigratedPostgres(join(root, 'own-postgres'))
  try {
    fs.mkdirSync(home)
    fs.writeFileSync(stateFile(), JSON.stringify({ api_key: 'slw_another', pid: 1 }))
    const settings = { RATE_LIMIT_PER_MINUTE: '2', CORS_ORIGINS: 'https://$console.example' }
    await query(postgres.url, 'create database foreign_orders')
    const url = Object.assign(new URL(postgres.url), { pathname: 'foreign_orders' }).href
    const env = { DATABASE_URL: url, ...settings }
    await query(url, 'create table orders (id integer)')
    const refused = dev([], env)
    expect(await refused.exited).toBe(1)
    expect(refused.output.err.trim().split('\n')).toEqual([expect.stringMatching(/DATABASE_URL.*SHARE_DATABASE/)])
    // The user's own folder is read-only too.
    const running = dev([`--port=${await findFreePort()}`], { ...env, SHARE_DATABASE: 'true', HOME: '/dev/null/home' })
    const { url: apiUrl, api_key } = await waitForState(running)
    const responses = [await getInfo(apiUrl, api_key), await getInfo(apiUrl, api_key), await getInfo(apiUrl, api_key)]
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 429])
    const { headers } = await fetch(`${apiUrl}/healthz`, { headers: { Origin: settings.CORS_ORIGINS } })
    expect(headers.get('Access-Control-Allow-Origin')).toBe(settings.CORS_ORIGINS)
    expect(fs.existsSync(join(home, 'postgres'))).toBe(false)
    const processes = listProcessTree(running.pid)
    expect(await running.stop('SIGTERM')).toBe(0)
    await waitFor(() => filterRunning(processes).length === 0)
    expect(await isListening(postgres.port)).toBe(true)
  } finally {
    await postgres.stop()
  }
})

describe('a start is refused with one line that names the cause', () => {
  test('a port that is in use, before anything is started', async () => {
    const squatter = createServer().listen(0, '127.0.0.1')
    await once(squatter, 'listening')
    const { port } = squatter.address() as { port: number }
    const { output: said, exited } = dev([`--port=${port}`])
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
  ])('the setting %s=%s', async (name, value) => {
    const { output: said, exited } = dev([], { [name]: value })
    expect(await exited).toBe(1)
    expect(said.err.trim().split('\n')).toEqual([expect.stringContaining(name)])
    expect(said.out + said.err).not.toContain('hunter2')
    expect(fs.existsSync(stateFile())).toBe(false)
  })

  test.each([['--port=http'], ['--port=0'], ['--port=65536'], ['--prot=1']])('the option %s', async option => {
    const { output: said, exited } = dev([option])
    expect(await exited).toBe(1)
    expect(said.err.trim().split('\n')).toEqual([expect.stringContaining(option.split('=')[0]!)])
  })
})
