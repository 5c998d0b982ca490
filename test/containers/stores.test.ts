// Databases and Redis of the container engine with a real Podman and a real Postgres in it.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { Agent } from '../../src/agent/agent.ts'
import { BucketStore } from '../../src/agent/archive/bucket-store.ts'
import { createControlPlaneClient } from '../../src/agent/control-plane/client.ts'
import type { RevisionRef } from '../../src/agent/engine.ts'
import { ContainerEngine } from '../../src/agent/engines/container.ts'
import { type ResourceSpec, withDefaults } from '../../src/protocol/resources.schema.ts'
import { startCommand, stopCommands, waitFor } from '../support/commands.ts'
import { SERVE_COMMAND, setUpContainerEngines } from '../support/container-engine.ts'
import { startControlPlane } from '../support/fake-control-plane.ts'
import { type Podman, startPodman } from '../support/podman.ts'
import { connect, query } from '../support/postgres.ts'
import { closeAgents, LOOPBACK_NETWORKS, runAgent } from '../support/process-engine.ts'
import { backupSettings, startS3 } from '../support/s3.ts'
import { buildStoreImages, queryFromContainer, queryOver, readContainerEnvironment } from '../support/store-images.ts'

type Volume = { Labels: Record<string, string> }

let podman: Podman
let stores: Awaited<ReturnType<typeof buildStoreImages>>
let ref: RevisionRef
const pods = setUpContainerEngines(() => podman)
const { artifact: running, task, waitForPhase: until } = pods

beforeAll(async () => {
  podman = await startPodman()
  stores = await buildStoreImages(podman)
})
afterAll(() => podman.stop())
beforeEach(() => {
  pods.begin()
  ref = { deployment_id: randomUUID(), revision_id: randomUUID() }
})
afterEach(async () => {
  await stopCommands()
  await pods.end()
})

const open = (limits = {}) => pods.open(limits, { stores })
const DB = { db_memory_mb: 128, db_memory_limit_mb: 256, db_cpu: 0.5, db_cpu_limit: 1, db_max_connections: 7 }
const unit = (revision: RevisionRef, spec: ResourceSpec = DB, more = {}) =>
  pods.unit(revision, spec, { needs_database: true, ...more })

const waitUntilReady = (engine: ContainerEngine) =>
  waitFor(async () => {
    const { database } = await engine.observe(ref.deployment_id)
    return database?.ready ? database : undefined
  })
/** Starts and routes the revision, and returns the name of its container. */
async function serve(engine: ContainerEngine, spec = unit(ref)): Promise<string> {
  await engine.start(spec, running(SERVE_COMMAND))
  await until(engine, spec, 'healthy')
  await engine.route(spec)
  return (await listContainerNames({ revision: spec.revision_id }))[0]!
}
/** The running containers of a revision, or of the store `database` or `redis`. */
async function listContainerNames(label: { revision: string } | { part: string }, { deployment_id } = ref) {
  const labels = Object.entries({ deployment: deployment_id, ...label })
  const filters = labels.flatMap(([name, value]) => ['--filter', `label=slipway.${name}=${value}`])
  return (await podman.podman('ps', '--format', '{{.Names}}', ...filters)).split('\n').filter(Boolean)
}
const inspect = async (name: string) => JSON.parse(await podman.podman('inspect', name))[0]
const listRemains = async ({ deployment_id } = ref) => {
  const filter = ['--filter', `label=slipway.deployment=${deployment_id}`]
  return Promise.all(
    ['ps --all', 'volume ls', 'network ls'].map(command => podman.podman(...command.split(' '), '-q', ...filter)),
  )
}

