// Databases of the process engine on a real Postgres: given, kept apart, found again by the next agent, held to their size, removed.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { Agent } from '../../src/agent/agent.ts'
import { createControlPlaneClient } from '../../src/agent/control-plane/client.ts'
import { NO_EVENTS, type RevisionRef } from '../../src/agent/engine.ts'
import type { Limits } from '../../src/agent/engines/local/limits.ts'
import { ProcessEngine } from '../../src/agent/engines/process.ts'
import { startPostgres } from '../../src/host/embedded-postgres.ts'
import { findServer } from '../../src/postgres/data-folder.ts'
import { withDefaults } from '../../src/protocol/resources.schema.ts'
import { startCommand, stopCommands, waitFor } from '../support/commands.ts'
import { startControlPlane } from '../support/fake-control-plane.ts'
import { startGitServer } from '../support/git-server.ts'
import { connect, query } from '../support/postgres.ts'
import {
  closeAgents,
  FAST_LIMITS,
  LOOPBACK_NETWORKS,
  makeTempFolder,
  makeUnit,
  requestRouter,
  runAgent,
  writeApplication,
} from '../support/process-engine.ts'

let home: string
let started: ProcessEngine[]
let ref: RevisionRef

beforeEach(() => {
  home = makeTempFolder()
  started = []
  ref = { deployment_id: randomUUID(), revision_id: randomUUID() }
})
afterEach(async () => {
  await stopCommands()
  for (const engine of started) await engine.close({ stop: true })
  fs.rmSync(home, { recursive: true, force: true })
})

async function open(limits: Partial<Limits> = {}, database_url?: string) {
  const engine = new ProcessEngine({ home, port: 0, limits: { ...FAST_LIMITS, ...limits }, database_url })
  const lines: string[] = []
  await engine.open({ ...NO_EVENTS, log: (_, message) => void lines.push(message) })
  started.push(engine)
  return { engine, lines }
}

const spec = { db_storage_gi: 1, db_max_connections: 5 }
const unitWithDatabase = (of: RevisionRef, more = spec) =>
  makeUnit(of, { needs_database: true, resources: withDefaults(more, 'dev') })
const server = () => findServer(join(home, 'postgres'))

/** Counts its requests in a table, on one connection after the other. */
const COUNTING = `
import { createRequire } from 'node:module'
import { createServer } from 'node:http'
const pg = createRequire(${JSON.stringify(join(import.meta.dirname, '../../package.json'))})('pg')
const asking = async work => {
  const client = new pg.Client({ connectionString: process.env.DATABASE_URI })
  client.on('error', () => {})
  await client.connect()
  try { return await work(client) } finally { await client.end() }
}
// It is there when it starts, or this one ends.
await asking(client => client.query('create table if not exists visits (at timestamptz default now())'))
createServer(async (req, res) => {
  const said = await asking(async client => {
    await client.query('insert into visits default values')
    return String((await client.query('select count(*)::int as n from visits')).rows[0].n)
  }).catch(error => 'failed: ' + error.message)
  res.end(said)
}).listen(process.env.PORT)
`

async function waitUntilReady(engine: ProcessEngine, of: RevisionRef): Promise<void> {
  await engine.provide(unitWithDatabase(of))
  await waitFor(async () => (await engine.observe(of.deployment_id)).database?.ready)
}
async function serving(engine: ProcessEngine): Promise<string> {
  await engine.start(unitWithDatabase(ref), writeApplication(home, 'counting', COUNTING))
  await waitFor(async () => (await engine.observe(ref.deployment_id)).running[0]?.phase === 'healthy')
  await engine.route(unitWithDatabase(ref))
  return (await engine.observe(ref.deployment_id)).url!
}
const uriOf = ({ deployment_id }: RevisionRef): string =>
  JSON.parse(fs.readFileSync(join(home, 'process', deployment_id, 'database.json'), 'utf8')).uri
const codeOf = (url: string, text = 'select 1') =>
  query(url, text).then(
    () => 'well',
    error => error.code,
  )

