// Disks of processes against a fake control plane: what stays, what a snapshot has, and what takes data away.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Agent } from '../../src/agent/agent.ts'
import { createControlPlaneClient } from '../../src/agent/control-plane/client.ts'
import { chooseCrowding, describeOvercommitment } from '../../src/agent/engines/local/disk-room.ts'
import { DiskSizes } from '../../src/agent/engines/local/disk-sizes.ts'
import type { Limits } from '../../src/agent/engines/local/limits.ts'
import { Disks } from '../../src/agent/engines/process/disks.ts'
import { ProcessEngine } from '../../src/agent/engines/process.ts'
import { withDefaults } from '../../src/protocol/resources.schema.ts'
import { waitFor } from '../support/commands.ts'
import { type ControlPlane, startControlPlane } from '../support/fake-control-plane.ts'
import { closeAgents, FAST_LIMITS, LOOPBACK_NETWORKS, makeTempFolder, runAgent } from '../support/process-engine.ts'

let home: string
let control: ControlPlane

beforeEach(async () => {
  home = makeTempFolder()
  control = await startControlPlane()
})
afterEach(async () => {
  await closeAgents()
  await control.stop()
  fs.rmSync(home, { recursive: true, force: true })
})

let engine: ProcessEngine
function startAgent(templates?: string, limits: Partial<Limits> = {}) {
  engine = new ProcessEngine({ home, port: 0, limits: { ...FAST_LIMITS, ...limits } })
  const agent = new Agent({
    ...(templates && { templates }),
    agent_id: 'agent-1',
    version: 'test',
    home,
    engine,
    networks: LOOPBACK_NETWORKS,
    wait: 5,
    control: createControlPlaneClient({ url: control.url, key: 'key' }),
    logToOperator: () => {},
  })
  runAgent(agent)
  return agent
}
const disk = (more: object = {}) => ({
  volumes: [{ name: 'uploads', persistentVolumeClaim: { claimName: 'media', ...more } }],
  volume_mounts: [{ name: 'uploads', mountPath: '/app/public/media' }],
})
const revisionWith = (resources: object, template_id = 'web-service') => ({
  source: 'internal_template' as const,
  template_id,
  resource_spec: withDefaults(resources, 'dev'),
})
async function deploy(id: string, resources: object, more: object = {}) {
  const revision = control.want(id, revisionWith(resources), more)
  await waitFor(() => control.reportedStates(revision).includes('deployed'))
  return revision
}
async function runJob(id: string, command: string, more: object = {}) {
  const job = control.wantJob(id, command, more)
  const end = await waitFor(() => control.jobReports.find(one => one.job_id === job && one.state !== 'running'))
  return { job, end, lines: control.logs.filter(({ of }) => of === job).map(({ message }) => message) }
}
const store = 'disk:media'
const act = (id: string, action: object) => runJob(id, '', { action })
const heldOf = (id: string) => [...control.snapshots.held.values()].filter(one => one.deployment_id === id)

test('a disk stays through revisions and agents, and goes with its deployment, which leaves a snapshot', async () => {
  const agent = startAgent()
  const id = randomUUID()
  const first = await deploy(id, disk())
  await runJob(id, 'echo one > public/media/a; cp public/media/a $SLIPWAY_DISK_MEDIA/b')
  expect(fs.readdirSync(join(home, 'process', id, 'disks', 'media'))).toEqual(['a', 'b'])
  await waitFor(() => engine.storeUsage().some(one => one.store === store && one.bytes > 0))
  const second = await deploy(id, disk({ storage_gi: 2 }))
  expect(second).not.toBe(first)
  await agent.close({ stop: true })
  startAgent()
  // An agent with another engine leaves its data, and this one says so.
  fs.cpSync(join(home, 'process', id, 'disks.json'), join(home, 'container', id, 'disks.json'))
  // A revision without the disk only leaves it out of its folder.
  await deploy(id, {})
  expect((await runJob(id, 'cat public/media/a')).end.state).toBe('failed')
  await deploy(id, disk())
  expect((await runJob(id, 'cat public/media/a')).lines).toContain('one')
  await waitFor(() => control.logs.some(({ message }) => message.includes('container engine')))

  control.wantAbsent(id)
  await waitFor(() => control.reports.some(one => one.state === 'removed'))
  expect(heldOf(id)).toMatchObject([{ store, reason: 'last', deployment_id: id }])
  expect(fs.existsSync(join(home, 'process', id))).toBe(false)
})