test('a database is ready before its application starts, and keeps its data when its limits change', async () => {
  const { engine } = await open()
  await engine.provide(unit(ref))
  expect((await engine.observe(ref.deployment_id)).database).toMatchObject({ ready: false })
  await waitUntilReady(engine)
  const container = await serve(engine)
  const settingsQuery = `
    select
      current_user as role,
      current_setting('max_connections') as connections,
      current_setting('server_version_num')::int / 10000 as version`
  expect(await queryFromContainer(podman, container, settingsQuery)).toEqual([
    { role: 'app', connections: '7', version: 18 },
  ])

  const [store] = await listContainerNames({ part: 'database' })
  const { HostConfig, NetworkSettings } = await inspect(store!)
  expect(HostConfig).toMatchObject({ Memory: 256 * 2 ** 20, NanoCpus: 1e9, PidsLimit: 2048, ShmSize: 256 * 2 ** 20 })
  expect(Object.values(NetworkSettings.Ports ?? {}).filter(Boolean)).toEqual([])
  await queryFromContainer(podman, container, 'create table data as select 1 as x')
  const amounts = { store: 'database', bytes: expect.toSatisfy(Number.isInteger), connections: expect.any(Number) }
  await waitFor(() => engine.storeUsage().length > 0)
  expect(engine.storeUsage()).toMatchObject([amounts])

  // The next revision has other limits: the container of its database is created again, with the same volume.
  const second = { ...ref, revision_id: randomUUID() }
  await serve(engine, unit(second, { ...DB, db_max_connections: 9 }))
  await waitFor(async () => {
    // If the address of the database changed, the replica is created again.
    const [replica = ''] = await listContainerNames({ revision: second.revision_id })
    const query = `select current_setting('max_connections') as connections, x from data`
    const rows = await queryFromContainer(podman, replica, query).catch(() => [])
    return JSON.stringify(rows) === '[{"connections":"9","x":1}]'
  })
  expect(await listContainerNames({ part: 'database' })).toEqual([store])

  await engine.remove(ref.deployment_id)
  expect(await listRemains()).toEqual(['', '', ''])
})