describe('a database', () => {
  test('is there when an application starts, with its limit; the server only since somebody asked', async () => {
    const { engine, lines } = await open()
    expect(server()).toBeUndefined()
    expect(await engine.observe(ref.deployment_id)).toMatchObject({ database: null })
    await waitUntilReady(engine, ref)
    const url = await serving(engine)
    expect([(await requestRouter(url)).body, (await requestRouter(url)).body]).toEqual(['1', '2'])
    expect(lines).toEqual([])
    expect(fs.statSync(join(home, 'process', ref.deployment_id, 'database.json')).mode & 0o777).toBe(0o600)

    // One after the other, and again: whoever is refused, or has left, counts against the rest for a moment.
    const held: pg.Client[] = []
    while (held.length < 5) held.push(await waitFor(() => connect(uriOf(ref)).catch(() => undefined)))
    expect(await codeOf(uriOf(ref))).toBe('53300')
    await Promise.all(held.map(client => client.end()))
    // More of them, where more are wanted.
    await engine.start(
      unitWithDatabase(ref, { ...spec, db_max_connections: 9 }),
      writeApplication(home, 'counting', COUNTING),
    )
    const limit = `select rolconnlimit as n from pg_roles where rolname = current_user`
    await waitFor(async () => (await query(uriOf(ref), limit).catch(() => []))[0]?.n === 9)
  })

  test('is its deployment’s own: no other role enters it, and none is more than a guest', async () => {
    const { engine } = await open()
    const other = { deployment_id: randomUUID(), revision_id: randomUUID() }
    await Promise.all([waitUntilReady(engine, ref), waitUntilReady(engine, other)])
    const at = (uri: string, database: string) => Object.assign(new URL(uri), { pathname: `/${database}` }).href
    const name = (uri: string) => new URL(uri).pathname.slice(1)
    expect(await codeOf(uriOf(ref))).toBe('well')
    // 28000: no line of pg_hba.conf lets it in.
    for (const database of [name(uriOf(other)), 'postgres', 'template1'])
      expect(await codeOf(at(uriOf(ref), database)), database).toBe('28000')
    await query(uriOf(other), `grant all on schema public to public`)
    expect(await codeOf(at(uriOf(ref), name(uriOf(other))))).toBe('28000')
    const wrong = Object.assign(new URL(uriOf(ref)), { password: 'guess' }).href
    expect(await codeOf(wrong)).toBe('28P01')
    for (const text of [
      'create database more',
      'create role more',
      `alter role ${name(uriOf(ref))} connection limit 100`,
      `alter database ${name(uriOf(ref))} connection limit 100`,
      `copy (select 1) to program 'true'`,
      `select pg_read_file('PG_VERSION')`,
    ])
      expect(await codeOf(uriOf(ref), text), text).toBe('42501')
    await query(uriOf(ref), 'create schema own; create table own.t (x int); create extension if not exists pg_trgm')
  })

  test('is gone with its deployment, and its role too', async () => {
    const { engine } = await open()
    const other = { deployment_id: randomUUID(), revision_id: randomUUID() }
    await Promise.all([waitUntilReady(engine, ref), waitUntilReady(engine, other)])
    const uri = uriOf(ref)
    await connect(uri)
    await engine.remove(ref.deployment_id)
    const left = `select datname as name from pg_database where datname like 'app%' union all select rolname from pg_roles where rolname like 'app%'`
    const kept = new URL(uriOf(other)).pathname.slice(1)
    expect(await query(uriOf(other), left)).toEqual([{ name: kept }, { name: kept }])
    expect(await engine.observe(ref.deployment_id)).toMatchObject({ hasRemains: false, database: null })
  })

  test('over its storage can only be read, until there is room again, and the log says so', async () => {
    const { engine, lines } = await open()
    await waitUntilReady(engine, ref)
    const url = await serving(engine)
    await requestRouter(url)
    await query(uriOf(ref), `create table big as select repeat('x', 1000) as x from generate_series(1, 10000)`)
    const resources = { ...withDefaults(spec, 'dev'), db_storage_gi: 0.01 }
    const small = { ...unitWithDatabase(ref), resources }
    await engine.start(small, writeApplication(home, 'counting', COUNTING))
    await waitFor(() => lines.some(line => line.includes('db_storage_gi of 0.01')))
    expect((await requestRouter(url)).body).toContain('read-only transaction')
    expect(await codeOf(uriOf(ref), 'select count(*) from visits')).toBe('well')
    await query(uriOf(ref), 'begin; set transaction read write; drop table big; commit')
    await waitFor(async () => /^\d+$/.test((await requestRouter(url)).body))
    await waitFor(() => lines.filter(line => line.includes('writable again')).length === 1)
  })
})