test('a snapshot is restored into its disk and into one of another deployment', async () => {
  startAgent()
  const [id, other] = [randomUUID(), randomUUID()]
  await Promise.all([deploy(id, disk()), deploy(other, disk())])
  await runJob(id, 'mkdir public/media/x && echo one > public/media/x/a && ln -s a public/media/x/b')
  const taken = await act(id, { type: 'snapshot', store })
  expect(taken.end).toMatchObject({ state: 'succeeded' })
  await waitFor(() => control.snapshots.held.has(taken.job))
  await runJob(id, 'echo two > public/media/x/a; rm public/media/x/b; echo new > public/media/new')

  const restore = { type: 'restore', store, snapshot_id: taken.job }
  for (const target of [id, other]) {
    expect((await act(target, restore)).end).toMatchObject({ state: 'succeeded' })
    const { lines } = await runJob(target, 'cat public/media/x/b; ls public/media; touch public/media/x/writable')
    expect(lines).toEqual(['one', 'x'])
  }
  // The data that were replaced are kept; the other disk was empty.
  await waitFor(() => heldOf(id).some(({ reason }) => reason === 'before_restore'))
  expect(heldOf(other)).toEqual([])
  const before = heldOf(id).find(({ reason }) => reason === 'before_restore')!
  await act(id, { ...restore, snapshot_id: before.id })
  expect((await runJob(id, 'cat public/media/x/a public/media/new')).lines).toEqual(['two', 'new'])

  const refused = await Promise.all([
    act(id, { ...restore, snapshot_id: randomUUID() }),
    act(id, { ...restore, store: 'disk:other' }),
    act(id, { type: 'snapshot', store: 'database' }),
    act(id, { type: 'restore', store, from_deployment_id: id, at: new Date().toISOString() }),
  ])
  expect(refused.map(({ end }) => end.state)).toEqual(['failed', 'failed', 'failed', 'failed'])
  expect((await runJob(id, 'cat public/media/new')).lines).toEqual(['new'])

  // One that a user deletes is deleted here, too.
  control.snapshots.deleted.add(taken.job)
  await act(id, { type: 'snapshot', store })
  await waitFor(() => !control.snapshots.held.has(taken.job) && !fs.existsSync(join(home, 'snapshots', taken.job)))
})

test('only a cleared disk is removed, after the revision that used it, and it leaves a snapshot', async () => {
  startAgent()
  const id = randomUUID()
  await deploy(id, disk())
  await runJob(id, 'echo one > public/media/a')
  const folder = join(home, 'process', id, 'disks', 'media')
  // The control plane takes any text as the name of a claim. One that is a path leads to nothing.
  const outside = join(home, 'process', id, 'outside')
  fs.mkdirSync(outside)
  control.want(id, revisionWith({}), { cleared_stores: ['disk:../outside', 'disk:.', store] })
  await waitFor(() => !fs.existsSync(folder))
  expect(fs.existsSync(outside)).toBe(true)
  expect(heldOf(id)).toMatchObject([{ store, reason: 'last' }])
  const last = heldOf(id)[0]!.id
  await deploy(id, disk(), { cleared_stores: [] })
  expect((await act(id, { type: 'restore', store, snapshot_id: last })).end.state).toBe('succeeded')
  expect((await runJob(id, 'cat public/media/a')).lines).toEqual(['one'])
})

/** A template whose files a test writes. */
function writeTemplate(files: Record<string, string>): string {
  const templates = join(home, 'templates')
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(join(templates, 'own'), { recursive: true })
    fs.writeFileSync(join(templates, 'own', name), text)
  }
  return templates
}
const SERVER = "require('node:http').createServer((_, res) => res.end('ok')).listen(process.env.PORT)"

