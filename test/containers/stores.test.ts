// Databases and Redis of the container engine on a real Podman, a real Postgres in it: given, kept, made anew, found again, removed.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { RevisionRef } from '../../src/agent/engine.ts'
import type { ContainerEngine } from '../../src/agent/engines/container.ts'
import type { ResourceSpec } from '../../src/protocol/resources.schema.ts'
import { startCommand, stopCommands, waitFor } from '../support/commands.ts'
import { SERVE_COMMAND, setUpContainerEngines } from '../support/container-engine.ts'
import { type Podman, startPodman } from '../support/podman.ts'
import { buildStoreImages, queryFromContainer, readContainerEnvironment } from '../support/store-images.ts'

let podman: Podman
let stores: Awaited<ReturnType<typeof buildStoreImages>>
let ref: RevisionRef
const pods = setUpContainerEngines(() => podman)
const { running, task, until } = pods

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
const unit = (one: RevisionRef, spec: ResourceSpec = DB, more = {}) =>
  pods.unit(one, spec, { needs_database: true, ...more })
const next = (): RevisionRef => ({ ...ref, revision_id: randomUUID() })

const waitUntilReady = (engine: ContainerEngine) =>
  waitFor(async () => {
    const { database } = await engine.observe(ref.deployment_id)
    return database?.ready ? database : undefined
  })
async function serving(engine: ContainerEngine, wanted = unit(ref)): Promise<string> {
  await engine.start(wanted, running(SERVE_COMMAND))
  await until(engine, wanted, 'healthy')
  await engine.route(wanted)
  return (await listContainerNames(wanted.revision_id))[0]!
}
/** Of a revision's copies, or of a store by its kind. */
async function listContainerNames(which: string): Promise<string[]> {
  const label = which.length > 30 ? `slipway.revision=${which}` : `slipway.part=${which}`
  const filters = [`label=slipway.deployment=${ref.deployment_id}`, `label=${label}`].flatMap(one => ['--filter', one])
  return (await podman.podman('ps', '--format', '{{.Names}}', ...filters)).split('\n').filter(Boolean)
}
const inspect = async (name: string) => JSON.parse(await podman.podman('inspect', name))[0]
const remaining = async () => {
  const filter = ['--filter', `label=slipway.deployment=${ref.deployment_id}`]
  return Promise.all(
    ['ps --all', 'volume ls', 'network ls'].map(what => podman.podman(...what.split(' '), '-q', ...filter)),
  )
}

test('a database is pulled, made and ready before anything starts, and answers from inside a copy by its address', async () => {
  const { engine } = await open()
  await engine.provide(unit(ref))
  expect((await engine.observe(ref.deployment_id)).database).toMatchObject({ ready: false })
  await waitUntilReady(engine)
  const copy = await serving(engine)
  const text = `select current_user as who, current_setting('max_connections') as most, current_setting('server_version_num')::int / 10000 as version`
  expect(await queryFromContainer(podman, copy, text)).toEqual([{ who: 'app', most: '7', version: 18 }])

  const [store] = await listContainerNames('database')
  const { HostConfig, NetworkSettings } = await inspect(store!)
  expect(HostConfig).toMatchObject({ Memory: 256 * 2 ** 20, NanoCpus: 1e9, PidsLimit: 2048, ShmSize: 256 * 2 ** 20 })
  expect(Object.values(NetworkSettings.Ports ?? {}).filter(Boolean)).toEqual([])
  await queryFromContainer(podman, copy, 'create table kept as select 1 as x')

  // What a later revision asks for: made anew around the same data, with the same address.
  const second = next()
  await serving(engine, unit(second, { ...DB, db_max_connections: 9 }))
  await waitFor(async () => {
    // Where it has another address, copies are made anew.
    const [other] = await listContainerNames(second.revision_id)
    const asked = queryFromContainer(
      podman,
      other ?? '',
      `select current_setting('max_connections') as most, x from kept`,
    )
    return JSON.stringify(await asked.catch(() => [])) === '[{"most":"9","x":1}]'
  })
  expect(await listContainerNames('database')).toEqual([store])

  await engine.remove(ref.deployment_id)
  expect(await remaining()).toEqual(['', '', ''])
})

