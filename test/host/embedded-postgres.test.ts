// The embedded Postgres with the real binaries: first and later starts, stale pid files, and the ways it stops.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Postgres, type PostgresOptions, startPostgres } from '../../src/host/embedded-postgres.ts'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { copyPostgresTemplate } from '../support/migrated-postgres.ts'
import { connect } from '../support/postgres.ts'

let root: string
let dataDir: string
let running: Postgres[]

beforeEach(() => {
  // mkdtemp makes it 0700, so every test also starts below a folder that is closed to other users.
  root = fs.mkdtempSync(join(tmpdir(), 'slipway-postgres-'))
  dataDir = join(root, 'postgres')
  running = []
})

afterEach(async () => {
  vi.unstubAllEnvs()
  await Promise.all(running.map(server => server.stop()))
  fs.rmSync(root, { recursive: true })
})

/** The folder as a first start leaves it. Only tests about the first start wait for it. */
const createDataDir = () => copyPostgresTemplate(dataDir)

async function start(options: Partial<PostgresOptions> = {}): Promise<Postgres> {
  const server = await startPostgres({ dataDir, durable: false, ...options })
  running.push(server)
  return server
}

async function rows(server: { url: string }, text: string): Promise<unknown[][]> {
  const client = await connect(server.url)
  const result = await client.query({ text, rowMode: 'array' }).finally(() => client.end())
  return result.rows
}

async function listen(port: number) {
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  return server
}

function isRunning(pid: number): boolean {
  try {
    // A killed process keeps an entry, without a folder, until its parent reads its status.
    return fs.existsSync('/proc/self') ? fs.readlinkSync(`/proc/${pid}/cwd`) !== '' : process.kill(pid, 0)
  } catch {
    return false
  }
}

test('the first start serves Postgres 18 in UTF-8 on the loopback address, also below a private folder', async () => {
  const server = await start()
  const settings = ['server_version_num', 'server_encoding', 'listen_addresses', 'unix_socket_directories', 'TimeZone']
  const [values] = await rows(server, `select ${settings.map(name => `current_setting('${name}')`).join()}`)
  expect(values).toEqual([expect.stringMatching(/^18/), 'UTF8', '127.0.0.1', '', 'UTC'])
  expect(fs.readdirSync(root).sort()).toEqual(['postgres', 'postgres.log'])
})

test('Ctrl-C in the terminal does not reach the server', async () => {
  await createDataDir()
  const { pid } = await start()
  const groups = execFileSync('ps', ['-o', 'pgid=', '-p', `${pid},${process.pid}`], { encoding: 'utf8' })
  expect(new Set(groups.trim().split(/\s+/)).size).toBe(2)
})

test('Postgres writes durably unless the caller turns that off', async () => {
  await createDataDir()
  const fsync = "select current_setting('fsync'), current_setting('synchronous_commit')"
  const lasting = await start({ durable: true })
  expect(await rows(lasting, fsync)).toEqual([['on', 'on']])
  await lasting.stop()
  expect(await rows(await start(), fsync)).toEqual([['off', 'off']])
})

test('the extensions for indexes work with words beyond ASCII', async () => {
  const server = await start()
  await rows(server, 'create extension pg_trgm; create extension btree_gin')
  const query = "select 'Žluť' ilike 'žLUŤ', cardinality(show_trgm('žluť')) > 0"
  expect(await rows(server, query)).toEqual([[true, true]])
})

/** A system may be set to give others. */
const PORTS_OF_CONNECTIONS = '/proc/sys/net/ipv4/ip_local_port_range'
const firstOfConnections = fs.existsSync(PORTS_OF_CONNECTIONS)
  ? Number.parseInt(fs.readFileSync(PORTS_OF_CONNECTIONS, 'utf8'), 10)
  : 0
test.runIf(firstOfConnections >= 30_000)(
  'a port for a server is none that the system gives to connections, and no port in use',
  async () => {
    const servers = await Promise.all(Array.from({ length: 50 }, findFreePort).map(async port => listen(await port)))
    const ports = servers.map(server => (server.address() as AddressInfo).port)
    expect(new Set(ports).size).toBe(50)
    expect(Math.max(...ports)).toBeLessThan(firstOfConnections)
    for (const server of servers) server.close()
  },
)