test('a release command follows a snapshot of what lasts, and does not run without one', async () => {
  const release = 'echo released >> public/media/log'
  const settings = { start_command: 'node main.cjs', release_command: release }
  startAgent(writeTemplate({ 'slipway.json': JSON.stringify(settings), 'main.cjs': SERVER }))
  const id = randomUUID()
  const deployOwn = async () => {
    const revision = control.want(id, revisionWith(disk(), 'own'))
    const states = () => control.reportedStates(revision)
    await waitFor(() => states().some(state => state === 'deployed' || state === 'failed'))
    return states().at(-1)
  }
  expect(await deployOwn()).toBe('deployed')
  // The first one had nothing to keep.
  expect(heldOf(id)).toEqual([])
  expect(await deployOwn()).toBe('deployed')
  await waitFor(() => heldOf(id).length === 1)
  expect(heldOf(id)).toMatchObject([{ store, reason: 'before_release' }])
  // A file in the place of the folder of snapshots: none can be taken.
  fs.renameSync(join(home, 'snapshots'), join(home, 'moved'))
  fs.writeFileSync(join(home, 'snapshots'), '')
  expect(await deployOwn()).toBe('failed')
  fs.rmSync(join(home, 'snapshots'))
  fs.renameSync(join(home, 'moved'), join(home, 'snapshots'))
  expect((await runJob(id, 'cat public/media/log')).lines).toEqual(['released', 'released'])
})

test('a disk of the source lasts as one of the deployment does, whose own volumes win', async () => {
  const settings = (storage_gi: number) =>
    JSON.stringify({ start_command: 'node main.cjs', disks: { media: { path: '/app/public/media', storage_gi } } })
  const templates = writeTemplate({ 'slipway.json': settings(1), 'main.cjs': SERVER })
  startAgent(templates)
  const id = randomUUID()
  const sizes = () => JSON.parse(fs.readFileSync(join(home, 'process', id, 'disks.json'), 'utf8')).media.storage_gi
  const deployOwn = async (resources = {}) => {
    const revision = control.want(id, revisionWith(resources, 'own'))
    const states = () => control.reportedStates(revision)
    await waitFor(() => states().some(state => state === 'deployed' || state === 'failed'))
    return states().at(-1)
  }
  await deployOwn()
  expect((await runJob(id, 'echo one > public/media/a; cat "$SLIPWAY_DISK_MEDIA/a"')).lines).toEqual(['one'])
  const taken = await act(id, { type: 'snapshot', store })
  await waitFor(() => control.snapshots.held.has(taken.job))
  await runJob(id, 'echo two > public/media/a')
  expect((await act(id, { type: 'restore', store, snapshot_id: taken.job })).end.state).toBe('succeeded')
  writeTemplate({ 'slipway.json': settings(2) })
  await deployOwn()
  expect([sizes(), (await runJob(id, 'cat public/media/a')).lines]).toEqual([2, ['one']])
  await deployOwn(disk({ storage_gi: 3 }))
  expect([sizes(), (await runJob(id, 'cat public/media/a')).lines]).toEqual([3, ['one']])

  const mounted = { volumes: [{ name: 'x', persistentVolumeClaim: { claimName: 'x' } }] }
  expect(await deployOwn({ ...mounted, volume_mounts: [{ name: 'x', mountPath: '/app/public/media' }] })).toBe('failed')
  writeTemplate({ 'slipway.json': '{"start_command": "node main.cjs", "disks": {"media": {"path": "/srv"}}}' })
  expect(await deployOwn()).toBe('failed')
})

test('revisions with a disk of one writer do not run at the same time, and a failed one gives it back', async () => {
  const main = `
const fs = require('node:fs')
const lock = 'public/media/lock'
if (fs.existsSync(lock)) process.exit(1)
fs.writeFileSync(lock, '')
process.on('SIGTERM', () => process.exit(fs.rmSync(lock)))
if (process.env.FAILS) process.exit(fs.rmSync(lock) ?? 2)
${SERVER}`
  startAgent(writeTemplate({ 'slipway.json': '{"start_command": "exec node main.cjs"}', 'main.cjs': main }))
  const id = randomUUID()
  const single = disk({ access_mode: 'ReadWriteOncePod' })
  const deployOwn = async (secrets = {}) => {
    const revision = control.want(id, revisionWith(single, 'own'), { secrets })
    await waitFor(() => control.reportedStates(revision).some(state => state === 'deployed' || state === 'failed'))
    return control.reportedStates(revision).at(-1)
  }
  expect([await deployOwn(), await deployOwn(), await deployOwn({ FAILS: '1' })]).toEqual([
    'deployed',
    'deployed',
    'failed',
  ])
  await waitFor(() => control.reports.at(-1)?.healthy === true)
})

