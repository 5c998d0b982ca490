// Databases of the process engine on a real Postgres: isolation, limits, the server after restarts, and removal.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { Agent } from '../../src/agent/agent.ts'
import { createControlPlaneClient } from '../../src/agent/control-plane/client.ts'
import { PermanentError, type RevisionRef } from '../../src/agent/engine.ts'
import type { Limits } from '../../src/agent/engines/local/limits.ts'
import { ProcessEngine } from '../../src/agent/engines/process.ts'
import { readJson, writeJson } from '../../src/agent/system/files.ts'
import { startPostgres } from '../../src/host/embedded-postgres.ts'
import { findServer } from '../../src/postgres/data-folder.ts'
import { withDefaults } from '../../src/protocol/resources.schema.ts'
import { startCommand, stopCommands, waitFor } from '../support/commands.ts'
import { startControlPlane } from '../support/fake-control-plane.ts'
import { startGitServer } from '../support/git-server.ts'
import { copyEmptyDatabase } from '../support/migrated-postgres.ts'
import { connect, query } from '../support/postgres.ts'
import {
  closeAgents,
  closeEngines,
  FAST_LIMITS,
  LOOPBACK_NETWORKS,
  makeRevisionRef,
  makeTempFolder,
  makeUnit,
  openEngine,
  requestRouter,
  runAgent,
  writeApplication,
} from '../support/process-engine.ts'

let home: string
let ref: RevisionRef

beforeEach(() => {
  home = makeTempFolder()
  ref = makeRevisionRef()
})
afterEach(async () => {
  await stopCommands()
  await closeEngines()
  fs.rmSync(home, { recursive: true, force: true })
})

const open = (limits: Partial<Limits> = {}, database_url?: string) => openEngine(home, { limits, database_url })
async function openInitialised(limits?: Partial<Limits>) {
  await copyEmptyDatabase(home)
  return open(limits)
}
/** A server that the agent does not manage. */
async function startExternalServer() {
  await copyEmptyDatabase(home, 'external')
  const server = await startPostgres({ dataDir: join(home, 'external'), durable: false })
  onTestFinished(server.stop)
  return server
}

const SPEC = { db_storage_gi: 1, db_max_connections: 5 }
const makeUnitWithDatabase = (revision: RevisionRef, spec = SPEC) =>
  makeUnit(revision, { needs_database: true, resources: withDefaults(spec, 'dev') })
function findOwnServer({ deployment_id }: RevisionRef = ref) {
  const folder = join(home, 'databases', deployment_id)
  const { generation } = readJson<{ generation: string }>(join(folder, 'current.json')) ?? {}
  return generation === undefined ? undefined : findServer(join(folder, generation, 'data'))
}

/** Counts its requests in a table, each on a new connection. Exits if there is no database when it starts. */
const COUNTER_CODE = `
import { createRequire } from 'node:module'
import { createServer } from 'node:http'
const pg = createRequire(${JSON.stringify(join(import.meta.dirname, '../../package.json'))})('pg')
const withClient = async work => {
  const client = new pg.Client({ connectionString: process.env.DATABASE_URI })
  client.on('error', () => {})
  await client.connect()
  try { return await work(client) } finally { await client.end() }
}
await withClient(client => client.query('create table if not exists visits (at timestamptz default now())'))
createServer(async (req, res) => {
  const body = await withClient(async client => {
    await client.query('insert into visits default values')
    return String((await client.query('select count(*)::int as n from visits')).rows[0].n)
  }).catch(error => 'failed: ' + error.message)
  res.end(body)
}).listen(process.env.PORT)
`

const waitUntilReady = (engine: ProcessEngine, { deployment_id }: RevisionRef) =>
  waitFor(async () => (await engine.observe(deployment_id)).database?.ready)
async function provideDatabase(engine: ProcessEngine, revision: RevisionRef): Promise<void> {
  await engine.provide(makeUnitWithDatabase(revision))
  await waitUntilReady(engine, revision)
}
async function startCounter(engine: ProcessEngine): Promise<string> {
  await engine.start(makeUnitWithDatabase(ref), writeApplication(home, 'counting', COUNTER_CODE))
  await waitFor(async () => (await engine.observe(ref.deployment_id)).running[0]?.phase === 'healthy')
  await engine.route(makeUnitWithDatabase(ref))
  return (await engine.observe(ref.deployment_id)).url!
}
const databaseUriOf = ({ deployment_id }: RevisionRef): string =>
  JSON.parse(fs.readFileSync(join(home, 'process', deployment_id, 'database.json'), 'utf8')).uri