test('serves on without an agent, is taken over as it is; with `stop` its data stay; killed, it comes again', async () => {
  const first = await open()
  await first.engine.provide(unit(ref))
  await waitUntilReady(first.engine)
  const copy = await serving(first.engine)
  await queryFromContainer(podman, copy, 'create table kept as select 1 as x')
  const [store] = await listContainerNames('database')
  const { Id } = await inspect(store!)
  await first.engine.close({ stop: false })
  expect(await queryFromContainer(podman, copy, 'select x from kept')).toEqual([{ x: 1 }])

  const second = await open()
  await waitUntilReady(second.engine)
  expect((await inspect(store!)).Id).toBe(Id)
  await podman.podman('kill', store!)
  await second.engine.start(unit(ref), running(SERVE_COMMAND))
  await waitFor(async () => {
    const [now] = await listContainerNames(ref.revision_id)
    const rows = await queryFromContainer(podman, now ?? '', 'select x from kept').catch(() => [])
    return rows.length === 1
  })
  await second.engine.close({ stop: true })
  expect(await pods.all(ref)).toEqual([])

  const third = await open()
  await waitUntilReady(third.engine)
  expect(await queryFromContainer(podman, await serving(third.engine), 'select x from kept')).toEqual([{ x: 1 }])
})

test('killed at any moment, an agent leaves one database with one password to the next', async () => {
  const wanted = unit(ref)
  const artifact = running(SERVE_COMMAND)
  const options = { ...pods.options, stores }
  for (const ms of [0, 100, 250, 500, 900, 1_500, 2_500]) {
    const agent = startCommand('test/support/container-engine-program.ts', [
      JSON.stringify({ options, unit: wanted, artifact }),
    ])
    await agent.until(() => agent.said.out.includes('open'))
    await delay(ms)
    await agent.stop('SIGKILL')
  }
  const { engine } = await open()
  await engine.provide(wanted)
  await waitUntilReady(engine)
  const copy = await serving(engine)
  expect(await queryFromContainer(podman, copy, 'select 1 as x')).toEqual([{ x: 1 }])
  expect(await listContainerNames('database')).toHaveLength(1)
  await engine.remove(ref.deployment_id)
  expect(await remaining()).toEqual(['', '', ''])
})

test('Redis is there when it is prepared, holds to its memory and keeps nothing on disk', async () => {
  const { engine } = await open()
  const spec = { redis_memory_mb: 100, redis_cpu: 0.2 }
  const wanted = unit(ref, spec, { needs_database: false, parts: ['redis'] })
  const artifact = await engine.prepare(wanted, null, task())
  const [store] = await listContainerNames('redis')
  expect(await podman.podman('logs', store!)).toMatch(
    /--save {2}--appendonly no --maxmemory 80mb --maxmemory-policy noevict/,
  )
  expect((await inspect(store!)).HostConfig.Memory).toBe(100 * 2 ** 20)
  await engine.start(wanted, { ...artifact, start_command: SERVE_COMMAND })
  await until(engine, ref, 'healthy')
  const [copy] = await listContainerNames(ref.revision_id)
  const { REDIS_URI = '', DATABASE_URI } = await readContainerEnvironment(podman, copy!)
  expect(DATABASE_URI).toBeUndefined()
  const { hostname, port, password } = new URL(REDIS_URI)
  expect((await inspect(store!)).Args.join(' ')).toContain(`--requirepass ${password}`)
  const asked = await podman.podman('exec', copy!, '/bin/sh', '-c', `echo PING | timeout 5 nc ${hostname} ${port}`)
  expect(asked).toContain('PONG')
  await engine.remove(ref.deployment_id)
  expect(await remaining()).toEqual(['', '', ''])
})

test('one that cannot come is told, and after a while hopeless', async () => {
  const { engine } = await pods.open(
    { database_ms: 300 },
    { stores: { ...stores, database: `${podman.registry}/nobody:1` } },
  )
  await engine.provide(unit(ref))
  const seen = await waitFor(async () => {
    const { database } = await engine.observe(ref.deployment_id)
    return database?.hopeless && database.reason ? database : undefined
  })
  expect(seen).toMatchObject({ ready: false, reason: expect.stringContaining(`nobody:1`) })
  const refused = unit(ref, {}, { needs_database: false, parts: ['redis'] })
  await engine.remove(ref.deployment_id)
  const none = await pods.open({ database_ms: 300 }, { stores: { ...stores, redis: `${podman.registry}/nobody:1` } })
  await expect(none.engine.prepare(refused, null, task())).rejects.toThrow('nobody:1')
})
