// Snapshots that the cluster keeps: dumps of databases by Jobs and a CronJob, and VolumeSnapshots of disks.
import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { BucketStore } from '../../../src/agent/archive/bucket-store.ts'
import { NO_EVENTS, SnapshotUnsupported } from '../../../src/agent/engine.ts'
import { API_VERSIONS } from '../../../src/agent/engines/kubernetes/cluster.ts'
import {
  DUMP_SCRIPT,
  DUMPS_FOLDER,
  readDumpWords,
  TERMINATION_LOG,
} from '../../../src/agent/engines/kubernetes/dump-scripts.ts'
import { KubernetesEngine } from '../../../src/agent/engines/kubernetes.ts'
import { Snapshots } from '../../../src/agent/snapshots/snapshots.ts'
import type { JobAction, SnapshotReason } from '../../../src/protocol/snapshots.schema.ts'
import { KubernetesApi } from '../../support/kubernetes-api.ts'
import {
  DEPLOYMENT_ID,
  makeArtifact,
  makeKubernetesSettings,
  makeKubernetesUnit,
} from '../../support/kubernetes-fixtures.ts'
import { bringUpAutomatically, endJob, makeRunningStatus, putPod } from '../../support/kubernetes-pods.ts'
import type { Change } from '../../support/kubernetes-store.ts'
import { makeTempFolder } from '../../support/process-engine.ts'
import { backupSettings, startS3 } from '../../support/s3.ts'

const BASE = 'shop-aaaaaaaa00'
const DUMPS = `${BASE}-db-dumps`
const OTHER_ID = 'dddddddd-0000-4000-8000-000000000001'
const OTHER_BASE = 'copy-dddddddd00'
const never = new AbortController().signal
const VOLUME_SNAPSHOTS = API_VERSIONS.VolumeSnapshot
let api: KubernetesApi
const engines: KubernetesEngine[] = []
const lines: string[] = []

beforeEach(async () => {
  api = await new KubernetesApi().open()
  bringUpAutomatically(api)
  lines.length = 0
})
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close()
  await api.close()
})

async function startAgent(settings: Record<string, string> = {}, archive?: BucketStore) {
  const engine = new KubernetesEngine({
    settings: makeKubernetesSettings(settings),
    config: api.config,
    pause_ms: 2,
    refresh_ms: 10,
    archive,
  })
  engines.push(engine)
  const log = (_: object, message: string) => void lines.push(message)
  await engine.open({ ...NO_EVENTS, log })
  const snapshots = new Snapshots({
    engine,
    folder: engine.snapshotHolder,
    control: { snapshots: async () => ({ forget: [] }) },
    currentLease: () => ({ agent_id: 'agent-1', fence: 1 }),
    logEvent: () => {},
  })
  await snapshots.open()
  await engine.snapshotHolder.refresh()
  const perform = (action: JobAction, spec = unit(), id: string = randomUUID(), reason: SnapshotReason = 'manual') =>
    snapshots.perform(
      { id, deployment_id: spec.deployment_id, action, reason },
      () => spec,
      () => {},
      never,
    )
  const list = () => engine.snapshotHolder.list().map(({ store, reason }) => `${store} ${reason}`)
  return { engine, snapshots, perform, list }
}
const VOLUMES = { volumes: [{ name: 'm', persistentVolumeClaim: { claimName: 'media', storage_gi: 3 } }] }
const unit = (more = {}) => makeKubernetesUnit({ spec: { db_storage_gi: 5, ...VOLUMES }, ...more })
const otherUnit = () => unit({ deployment_id: OTHER_ID, name: 'copy' })
/** Each Job of the agent ends at once, but for those that wait for it. */
function endJobs(how: (name: string) => Parameters<typeof endJob>[2] = () => ({ message: 'size_bytes 1234' })) {
  const onChange = ({ type, object }: Change) => {
    const { name, namespace } = object.metadata
    if (type !== 'ADDED' || object.kind !== 'Job') return
    queueMicrotask(() => {
      if (!name.includes('-read-')) endJob(api, name, { ...how(name), namespace: namespace! })
      else putPod(api, object, makeRunningStatus('dumps'))
    })
  }
  api.listeners.add(onChange)
  return () => api.listeners.delete(onChange)
}
const jobs = () => api.all('Job').map(({ metadata }) => metadata.name)