/** Forwards a port of this machine to a database. */
async function forwardDatabase(engine: ContainerEngine, of: RevisionRef) {
  const forward = await engine.openForward(of, { store: 'postgres' })
  const server = createServer(socket => {
    void forward.connect().then(inside => socket.pipe(inside).pipe(socket))
    socket.on('error', () => {})
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const { user, password, database } = forward.store!
  return { url: `postgres://${user}:${password}@127.0.0.1:${port}/${database}`, close: () => void server.close() }
}
async function queryForwarded(engine: ContainerEngine, of: RevisionRef, text: string) {
  const { url, close } = await forwardDatabase(engine, of)
  return query(url, text).finally(close)
}

test('a database is restored between two writes and from a snapshot, in another deployment too', async () => {
  const { engine } = await open({ container_backup_ms: 500 })
  const copy: RevisionRef = { deployment_id: randomUUID(), revision_id: randomUUID() }
  for (const one of [ref, copy]) {
    await engine.provide(unit(one))
    await waitFor(async () => (await engine.observe(one.deployment_id)).database?.ready)
  }
  const run = (of: RevisionRef, text: string) => waitFor(() => queryForwarded(engine, of, text).catch(() => undefined))
  const read = async (of: RevisionRef) => (await run(of, 'select x from data order by x')).map(({ x }) => x)
  const never = new AbortController().signal
  await run(ref, 'create table data as select 1 as x')
  const backups = join(pods.home, 'backups/container', ref.deployment_id)
  await waitFor(
    () =>
      fs.existsSync(backups) &&
      fs.readdirSync(backups, { recursive: true }).some(name => /base.*json$/.test(`${name}`)),
  )
  const [between] = await run(ref, 'select clock_timestamp() as at')
  await delay(2)
  await run(ref, 'insert into data values (2)')
  const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-snapshot-'))
  onTestFinished(() => fs.rmSync(folder, { recursive: true }))
  await engine.takeSnapshot(ref.deployment_id, 'database', folder, never)
  await run(ref, 'insert into data values (3)')

  const at = between!.at as Date
  await engine.restoreSnapshot(unit(copy), 'database', { deployment_id: ref.deployment_id, at }, never)
  expect(await read(copy)).toEqual([1])
  expect(await read(ref)).toEqual([1, 2, 3])
  await engine.restoreSnapshot(unit(ref), 'database', { folder }, never)
  expect(await read(ref)).toEqual([1, 2])
  await run(ref, 'insert into data values (4)')
  for (const one of [ref, copy]) await engine.remove(one.deployment_id)
})

test('a preview begins with the data of its parent, whose sessions go on, and goes without a trace', async () => {
  const control = await startControlPlane()
  const { options } = pods
  const engine = new ContainerEngine({ ...options, stores, limits: { ...options.limits, container_backup_ms: 500 } })
  const client = createControlPlaneClient({ url: control.url, key: 'key' })
  const names = { agent_id: 'agent-1', version: 'test', home: pods.home }
  runAgent(
    new Agent({ ...names, engine, networks: LOOPBACK_NETWORKS, wait: 5, control: client, logToOperator: () => {} }),
  )
  onTestFinished(async () => {
    await closeAgents()
    await control.stop()
  })
  const [parent, preview] = [randomUUID(), randomUUID()]
  const deploy = async (deployment_id: string, more: object = {}): Promise<RevisionRef> => {
    const resource_spec = withDefaults({ memory_mb: 64, ...DB }, 'dev')
    const source = { source: 'internal_container', image_uri: podman.image, resource_spec } as const
    const revision_id = control.want(deployment_id, source, { needs_database: true, ...more })
    await waitFor(() => control.reportedStates(revision_id).includes('deployed'))
    return { deployment_id, revision_id }
  }
  const first = await deploy(parent)
  const { url, close } = await forwardDatabase(engine, first)
  const session = await connect(url)
  await session.query('create table visits as select 1 as n')

  const from = { from_deployment_id: parent, from_name: 'shop' }
  const second = await deploy(preview, { database_copy: { ...from, copied: false } })
  const containerOf = async (of: RevisionRef) => (await listContainerNames({ revision: of.revision_id }, of))[0]!
  const read = async (of: RevisionRef) =>
    queryFromContainer(podman, await containerOf(of), 'select n from visits order by n')
  expect(await read(second)).toEqual([{ n: 1 }])
  await session.query('insert into visits values (2)')
  await queryFromContainer(podman, await containerOf(second), 'insert into visits values (7)')
  expect(await Promise.all([first, second].map(read))).toEqual([
    [{ n: 1 }, { n: 2 }],
    [{ n: 1 }, { n: 7 }],
  ])
  const uris = [first, second].map(async of => readContainerEnvironment(podman, await containerOf(of)))
  const passwords = (await Promise.all(uris)).map(({ DATABASE_URI }) => new URL(DATABASE_URI!).password)
  expect(new Set(passwords).size).toBe(2)
  await session.end()
  close()
  for (const one of [second, first]) {
    const { deployment_id } = one
    control.updateWork(deployment_id, { wanted: 'absent', revision: null, serving: null })
    await waitFor(() =>
      control.reports.some(({ deployment_id: id, state }) => id === deployment_id && state === 'removed'),
    )
    expect(await listRemains(one)).toEqual(['', '', ''])
  }
  expect([...control.snapshots.held.values()].filter(({ deployment_id }) => deployment_id === preview)).toEqual([])
})

test('a database whose machine is lost comes back from the bucket with its last stored commit', async () => {
  const directory = fs.mkdtempSync(join(tmpdir(), 'slipway-bucket-'))
  const s3 = await startS3(directory)
  onTestFinished(async () => {
    await s3.close()
    fs.rmSync(directory, { recursive: true, force: true, maxRetries: 9 })
  })
  const listener = randomUUID()
  const openWithBucket = async () => {
    const archive = new BucketStore(backupSettings(s3), pods.home)
    archive.setListener(listener)
    return { archive, ...(await pods.open({ container_backup_ms: 500 }, { stores, archive })) }
  }
  const { engine, archive } = await openWithBucket()
  await engine.provide(unit(ref))
  await waitUntilReady(engine)
  const run = (on: ContainerEngine, text: string) => waitFor(() => queryForwarded(on, ref, text).catch(() => undefined))
  await run(engine, 'create table data as select 1 as x')
  const folder = `databases/container/${ref.deployment_id}`
  const list = async (kind: string) => {
    const generations = await archive.list(folder)
    return (await Promise.all(generations.map(name => archive.list(`${folder}/${name}/${kind}`)))).flat()
  }
  await waitFor(async () => (await list('base')).length === 2)
  await run(engine, 'insert into data values (2)')
  const [closed] = await run(engine, 'select pg_walfile_name(pg_switch_wal()) as name')
  await waitFor(async () => (await list('wal')).includes(`${closed!.name}.gz`))

  await engine.close({ stop: true })
  const filter = ['--filter', `label=slipway.deployment=${ref.deployment_id}`]
  for (const [what, ...remove] of [
    ['ps --all', 'rm', '-f', '-v'],
    ['volume ls', 'volume', 'rm'],
    ['network ls', 'network', 'rm'],
  ]) {
    const ids = (await podman.podman(...what!.split(' '), '-q', ...filter)).split('\n').filter(Boolean)
    if (ids.length > 0) await podman.podman(...remove, ...ids)
  }
  fs.rmSync(pods.home, { recursive: true })

  const { engine: next } = await openWithBucket()
  await next.provide(unit(ref))
  await waitFor(async () =>
    (await next.observe(ref.deployment_id)).database?.reason?.includes('slipway snapshots restore'),
  )
  const at = new Date()
  const never = new AbortController().signal
  await next.restoreSnapshot(unit(ref), 'database', { deployment_id: ref.deployment_id, at }, never)
  expect((await run(next, 'select x from data order by x')).map(({ x }) => x)).toEqual([1, 2])
  await next.remove(ref.deployment_id)
  expect(await archive.list(folder)).toEqual([])
})

test('two databases have passwords of their own, and the removal of one leaves the other', async () => {
  const { engine } = await open()
  const other: RevisionRef = { deployment_id: randomUUID(), revision_id: randomUUID() }
  const readyOf = ({ deployment_id }: RevisionRef) =>
    waitFor(async () => (await engine.observe(deployment_id)).database?.ready === true)
  for (const one of [other, ref]) {
    await engine.provide(unit(one))
    await readyOf(one)
  }
  const volumes = async () => JSON.parse(await podman.podman('volume', 'inspect', '--all')) as Volume[]
  const passwords = (await volumes()).map(({ Labels }) => Labels['slipway.password'])
  expect(new Set(passwords).size).toBe(2)
  const container = await serve(engine)
  await queryFromContainer(podman, container, 'create table data as select 1 as x')
  await engine.remove(other.deployment_id)
  expect((await volumes()).map(({ Labels }) => Labels['slipway.deployment'])).toEqual([ref.deployment_id])
  expect(await queryFromContainer(podman, container, 'select x from data')).toEqual([{ x: 1 }])

  // A client reaches it by the agent.
  const { store, connect } = await engine.openForward(ref, { store: 'postgres' })
  const { user, password, database } = store!
  const uri = `postgresql://${user}:${password}@127.0.0.1/${database}`
  expect(await queryOver(await connect(), uri, 'select x from data')).toEqual([{ x: 1 }])
  await expect(engine.openForward(ref, { store: 'redis' })).rejects.toThrow('no redis')
})

test('a database runs without an agent, and keeps its data when it is killed or stopped', async () => {
  const first = await open()
  await first.engine.provide(unit(ref))
  await waitUntilReady(first.engine)
  const container = await serve(first.engine)
  await queryFromContainer(podman, container, 'create table data as select 1 as x')
  const [store] = await listContainerNames({ part: 'database' })
  const { Id } = await inspect(store!)
  await first.engine.close({ stop: false })
  expect(await queryFromContainer(podman, container, 'select x from data')).toEqual([{ x: 1 }])

  const second = await open()
  await waitUntilReady(second.engine)
  expect((await inspect(store!)).Id).toBe(Id)
  await podman.podman('kill', store!)
  await second.engine.start(unit(ref), running(SERVE_COMMAND))
  await waitFor(async () => {
    const [replica = ''] = await listContainerNames({ revision: ref.revision_id })
    const rows = await queryFromContainer(podman, replica, 'select x from data').catch(() => [])
    return rows.length === 1
  })
  await second.engine.close({ stop: true })
  expect(await pods.listContainers(ref)).toEqual([])

  const third = await open()
  await waitUntilReady(third.engine)
  expect(await queryFromContainer(podman, await serve(third.engine), 'select x from data')).toEqual([{ x: 1 }])
})

test('agents that are killed at different moments of a start leave one database with one password', async () => {
  const spec = unit(ref)
  const artifact = running(SERVE_COMMAND)
  const options = { ...pods.options, stores }
  for (const ms of [0, 100, 250, 500, 900, 1_500, 2_500]) {
    const agent = startCommand('test/support/container-engine-program.ts', [
      JSON.stringify({ options, unit: spec, artifact }),
    ])
    await agent.until(() => agent.output.out.includes('open'))
    // The moment of the kill is the subject of the test.
    await delay(ms)
    await agent.stop('SIGKILL')
  }
  const { engine } = await open()
  await engine.provide(spec)
  await waitUntilReady(engine)
  const container = await serve(engine)
  expect(await queryFromContainer(podman, container, 'select 1 as x')).toEqual([{ x: 1 }])
  expect(await listContainerNames({ part: 'database' })).toHaveLength(1)
  await engine.remove(ref.deployment_id)
  expect(await listRemains()).toEqual(['', '', ''])
})

test('Redis runs before the application starts, has its memory limit and does not write to disk', async () => {
  const { engine } = await open()
  const spec = { redis_memory_mb: 100, redis_cpu: 0.2 }
  const withRedis = unit(ref, spec, { needs_database: false, parts: ['redis'] })
  const artifact = await engine.prepare(withRedis, null, task())
  const [store] = await listContainerNames({ part: 'redis' })
  expect(await podman.podman('logs', store!)).toMatch(
    /--save {2}--appendonly no --maxmemory 80mb --maxmemory-policy noevict/,
  )
  expect((await inspect(store!)).HostConfig.Memory).toBe(100 * 2 ** 20)
  await engine.start(withRedis, { ...artifact, start_command: SERVE_COMMAND })
  await until(engine, ref, 'healthy')
  const [container] = await listContainerNames({ revision: ref.revision_id })
  const { REDIS_URI = '', DATABASE_URI } = await readContainerEnvironment(podman, container!)
  expect(DATABASE_URI).toBeUndefined()
  const { hostname, port, password } = new URL(REDIS_URI)
  expect((await inspect(store!)).Args.join(' ')).toContain(`--requirepass ${password}`)
  const reply = await podman.podman('exec', container!, '/bin/sh', '-c', `echo PING | timeout 5 nc ${hostname} ${port}`)
  expect(reply).toContain('PONG')
  await waitFor(() => engine.storeUsage().some(one => one.store === 'redis' && one.bytes > 0))
  await engine.remove(ref.deployment_id)
  expect(await listRemains()).toEqual(['', '', ''])
})

test('a database that cannot start is observed with the reason, and is given up after the time limit', async () => {
  const { engine } = await pods.open(
    { database_ms: 300 },
    { stores: { ...stores, database: `${podman.registry}/missing:1` } },
  )
  await engine.provide(unit(ref))
  const status = await waitFor(async () => {
    const { database } = await engine.observe(ref.deployment_id)
    return database?.hopeless && database.reason ? database : undefined
  })
  expect(status).toMatchObject({ ready: false, reason: expect.stringContaining(`missing:1`) })
  const withRedis = unit(ref, {}, { needs_database: false, parts: ['redis'] })
  await engine.remove(ref.deployment_id)
  const withoutImage = await pods.open(
    { database_ms: 300 },
    { stores: { ...stores, redis: `${podman.registry}/missing:1` } },
  )
  await expect(withoutImage.engine.prepare(withRedis, null, task())).rejects.toThrow('missing:1')
})