const findErrorCode = (url: string, text = 'select 1') =>
  query(url, text).then(
    () => 'none',
    error => error.code,
  )

describe('a database', () => {
  test('is ready before the application starts, with its connection limit, and starts the server', async () => {
    const { engine, lines } = await open()
    expect(findOwnServer()).toBeUndefined()
    expect(await engine.observe(ref.deployment_id)).toMatchObject({ database: null })
    await provideDatabase(engine, ref)
    const url = await startCounter(engine)
    expect([(await requestRouter(url)).body, (await requestRouter(url)).body]).toEqual(['1', '2'])
    expect(lines).toEqual([])
    expect(fs.statSync(join(home, 'process', ref.deployment_id, 'database.json')).mode & 0o777).toBe(0o600)

    // Retried, because a connection that was refused or has ended counts for a moment.
    const clients: pg.Client[] = []
    while (clients.length < 5) clients.push(await waitFor(() => connect(databaseUriOf(ref)).catch(() => undefined)))
    expect(await findErrorCode(databaseUriOf(ref))).toBe('53300')
    await Promise.all(clients.map(client => client.end()))
    await engine.start(
      makeUnitWithDatabase(ref, { ...SPEC, db_max_connections: 9 }),
      writeApplication(home, 'counting', COUNTER_CODE),
    )
    const limit = `select rolconnlimit as n from pg_roles where rolname = current_user`
    await waitFor(async () => (await query(databaseUriOf(ref), limit).catch(() => []))[0]?.n === 9)
  })

  test('cannot be entered by the role of another deployment, and its role has no further rights', async () => {
    const { engine } = await openInitialised()
    const other = makeRevisionRef()
    await Promise.all([provideDatabase(engine, ref), provideDatabase(engine, other)])
    const at = (uri: string, database: string) => Object.assign(new URL(uri), { pathname: `/${database}` }).href
    expect(await findErrorCode(databaseUriOf(ref))).toBe('none')
    // 28000: no line of pg_hba.conf lets it in.
    for (const database of ['postgres', 'template1'])
      expect(await findErrorCode(at(databaseUriOf(ref), database)), database).toBe('28000')
    const { port } = new URL(databaseUriOf(other))
    for (const wrong of [{ port }, { password: 'guess' }] as object[])
      expect(await findErrorCode(Object.assign(new URL(databaseUriOf(ref)), wrong).href)).toBe('28P01')
    for (const text of [
      'create database more',
      'create role more',
      'alter role app connection limit 100',
      'alter database app connection limit 100',
      `alter system set archive_command = 'true'`,
      `copy (select 1) to program 'true'`,
      `select pg_read_file('PG_VERSION')`,
    ])
      expect(await findErrorCode(databaseUriOf(ref), text), text).toBe('42501')
    await query(
      databaseUriOf(ref),
      'create schema own; create table own.t (x int); create extension if not exists pg_trgm',
    )
  })

  test('is removed with its deployment, its server and its backups', async () => {
    const { engine } = await openInitialised({ backup_ms: 50 })
    const other = makeRevisionRef()
    await Promise.all([provideDatabase(engine, ref), provideDatabase(engine, other)])
    await waitFor(() => fs.existsSync(join(home, 'backups/process', ref.deployment_id)))
    const { pid } = findOwnServer()!
    await connect(databaseUriOf(ref))
    await engine.remove(ref.deployment_id)
    expect(() => process.kill(pid, 0)).toThrow()
    for (const folder of ['databases', 'backups/process'])
      await waitFor(() => !fs.existsSync(join(home, folder, ref.deployment_id)))
    expect(await findErrorCode(databaseUriOf(other))).toBe('none')
    expect(await engine.observe(ref.deployment_id)).toMatchObject({ hasRemains: false, database: null })
  })

  test('over its storage limit is read-only until it has space again, which is logged', async () => {
    const { engine, lines } = await openInitialised()
    await provideDatabase(engine, ref)
    const url = await startCounter(engine)
    await requestRouter(url)
    await query(databaseUriOf(ref), `create table big as select repeat('x', 1000) as x from generate_series(1, 10000)`)
    const resources = { ...withDefaults(SPEC, 'dev'), db_storage_gi: 0.01 }
    const small = { ...makeUnitWithDatabase(ref), resources }
    await engine.start(small, writeApplication(home, 'counting', COUNTER_CODE))
    await waitFor(() => lines.some(({ message }) => message.includes('db_storage_gi of 0.01')))
    expect((await requestRouter(url)).body).toContain('read-only transaction')
    expect(await findErrorCode(databaseUriOf(ref), 'select count(*) from visits')).toBe('none')
    await query(databaseUriOf(ref), 'begin; set transaction read write; drop table big; commit')
    await waitFor(async () => /^\d+$/.test((await requestRouter(url)).body))
    await waitFor(() => lines.filter(({ message }) => message.includes('writable again')).length === 1)
  })
})