test('a database is dumped each day, and the agent finds what was dumped while it was away', async () => {
  const { engine } = await startAgent()
  await engine.provide(unit())
  expect(api.get('PersistentVolumeClaim', DUMPS).spec.resources.requests.storage).toBe('10Gi')
  const { spec, metadata } = api.get('CronJob', `${BASE}-dump`)
  expect(spec).toMatchObject({ concurrencyPolicy: 'Forbid', timeZone: 'Etc/UTC' })
  await engine.close()
  const make = (name: string) =>
    api.put({
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name, ...spec.jobTemplate.metadata },
      spec: spec.jobTemplate.spec,
    })
  const { uid } = make('cron-1').metadata
  endJob(api, 'cron-1', { message: 'size_bytes 4711' })
  make('cron-2')
  endJob(api, 'cron-2', { exitCode: 1, message: 'no space left' })
  const next = await startAgent()
  await next.engine.start(unit(), makeArtifact())
  expect(next.engine.snapshotHolder.list()).toMatchObject([
    { id: uid, deployment_id: DEPLOYMENT_ID, store: 'database', size_bytes: 4711, reason: 'automatic' },
  ])
  expect(jobs()).toEqual(['cron-2'])
  api.delete('Job', 'cron-2')
  make('cron-3')
  endJob(api, 'cron-3', { exitCode: 1, message: 'no space left' })
  await expect.poll(() => lines.filter(line => line.includes('no space left'))).toHaveLength(1)
  await next.engine.route(unit())
  const health = async () => (await next.engine.observe(DEPLOYMENT_ID)).running[0]!.condition!.health
  await expect.poll(async () => (await health()).state).toBe('degraded')
  expect((await health()).reason).toContain('no space left')
  // A later one makes it good, for which the first dump had to go.
  make('cron-4')
  endJob(api, 'cron-4', { message: `removed ${uid}\nsize_bytes 12` })
  await expect.poll(async () => (await health()).state).toBe('healthy')
  await expect.poll(() => next.engine.snapshotHolder.list()).toMatchObject([{ size_bytes: 12 }])
  expect(api.get('CronJob', `${BASE}-dump`).metadata.resourceVersion).toBe(metadata.resourceVersion)
})

test('a snapshot is taken once, by a Job that may reach the database, and known to the next agent', async () => {
  const first = await startAgent()
  await first.engine.provide(unit())
  const id = randomUUID()
  const taking = first.perform({ type: 'snapshot', store: 'database' }, unit(), id)
  await expect.poll(jobs).toHaveLength(1)
  const [job] = api.all('Job')
  const policy = api.get('NetworkPolicy', `${BASE}-db`).spec.ingress[0].from[0].podSelector.matchLabels
  expect(job!.spec.template.metadata.labels).toMatchObject(policy)
  const [{ env }] = job!.spec.template.spec.containers
  expect(env).toContainEqual({ name: 'PGHOST', value: `${BASE}-db` })
  endJob(api, job!.metadata.name, { message: 'size_bytes 99' })
  await taking
  expect(jobs()).toEqual([])
  await first.perform({ type: 'snapshot', store: 'database' }, unit(), id)
  const next = await startAgent()
  expect(next.engine.snapshotHolder.read(id)).toMatchObject({ size_bytes: 99, reason: 'manual' })
  await expect(next.perform({ type: 'snapshot', store: 'redis' })).rejects.toBeInstanceOf(SnapshotUnsupported)
  expect(next.list()).toEqual(['database manual'])
})

test('a failing dump says what its pod said, and the next attempt is another one', async () => {
  const { engine, perform, list, snapshots } = await startAgent()
  await engine.provide(unit())
  const stop = endJobs(() => ({ exitCode: 1, message: 'pg_dump: error: no space left' }))
  const id = randomUUID()
  await expect(perform({ type: 'snapshot', store: 'database' }, unit(), id)).rejects.toThrow('no space left')
  expect([jobs(), list()]).toEqual([[], []])
  // A deletion waits for the last dump, which may succeed later.
  await expect(snapshots.keepLast(DEPLOYMENT_ID)).rejects.toThrow('no space left')
  stop()
  endJobs()
  await perform({ type: 'snapshot', store: 'database' }, unit(), id)
  expect(list()).toEqual(['database manual'])
})