describe('the server', () => {
  test('serves on without an agent, is taken over by the next, and ends with what it runs; data stay', async () => {
    const first = await open()
    await waitUntilReady(first.engine, ref)
    const url = await serving(first.engine)
    await requestRouter(url)
    const { pid, port } = server()!
    await first.engine.close({ stop: false })
    expect((await requestRouter(url)).body).toBe('2')

    const second = await open()
    await waitFor(async () => (await second.engine.observe(ref.deployment_id)).database?.ready)
    expect(server()).toEqual({ pid, port })
    expect((await requestRouter(url)).body).toBe('3')
    const uri = uriOf(ref)
    await second.engine.close({ stop: true })
    expect(server()).toBeUndefined()

    const third = await open()
    await waitFor(async () => (await third.engine.observe(ref.deployment_id)).database?.ready)
    expect(uriOf(ref)).toBe(uri)
    expect((await requestRouter(await serving(third.engine))).body).toBe('4')
  })

  test('that is killed comes again where it was', async () => {
    // Nobody measures meanwhile, who would need it too.
    const { engine } = await open({ disk_ms: 60_000 })
    await waitUntilReady(engine, ref)
    const url = await serving(engine)
    await requestRouter(url)
    const before = server()!
    process.kill(before.pid, 'SIGKILL')
    const after = await waitFor(() => {
      const now = server()
      return now?.port && now.pid !== before.pid ? now : undefined
    })
    expect(after.port).toBe(before.port)
    await waitFor(async () => (await requestRouter(url)).body === '2')
  })

  test('that is gone is found out, however many ask for it at once, and nobody waits for it who lets it go', async () => {
    const theirs = await startPostgres({ dataDir: join(home, 'theirs'), durable: false })
    onTestFinished(() => theirs.stop())
    const { engine } = await open({}, theirs.url)
    await waitUntilReady(engine, ref)
    await theirs.stop()
    await Promise.all([1, 2].map(() => engine.provide(unitWithDatabase(ref))))
    await waitFor(async () => (await engine.observe(ref.deployment_id)).database?.ready === false)
    // Its database cannot be dropped now, which is told.
    await expect(engine.remove(ref.deployment_id)).rejects.toThrow()
    expect((await engine.observe(ref.deployment_id)).database).toBeNull()
  })

  test('of the operator’s own serves as well, by a role that is no superuser', async () => {
    const theirs = await startPostgres({ dataDir: join(home, 'theirs'), durable: false })
    try {
      await query(theirs.url, `create role agent login createdb createrole password 'hush'`)
      const { engine } = await open({}, `postgres://agent:hush@127.0.0.1:${theirs.port}/postgres?application_name=x`)
      const other = { deployment_id: randomUUID(), revision_id: randomUUID() }
      await Promise.all([waitUntilReady(engine, ref), waitUntilReady(engine, other)])
      expect((await requestRouter(await serving(engine))).body).toBe('1')
      const elsewhere = Object.assign(new URL(uriOf(ref)), { pathname: new URL(uriOf(other)).pathname }).href
      expect(await codeOf(elsewhere)).toBe('42501')
      expect(server()).toBeUndefined()
      await connect(uriOf(ref))
      for (const { deployment_id } of [ref, other]) await engine.remove(deployment_id)
      const left = `select 1 from pg_roles where rolname like 'app%' union all select 1 from pg_database where datname like 'app%'`
      expect(await query(theirs.url, left)).toEqual([])
    } finally {
      await theirs.stop()
    }
  })
})