describe('the server', () => {
  test('keeps running without an agent and is adopted by the next one, and its data survive a stop', async () => {
    const first = await openInitialised()
    await provideDatabase(first.engine, ref)
    const url = await startCounter(first.engine)
    await requestRouter(url)
    const { pid, port } = findOwnServer()!
    await first.engine.close({ stop: false })
    expect((await requestRouter(url)).body).toBe('2')

    const second = await open()
    await waitUntilReady(second.engine, ref)
    expect(findOwnServer()).toEqual({ pid, port })
    expect((await requestRouter(url)).body).toBe('3')
    const uri = databaseUriOf(ref)
    await second.engine.close({ stop: true })
    expect(findOwnServer()).toBeUndefined()

    const third = await open()
    await waitUntilReady(third.engine, ref)
    expect(databaseUriOf(ref)).toBe(uri)
    expect((await requestRouter(await startCounter(third.engine))).body).toBe('4')
  })

  test('is restarted on its port after it was killed', async () => {
    // No measurement of the storage reopens the server before the check does.
    const { engine } = await openInitialised({ disk_ms: 60_000 })
    await provideDatabase(engine, ref)
    const url = await startCounter(engine)
    await requestRouter(url)
    const before = findOwnServer()!
    process.kill(before.pid, 'SIGKILL')
    const after = await waitFor(() => {
      const now = findOwnServer()
      return now?.port && now.pid !== before.pid ? now : undefined
    })
    expect(after.port).toBe(before.port)
    await waitFor(async () => (await requestRouter(url)).body === '2')
  })

  test('is the shared one for a database of an earlier agent, which has no backups', async () => {
    await copyEmptyDatabase(home, 'postgres')
    const { deployment_id } = ref
    const name = `app_${deployment_id.replaceAll('-', '')}`
    const record = { name, password: 'hush', uri: null, connections: 5, storage_gi: 1, full: false }
    writeJson(join(home, 'process', deployment_id, 'database.json'), record)
    const { engine } = await open()
    await waitUntilReady(engine, ref)
    expect(await query(databaseUriOf(ref), 'select current_user as role')).toEqual([{ role: name }])
    expect(findServer(join(home, 'postgres'))).toBeDefined()
    await engine.provide(makeUnitWithDatabase(ref))
    expect(await engine.listStores(deployment_id)).toEqual([])
    const snapshot = engine.takeSnapshot(deployment_id, 'database', home, new AbortController().signal)
    await expect(snapshot).rejects.toThrow(PermanentError)
    await engine.remove(deployment_id)
    expect(fs.existsSync(join(home, 'databases', deployment_id))).toBe(false)
  })

  test('makes databases not ready when it has stopped, and a deployment can be removed', async () => {
    const server = await startExternalServer()
    const { engine } = await open({}, server.url)
    await provideDatabase(engine, ref)
    await server.stop()
    await Promise.all([1, 2].map(() => engine.provide(makeUnitWithDatabase(ref))))
    await waitFor(async () => (await engine.observe(ref.deployment_id)).database?.ready === false)
    // Its database cannot be dropped now.
    await expect(engine.remove(ref.deployment_id)).rejects.toThrow()
    expect((await engine.observe(ref.deployment_id)).database).toBeNull()
  })

  test('can be the operator’s, with a role that is not a superuser', async () => {
    const server = await startExternalServer()
    await query(server.url, `create role agent login createdb createrole password 'hush'`)
    const { engine } = await open({}, `postgres://agent:hush@127.0.0.1:${server.port}/postgres?application_name=x`)
    const other = makeRevisionRef()
    await Promise.all([provideDatabase(engine, ref), provideDatabase(engine, other)])
    expect((await requestRouter(await startCounter(engine))).body).toBe('1')
    const elsewhere = Object.assign(new URL(databaseUriOf(ref)), {
      pathname: new URL(databaseUriOf(other)).pathname,
    }).href
    expect(await findErrorCode(elsewhere)).toBe('42501')
    expect(findOwnServer()).toBeUndefined()
    await connect(databaseUriOf(ref))
    for (const { deployment_id } of [ref, other]) await engine.remove(deployment_id)
    const left = `
      select 1
      from pg_roles
      where rolname like 'app%'
      union all
      select 1
      from pg_database
      where datname like 'app%'`
    expect(await query(server.url, left)).toEqual([])
  })
})