test('a dump whose pod does not start is given up, and one without a claim is left out', async () => {
  const { engine, perform, snapshots } = await startAgent({ K8S_PROGRESS_SECONDS: '1' })
  await engine.provide(unit())
  const taking = perform({ type: 'snapshot', store: 'database' })
  await expect.poll(jobs).toHaveLength(1)
  putPod(api, api.all('Job')[0]!, { phase: 'Pending' })
  await expect(taking).rejects.toThrow('did not start within 1 s')
  expect(jobs()).toEqual([])
  api.delete('PersistentVolumeClaim', DUMPS)
  await snapshots.takeAll(DEPLOYMENT_ID, 'before_release', never, () => {})
  await expect(perform({ type: 'snapshot', store: 'database' })).rejects.toBeInstanceOf(SnapshotUnsupported)
})

test('a dump is restored into its own and into another database, after what is there was kept', async () => {
  const { engine, perform, list, snapshots } = await startAgent()
  await engine.provide(unit())
  await engine.provide(otherUnit())
  const stop = endJobs()
  const id = randomUUID()
  await perform({ type: 'snapshot', store: 'database' }, unit(), id)
  await perform({ type: 'restore', store: 'database', snapshot_id: id })
  expect(list().sort()).toEqual(['database before_restore', 'database manual'])
  stop()
  const restoring = perform({ type: 'restore', store: 'database', snapshot_id: id }, otherUnit())
  await expect.poll(jobs).toHaveLength(1)
  endJob(api, jobs()[0]!, { message: 'size_bytes 1' })
  await expect.poll(jobs).toEqual([`${OTHER_BASE}-restore`])
  const { containers, volumes } = api.get('Job', `${OTHER_BASE}-restore`).spec.template.spec
  expect(volumes).toEqual([{ name: 'dumps', persistentVolumeClaim: { claimName: DUMPS } }])
  expect(containers[0].env).toContainEqual({ name: 'PGHOST', value: `${OTHER_BASE}-db` })
  endJob(api, `${OTHER_BASE}-restore`)
  await restoring
  expect(jobs()).toEqual([])
  const at = { type: 'restore', store: 'database', from_deployment_id: DEPLOYMENT_ID, at: new Date().toISOString() }
  endJobs()
  await expect(perform(at as JobAction)).rejects.toBeInstanceOf(SnapshotUnsupported)
  const elsewhere = otherUnit()
  await expect(perform({ type: 'restore', store: 'disk:media', snapshot_id: id }, elsewhere)).rejects.toThrow(
    'disk:media',
  )
  expect(snapshots.find(id)).toBeDefined()
})