test('a disk above its size is reported, and a tenth above it no copy starts', async () => {
  const disks = new Disks(join(home, 'process', 'one'), undefined)
  disks.ensure([{ name: 'media', storage_gi: 0.001, access_mode: null, paths: [] }])
  const write = (name: string, kilobytes: number) =>
    fs.writeFileSync(join(disks.path('media'), name), Buffer.alloc(kilobytes * 1024, 1))
  const measure = async () => disks.sizes.judge('media', await disks.measure('media'))
  write('a', 900)
  expect(await measure()).toBeUndefined()
  write('b', 150)
  expect(await measure()).toMatchObject({ state: { full: true, stopped: false } })
  expect([disks.sizes.obstacle(), await measure()]).toEqual([null, undefined])
  write('c', 300)
  expect(await measure()).toMatchObject({ state: { full: true, stopped: true } })
  expect(disks.sizes.obstacle()).toContain('`media`')
  disks.ensure([{ name: 'media', storage_gi: 1, access_mode: null, paths: [] }])
  expect(await measure()).toMatchObject({ state: { full: false, stopped: false } })
  expect(disks.sizes.obstacle()).toBeNull()
})

test('a machine with little space left ends the copies of the disk that takes more than its share', async () => {
  const use = (used_mb: number, size_mb = 10_240) => ({ used_mb, size_mb })
  // The sizes are twice what there is.
  const both = [use(9_000), use(1_000)]
  expect(chooseCrowding(both, 600, 512)).toEqual([false, false])
  expect(chooseCrowding(both, 400, 512)).toEqual([true, false])
  expect(chooseCrowding([use(100, 100_000), use(10)], 0, 512)).toEqual([true, false])
  expect(chooseCrowding([], 0, 512)).toEqual([])
  expect(describeOvercommitment(10, 9 * 1024)).not.toBeNull()
  expect(describeOvercommitment(8, 9 * 1024)).toBeNull()

  startAgent(undefined, { reserve_mb: 1e9 })
  const id = randomUUID()
  await deploy(id, disk())
  await runJob(id, 'head -c 80000000 /dev/zero > public/media/a')
  await waitFor(() => control.reports.at(-1)?.healthy === false)
  expect(new Disks(join(home, 'process', id), undefined).sizes.obstacle()).toContain('`media`')
  expect((await runJob(id, 'rm public/media/a')).end.state).toBe('succeeded')
  await waitFor(() => control.reports.at(-1)?.healthy === true)
})

test('a disk that is too full is stopped on a machine where that cannot be recorded', () => {
  const sizes = new DiskSizes(home)
  sizes.record([{ name: 'media', storage_gi: 1, access_mode: null, paths: [] }])
  // Nothing can be written in its place.
  const written = join(home, `disks.json.${process.pid}`)
  fs.mkdirSync(written)
  for (let i = 0; i < 2; i++) {
    expect(sizes.judge('media', 2000)).toMatchObject({ state: { full: true, stopped: true } })
    expect(sizes.setCrowding('media', true, 512)).toMatchObject({ state: { crowding: true } })
  }
  fs.rmdirSync(written)
  expect(sizes.judge('media', 2000)).toBeDefined()
  expect(sizes.judge('media', 2000)).toBeUndefined()
})

test('a copy of a disk leaves out the holes of its files', async () => {
  const disks = new Disks(join(home, 'process', 'one'), undefined)
  disks.ensure([{ name: 'media', storage_gi: 1, access_mode: null, paths: [] }])
  expect(disks.listFilled()).toEqual([])
  const file = join(disks.path('media'), 'holes')
  fs.writeFileSync(file, 'begin')
  fs.truncateSync(file, 64 * 1024 * 1024)
  expect(disks.listFilled()).toEqual(['media'])
  const signal = new AbortController().signal
  await disks.archive('media', home, signal)
  if (process.platform === 'linux') expect(fs.statSync(join(home, 'disk.tar')).size).toBeLessThan(1024 * 1024)
  const restored = fs.statSync(join(await disks.extract('media', home, signal), 'holes'))
  expect(restored.size).toBe(64 * 1024 * 1024)
})

test('an agent that was killed between two renames of a restore leaves the old files', async () => {
  const agent = startAgent()
  const id = randomUUID()
  await deploy(id, disk())
  await runJob(id, 'echo one > public/media/a')
  await agent.close({ stop: true })
  const disks = join(home, 'process', id, 'disks')
  fs.renameSync(join(disks, 'media'), join(disks, '.old-media'))
  fs.mkdirSync(join(disks, '.new-media'))
  startAgent()
  expect((await runJob(id, 'cat public/media/a')).lines).toEqual(['one'])
  expect(fs.readdirSync(disks)).toEqual(['media'])
})