describe('an agent', () => {
  const FILES = {
    'app.json': JSON.stringify({ start_command: 'node main.mjs' }),
    'main.mjs': COUNTER_CODE,
  }
  const makeSource = (url: string) => ({
    source: 'githost' as const,
    platform_config_path: 'app.json',
    git: { url, ref: 'main', commit_sha: null },
    resource_spec: SPEC,
  })

  test.runIf(process.platform === 'linux')(
    'that is killed while it creates the first database leaves no second server, and the next agent completes it',
    async () => {
      const [control, git] = await Promise.all([startControlPlane(), startGitServer()])
      try {
        git.push(FILES)
        const revision = control.want(ref.deployment_id, makeSource(git.url), { needs_database: true })
        const env = { SLIPWAY_URL: control.url, SLIPWAY_LISTENER_KEY: 'key', AGENT_ALLOWED_NETWORKS: '127.0.0.0/8' }
        const startAgent = () => startCommand('src/agent/main.ts', ['--home', home, '--port', '0', '--stop'], env)
        for (const ms of [50, 400, 900, 1_500, 2_500, 4_000]) {
          const killed = startAgent()
          await killed.until(() => killed.output.out.includes('lease acquired'))
          await delay(ms)
          await killed.stop('SIGKILL')
        }
        const last = startAgent()
        await last.until(
          () => last.output.out.includes('lease acquired') && control.reportedStates(revision).includes('deployed'),
        )
        expect(control.reports.some(({ state }) => state === 'database_ready')).toBe(true)
        const url = control.reports.findLast(({ url }) => url)!.url!
        expect((await requestRouter(url)).body).toMatch(/^\d+$/)
        expect(listServers(home)).toEqual([findOwnServer()!.pid])
        const left = fs.readdirSync(join(home, 'databases'), { recursive: true, encoding: 'utf8' })
        expect(left.filter(name => name.includes('.new-'))).toEqual([])
        expect(await last.stop('SIGTERM'), last.output.err).toBe(0)
        await waitFor(() => listServers(home).length === 0)
      } finally {
        await Promise.all([control.stop(), git.stop()])
      }
    },
  )

  test('fails the revision with the reason if its database is never ready, and starts no application', async () => {
    const [control, git] = await Promise.all([startControlPlane(), startGitServer()])
    const engine = new ProcessEngine({
      home,
      port: 0,
      limits: { ...FAST_LIMITS, database_ms: 300 },
      database_url: 'postgres://agent:hush@127.0.0.1:1/postgres',
    })
    const agent = new Agent({
      agent_id: 'one',
      version: 'test',
      home,
      engine,
      networks: LOOPBACK_NETWORKS,
      wait: 5,
      logToOperator: () => {},
      control: createControlPlaneClient({ url: control.url, key: 'key' }),
    })
    runAgent(agent)
    try {
      git.push(FILES)
      const revision = control.want(ref.deployment_id, makeSource(git.url), { needs_database: true })
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

/** The first process of each Postgres server whose data folder is in this folder. */
function listServers(root: string): number[] {
  const pids = fs.readdirSync('/proc').flatMap(pid => {
    try {
      return fs.readlinkSync(`/proc/${pid}/cwd`).startsWith(join(root, 'databases')) ? [Number(pid)] : []
    } catch {
      return []
    }
  })
  return pids.filter(pid => {
    try {
      return !pids.includes(Number(/^PPid:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'latin1'))![1]))
    } catch {
      // It has ended.
      return false
    }
  })
}