test('a snapshot outlives its deployment, and its claim goes with the last one', async () => {
  endJobs()
  const { engine, snapshots, list } = await startAgent()
  await engine.provide(unit())
  await snapshots.keepLast(DEPLOYMENT_ID)
  await engine.remove(DEPLOYMENT_ID)
  expect((await engine.observe(DEPLOYMENT_ID)).hasRemains).toBe(false)
  expect(await engine.deployments()).toEqual([])
  expect(api.all().map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([`PersistentVolumeClaim ${DUMPS}`])
  expect(list()).toEqual(['database last'])
  await snapshots.remove(engine.snapshotHolder.list().map(({ id }) => id))
  await expect.poll(() => api.all()).toEqual([])
})

test('the file of a deleted snapshot is deleted by a Job', async () => {
  endJobs()
  const { engine, perform, snapshots, list } = await startAgent()
  await engine.provide(unit())
  const ids = [randomUUID(), randomUUID()] as const
  for (const id of ids) await perform({ type: 'snapshot', store: 'database' }, unit(), id)
  const pruned: string[] = []
  api.listeners.add(({ type, object }) => {
    if (type === 'ADDED' && object.kind === 'Job') pruned.push(object.spec.template.spec.containers[0].env[0].value)
  })
  await snapshots.remove([ids[0]])
  expect(list()).toHaveLength(1)
  await expect.poll(() => pruned).toEqual([ids[0]])
  const annotations = () => Object.keys(api.get('PersistentVolumeClaim', DUMPS).metadata.annotations ?? {})
  await expect.poll(() => annotations().filter(name => name.includes('removed'))).toEqual([])
  await expect.poll(jobs).toEqual([])
})

test('a dump is downloaded through a pod that goes with the download', async () => {
  endJobs()
  const { engine, perform, snapshots } = await startAgent()
  await engine.provide(unit())
  const id = randomUUID()
  await perform({ type: 'snapshot', store: 'database' }, unit(), id)
  const folder = makeTempFolder()
  fs.writeFileSync(join(folder, `${id}.dump`), 'the rows')
  api.sockets.folders.set(DUMPS_FOLDER, folder)
  const tar = await snapshots.openDownload(DEPLOYMENT_ID, id).connect()
  expect((await buffer(tar)).toString()).toContain('the rows')
  await expect.poll(jobs).toEqual([])
  expect(() => snapshots.openDownload(OTHER_ID, id)).toThrow()
  fs.rmSync(folder, { recursive: true })
})

test('without backups nothing is made, and a Role of an earlier release does not fail the deployment', async () => {
  const without = await startAgent({ K8S_DATABASE_BACKUPS: 'off' })
  expect(without.engine.policy.features).not.toContain('database_snapshots')
  await without.engine.start(unit(), makeArtifact())
  expect([api.all('CronJob'), await without.engine.listStores(DEPLOYMENT_ID)]).toEqual([[], []])
  api.refuse = ({ kind }) =>
    kind === 'CronJob' ? { code: 403, message: 'User "agent" cannot patch resource "cronjobs"' } : undefined
  const old = await startAgent()
  for (let i = 0; i < 2; i++) await old.engine.start(unit(), makeArtifact())
  expect(lines.filter(line => line.includes('has no backups'))).toHaveLength(1)
})

test('nothing is told while the cluster does not answer, so no snapshot is forgotten', async () => {
  endJobs()
  const first = await startAgent()
  await first.engine.provide(unit())
  await first.perform({ type: 'snapshot', store: 'database' })
  api.refuse = ({ kind, verb }) =>
    kind === 'PersistentVolumeClaim' && verb === 'list' ? { code: 503, message: 'busy' } : undefined
  const held: unknown[] = []
  const engine = new KubernetesEngine({ settings: makeKubernetesSettings(), config: api.config, refresh_ms: 5 })
  engines.push(engine)
  await engine.open(NO_EVENTS)
  const snapshots = new Snapshots({
    engine,
    folder: engine.snapshotHolder,
    control: { snapshots: async told => ({ forget: [], told: held.push(...told.held) }) },
    currentLease: () => ({ agent_id: 'agent-1', fence: 1 }),
    logEvent: () => {},
  })
  await snapshots.open()
  await expect(snapshots.tell()).rejects.toThrow()
  api.refuse = () => undefined
  await expect
    .poll(() =>
      snapshots.tell().then(
        () => held.length,
        () => 0,
      ),
    )
    .toBe(1)
})

test('the oldest daily dumps make room for the next one, and the newest never goes', () => {
  const folder = makeTempFolder()
  const daily = join(folder, 'daily')
  fs.mkdirSync(daily)
  const ids = [randomUUID(), randomUUID(), randomUUID()]
  for (const [i, id] of ids.entries()) {
    fs.writeFileSync(join(daily, `${id}.dump`), Buffer.alloc(4 * 1024 ** 2))
    fs.utimesSync(join(daily, `${id}.dump`), 1_000 + i, 1_700_000_000 + i * 60)
  }
  const programs = join(folder, 'bin')
  fs.mkdirSync(programs)
  const write = (name: string, text: string) =>
    fs.writeFileSync(join(programs, name), `#!/bin/sh\n${text}`, { mode: 0o755 })
  write('pg_isready', 'exit 0')
  write('pg_dump', 'printf dump > "$(echo "$2" | cut -c 8-)"')
  const log = join(folder, 'log')
  const script = DUMP_SCRIPT.replaceAll(DUMPS_FOLDER, folder).replaceAll(TERMINATION_LOG, log)
  const dump = (id: string, max_mb: number) => {
    const env = {
      PATH: `${programs}:${process.env.PATH}`,
      FOLDER: daily,
      SNAPSHOT_ID: id,
      MAX_KB: String(max_mb * 1024),
    }
    spawnSync('/bin/sh', ['-c', script.replace(/^find .* -mtime .*$/m, '')], { env })
    return readDumpWords(fs.readFileSync(log, 'utf8'))
  }
  // 12 MB are there, and the next one may take 5.
  expect(dump('one', 15)).toMatchObject({ removed: [ids[0]], size_bytes: 4 })
  write('pg_dump', 'echo "no space left" >&2; exit 1')
  fs.rmSync(join(daily, 'one.dump'))
  expect(dump('two', 1)).toEqual({ removed: [ids[1]], size_bytes: 0, text: 'no space left' })
  expect(fs.readdirSync(daily)).toEqual([`${ids[2]}.dump`])
  fs.rmSync(folder, { recursive: true })
})

test('dumps are carried into a bucket, outlive their claim, and are restored from there', async () => {
  endJobs()
  const [folder, home, directory] = [makeTempFolder(), makeTempFolder(), makeTempFolder()]
  const s3 = await startS3(directory)
  const archive = new BucketStore(backupSettings(s3), home)
  archive.setListener(randomUUID())
  const first = await startAgent({}, archive)
  await first.engine.provide(unit())
  await first.engine.provide(otherUnit())
  api.sockets.folders.set(DUMPS_FOLDER, folder)
  const [id, cut] = [randomUUID(), randomUUID()] as const
  const rows = 'x'.repeat(1234)
  fs.writeFileSync(join(folder, `${id}.dump`), rows)
  // The pod of this one is killed in the middle.
  fs.writeFileSync(join(folder, `${cut}.dump`), 'half')
  for (const one of [id, cut]) await first.perform({ type: 'snapshot', store: 'database' }, unit(), one)
  await expect.poll(() => archive.list(`dumps/${id}`)).toHaveLength(2)
  expect(await archive.list('dumps')).toEqual([id])
  await first.snapshots.remove([cut])
  await expect.poll(jobs).toEqual([])
  await first.engine.close()
  for (const { metadata } of api.all('PersistentVolumeClaim')) api.delete('PersistentVolumeClaim', metadata.name)
  fs.rmSync(join(folder, `${id}.dump`))

  const next = await startAgent({}, archive)
  expect(next.engine.snapshotHolder.list()).toMatchObject([{ id, deployment_id: DEPLOYMENT_ID, size_bytes: 1234 }])
  const tar = await next.snapshots.openDownload(DEPLOYMENT_ID, id).connect()
  expect((await buffer(tar)).toString()).toContain(rows)
  await next.engine.provide(otherUnit())
  const received: string[] = []
  api.listeners.add(({ type, object }) => {
    if (type === 'ADDED' && object.metadata.name === `${OTHER_BASE}-restore`)
      received.push(fs.readFileSync(join(folder, `${id}.dump`), 'utf8'))
  })
  await next.perform({ type: 'restore', store: 'database', snapshot_id: id }, otherUnit())
  expect(received).toEqual([rows])
  await next.snapshots.remove([id])
  expect(await archive.list('dumps')).toEqual(expect.not.arrayContaining([id]))
  expect(JSON.stringify(api.all())).not.toContain(s3.settings.UPLOADS_S3_SECRET_ACCESS_KEY)
  await next.engine.close()
  await s3.close()
  for (const one of [folder, home, directory]) fs.rmSync(one, { recursive: true, force: true })
})

test('a dump of another namespace is carried by the agent, without a bucket', async () => {
  endJobs()
  const folder = makeTempFolder()
  api.sockets.folders.set(DUMPS_FOLDER, folder)
  const { engine, perform } = await startAgent()
  const elsewhere = unit({ deployment_id: OTHER_ID, name: 'copy', namespace: 'other' })
  for (const one of [unit(), elsewhere]) await engine.provide(one)
  const id = randomUUID()
  const rows = 'x'.repeat(1234)
  fs.mkdirSync(join(folder, 'daily'))
  fs.writeFileSync(join(folder, 'daily', `${id}.dump`), rows)
  await perform({ type: 'snapshot', store: 'database' }, unit(), id)
  const restored: unknown[] = []
  api.listeners.add(({ type, object: { metadata, spec } }) => {
    if (type === 'ADDED' && metadata.name === `${OTHER_BASE}-restore`)
      restored.push([
        metadata.namespace,
        spec.template.spec.volumes[0].persistentVolumeClaim.claimName,
        fs.readFileSync(join(folder, `${id}.dump`), 'utf8'),
      ])
  })
  await perform({ type: 'restore', store: 'database', snapshot_id: id }, elsewhere)
  expect(restored).toEqual([['other', `${OTHER_BASE}-db-dumps`, rows]])
  await expect.poll(jobs).toEqual([])
  // Both pods have this folder.
  fs.writeFileSync(join(folder, 'daily', `${id}.dump`), 'cut')
  fs.rmSync(join(folder, `${id}.dump`))
  await expect(perform({ type: 'restore', store: 'database', snapshot_id: id }, elsewhere)).rejects.toThrow()
  expect(restored).toHaveLength(1)
  fs.rmSync(folder, { recursive: true })
})

// ---- disks

const SNAPSHOT_CLASS = { metadata: { name: 'fast' } }
const withSnapshots = (classes: object[] | null = [SNAPSHOT_CLASS]) => {
  api.missingGroups.delete(VOLUME_SNAPSHOTS)
  api.snapshotClasses = classes
}
/** VolumeSnapshots become ready, as a driver of storage makes them. */
const makeReady = (status: object = { readyToUse: true, restoreSize: '4Gi' }) =>
  api.listeners.add(({ type, object }) => {
    if (type === 'ADDED' && object.kind === 'VolumeSnapshot')
      queueMicrotask(() => api.status('VolumeSnapshot', object.metadata.name, status))
  })

test('the features say whether disks have snapshots, which the cluster decides', async () => {
  const hasDiskSnapshots = async (settings = {}) =>
    (await startAgent(settings)).engine.policy.features!.includes('disk_snapshots')
  expect(await hasDiskSnapshots()).toBe(false)
  withSnapshots([])
  expect(await hasDiskSnapshots()).toBe(false)
  withSnapshots(null)
  expect(await hasDiskSnapshots()).toBe(false)
  expect(await hasDiskSnapshots({ K8S_SNAPSHOT_CLASS: 'fast' })).toBe(true)
  withSnapshots([SNAPSHOT_CLASS, { metadata: { name: 'slow' } }])
  expect(await hasDiskSnapshots()).toBe(false)
  withSnapshots([SNAPSHOT_CLASS])
  expect(await hasDiskSnapshots()).toBe(true)
  api.refuse = ({ kind }) =>
    kind === 'VolumeSnapshot' ? { code: 403, message: 'User "agent" cannot list volumesnapshots' } : undefined
  expect(await hasDiskSnapshots()).toBe(false)
})

test('a disk is copied by the cluster, and made anew of the copy', async () => {
  withSnapshots()
  makeReady()
  endJobs()
  const { engine, perform, list, snapshots } = await startAgent()
  await engine.start(unit(), makeArtifact())
  expect((await engine.listStores(DEPLOYMENT_ID)).sort()).toEqual(['database', 'disk:media'])
  const id = randomUUID()
  await perform({ type: 'snapshot', store: 'disk:media' }, unit(), id)
  const [volume] = api.all('VolumeSnapshot')
  expect(volume!.spec).toEqual({
    volumeSnapshotClassName: 'fast',
    source: { persistentVolumeClaimName: `${BASE}-disk-media` },
  })
  expect(snapshots.find(id)).toMatchObject({ size_bytes: 4 * 1024 ** 3, reason: 'manual' })
  const before = api.get('PersistentVolumeClaim', `${BASE}-disk-media`)
  api.status('PersistentVolumeClaim', before.metadata.name, { phase: 'Bound' })
  api.listeners.add(({ type, object }) => {
    if (type === 'ADDED' && object.kind === 'PersistentVolumeClaim')
      queueMicrotask(() => api.status('PersistentVolumeClaim', object.metadata.name, { phase: 'Bound' }))
  })
  const pods = () => api.all('Pod').filter(({ spec }) => JSON.stringify(spec).includes(before.metadata.name))
  const [running] = pods()
  expect(pods()).toHaveLength(1)
  // The pod of a command that ran once keeps a claim, too.
  const ended = { ...running!.metadata, name: 'ended', uid: undefined, ownerReferences: undefined }
  ended.labels = { ...ended.labels, 'slipway/run-id': randomUUID() }
  api.put({ apiVersion: 'v1', kind: 'Pod', metadata: ended, spec: running!.spec })
  api.status('Pod', 'ended', { phase: 'Succeeded' })
  expect(pods()).toHaveLength(2)
  await perform({ type: 'restore', store: 'disk:media', snapshot_id: id })
  const after = api.get('PersistentVolumeClaim', `${BASE}-disk-media`)
  expect(after.metadata.uid).not.toBe(before.metadata.uid)
  expect(after.spec).toMatchObject({
    dataSource: { kind: 'VolumeSnapshot', name: volume!.metadata.name },
    resources: { requests: { storage: '4Gi' } },
  })
  expect(pods()).toEqual([])
  expect(list().sort()).toEqual(['disk:media before_restore', 'disk:media manual'])
  const { resourceVersion } = api.get('PersistentVolumeClaim', before.metadata.name).metadata
  await engine.start(unit(), makeArtifact())
  expect(api.get('PersistentVolumeClaim', before.metadata.name).metadata.resourceVersion).toBe(resourceVersion)
  await snapshots.remove([id])
  expect(api.all('VolumeSnapshot')).toHaveLength(1)
  expect(await engine.snapshotHolder.fetch(id)).toBe(id)
})

test('an agent that is killed in the restore of a disk does not leave an empty one', async () => {
  withSnapshots()
  makeReady()
  const { engine, perform } = await startAgent()
  const disks = makeKubernetesUnit({ spec: VOLUMES })
  await engine.start(disks, makeArtifact())
  const id = randomUUID()
  await perform({ type: 'snapshot', store: 'disk:media' }, disks, id)
  const name = `${BASE}-disk-media`
  // The agent ends when it would make the claim again.
  api.refuse = ({ kind, verb, name: of }) =>
    kind === 'PersistentVolumeClaim' && verb === 'patch' && of === name ? { code: 403, message: 'killed' } : undefined
  await expect(perform({ type: 'restore', store: 'disk:media', snapshot_id: id }, disks)).rejects.toThrow('killed')
  expect(api.has('PersistentVolumeClaim', name)).toBe(false)
  api.refuse = () => undefined
  const next = await startAgent()
  await next.engine.start(disks, makeArtifact())
  const source = () => api.get('PersistentVolumeClaim', name).spec.dataSource
  expect(source()).toMatchObject({ kind: 'VolumeSnapshot' })
  await next.engine.removeStore(DEPLOYMENT_ID, 'disk:media')
  await next.engine.start(disks, makeArtifact())
  expect(source()).toBeUndefined()
})

test('a disk is neither copied nor restored silently where that is not possible', async () => {
  withSnapshots()
  makeReady({ readyToUse: false, error: { message: 'the driver is broken' } })
  const { engine, perform } = await startAgent()
  await engine.start(unit(), makeArtifact())
  await expect(perform({ type: 'snapshot', store: 'disk:media' })).rejects.toThrow('the driver is broken')
  expect(api.all('VolumeSnapshot')).toEqual([])
  await expect(perform({ type: 'snapshot', store: 'disk:theirs' })).rejects.toThrow('theirs')
})