describe('the agent whole', () => {
  const files = {
    'app.json': JSON.stringify({ start_command: 'node main.mjs' }),
    'main.mjs': COUNTING,
  }
  const source = (url: string) => ({
    ...{ source: 'githost' as const, platform_config_path: 'app.json', git: { url, ref: 'main', commit_sha: null } },
    resource_spec: spec,
  })

  test.runIf(process.platform === 'linux')(
    'killed at any moment of a first database: the next one has it, once',
    async () => {
      const [control, git] = await Promise.all([startControlPlane(), startGitServer()])
      try {
        git.push(files)
        const revision = control.want(ref.deployment_id, source(git.url), { needs_database: true })
        const env = { SLIPWAY_URL: control.url, SLIPWAY_LISTENER_KEY: 'key', AGENT_ALLOWED_NETWORKS: '127.0.0.0/8' }
        const agent = () => startCommand('src/agent/main.ts', ['--home', home, '--port', '0', '--stop'], env)
        for (const ms of [50, 400, 900, 1_500, 2_500, 4_000]) {
          const one = agent()
          await one.until(() => one.said.out.includes('lease acquired'))
          await delay(ms)
          await one.stop('SIGKILL')
        }
        const last = agent()
        await last.until(() => last.said.out.includes('lease acquired') && control.said(revision).includes('deployed'))
        expect(control.reports.some(({ state }) => state === 'database_ready')).toBe(true)
        const url = control.reports.findLast(({ url }) => url)!.url!
        expect((await requestRouter(url)).body).toMatch(/^\d+$/)
        expect(serversOf(home)).toEqual([server()!.pid])
        expect(fs.readdirSync(home).filter(name => name.startsWith('postgres.new'))).toEqual([])
        expect(await last.stop('SIGTERM'), last.said.err).toBe(0)
        await waitFor(() => serversOf(home).length === 0)
      } finally {
        await Promise.all([control.stop(), git.stop()])
      }
    },
  )

  test('whose database does not come says so as the revision’s failure, and nothing was started', async () => {
    const [control, git] = await Promise.all([startControlPlane(), startGitServer()])
    const { engine } = await open()
    await engine.close({ stop: true })
    const broken = new ProcessEngine({
      ...{ home, port: 0, limits: { ...FAST_LIMITS, database_ms: 300 } },
      database_url: 'postgres://agent:hush@127.0.0.1:1/postgres',
    })
    const agent = new Agent({
      ...{
        agent_id: 'one',
        version: 'test',
        home,
        engine: broken,
        networks: LOOPBACK_NETWORKS,
        wait: 5,
        logToOperator: () => {},
      },
      control: createControlPlaneClient({ url: control.url, key: 'key' }),
    })
    runAgent(agent)
    try {
      git.push(files)
      const revision = control.want(ref.deployment_id, source(git.url), { needs_database: true })
      const failed = await waitFor(() => control.reports.find(({ state }) => state === 'failed'))
      expect(failed).toMatchObject({
        revision_id: revision,
        message: expect.stringMatching(/no database.*ECONNREFUSED/),
      })
      expect(control.reports.some(({ state }) => state === 'deployed' || state === 'database_ready')).toBe(false)
      expect(control.logs.filter(({ kind }) => kind === 'deploy')).toEqual([])
    } finally {
      await closeAgents()
      await Promise.all([control.stop(), git.stop()])
    }
  })
})

/** Whoever serves a data folder below that one; of a server's processes the first. */
function serversOf(root: string): number[] {
  const serving = fs.readdirSync('/proc').flatMap(pid => {
    try {
      return fs.readlinkSync(`/proc/${pid}/cwd`).startsWith(join(root, 'postgres')) ? [Number(pid)] : []
    } catch {
      return []
    }
  })
  return serving.filter(pid => {
    try {
      return !serving.includes(Number(/^PPid:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'latin1'))![1]))
    } catch {
      // It has ended meanwhile.
      return false
    }
  })
}