test('data and password survive a restart', async () => {
  await createDataDir()
  const first = await start()
  await rows(first, 'create table kept as select 42 as n')
  await first.stop()
  expect(isRunning(first.pid)).toBe(false)
  const second = await start({ port: first.port })
  expect(second.url).toBe(first.url)
  expect(await rows(second, 'select n from kept')).toEqual([[42]])
})

test('a wrong password is refused', async () => {
  await createDataDir()
  const { url } = await start()
  const wrong = new URL(url)
  wrong.password = 'wrong'
  await expect(rows({ url: wrong.href }, 'select 1')).rejects.toMatchObject({ code: '28P01' })
})

test('it starts again, with its data, after the server was killed', async () => {
  await createDataDir()
  const first = await start({ durable: true })
  await rows(first, 'create table kept as select 42 as n')
  process.kill(first.pid, 'SIGKILL')
  await first.stop()
  expect(fs.existsSync(join(dataDir, 'postmaster.pid'))).toBe(true)
  expect(await rows(await start(), 'select n from kept')).toEqual([[42]])
})

test.runIf(process.platform === 'linux')(
  'it starts although another process has the pid of a stale postmaster.pid',
  async () => {
    await createDataDir()
    const first = await start()
    const file = join(dataDir, 'postmaster.pid')
    const text = fs.readFileSync(file, 'utf8')
    await first.stop()
    fs.writeFileSync(file, text.replace(/^\d+/, String(process.pid)), { mode: 0o600 })
    expect(await rows(await start(), 'select 1')).toEqual([[1]])
  },
)

test('a second start for the same folder fails and names the running process', async () => {
  await createDataDir()
  const server = await start()
  await expect(start()).rejects.toThrow(String(server.pid))
  expect(await rows(server, 'select 1')).toEqual([[1]])
})

test('one of two first starts at the same time succeeds, and the other is refused', async () => {
  const outcomes = await Promise.allSettled([start(), start()])
  expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  expect(await rows(running[0]!, 'select 1')).toEqual([[1]])
})

test('a start on a port in use fails with the last lines of the log', async () => {
  await createDataDir()
  const squatter = await listen(0)
  const { port } = squatter.address() as { port: number }
  await expect(start({ port })).rejects.toThrow(/in use/)
  squatter.close()
})

test('a folder with other files is refused and left as it is', async () => {
  fs.mkdirSync(dataDir)
  fs.writeFileSync(join(dataDir, 'letter.txt'), 'mine')
  await expect(start()).rejects.toThrow(dataDir)
  expect(fs.readdirSync(dataDir)).toEqual(['letter.txt'])
  expect(fs.readdirSync(root)).toEqual(['postgres'])
})

test.runIf(process.getuid?.() === 0)(
  'root is told to set DATABASE_URL if there are neither user namespaces nor other users',
  async () => {
    const bin = join(root, 'bin')
    fs.mkdirSync(bin)
    fs.symlinkSync('/bin/sh', join(bin, 'sh'))
    vi.stubEnv('PATH', bin)
    await expect(start()).rejects.toThrow(/DATABASE_URL/)
  },
)

test.runIf(process.platform === 'linux').each(['SIGKILL', 'SIGTERM', 'exit'] as const)(
  'the server stops when the process that started it ends by %s',
  async end => {
    await createDataDir()
    const module = join(import.meta.dirname, '../../src/host/embedded-postgres.ts')
    const script = `
    const { startPostgres } = await import(${JSON.stringify(module)})
    console.log((await startPostgres({ dataDir: ${JSON.stringify(dataDir)}, durable: false })).pid)
    process.stdin.resume().on('end', () => process.exit())`
    const host = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['pipe', 'pipe', 'inherit'] })
    const [line] = await once(host.stdout, 'data')
    const pid = Number(line)
    expect(isRunning(pid)).toBe(true)
    const left = once(host, 'exit')
    if (end === 'exit') host.stdin.end()
    else host.kill(end)
    await left
    await expect.poll(() => isRunning(pid)).toBe(false)
  },
)
