// What an agent that was killed leaves to the next one, on a real Podman: every copy taken over or cleared away, no line lost or doubled.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { RevisionRef } from '../../src/agent/engine.ts'
import { startCommand, stopCommands, waitFor } from '../support/commands.ts'
import { SERVE_COMMAND, SIDECAR_COMMAND, setUpContainerEngines } from '../support/container-engine.ts'
import { type Podman, startPodman } from '../support/podman.ts'
import { requestRouter } from '../support/process-engine.ts'

let podman: Podman
let ref: RevisionRef
const pods = setUpContainerEngines(() => podman)
const { unit, running, until } = pods

beforeAll(async () => {
  podman = await startPodman()
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

const withSidecars = () => ({
  volumes: [{ name: 'shared', emptyDir: {} }],
  volume_mounts: [{ name: 'shared', mountPath: '/shared' }],
  init_containers: [{ name: 'first', image: podman.image, command: ['/bin/sh', '-c', 'sleep 0.2'] }],
  sidecars: [{ name: 'beside', image: podman.image, command: ['/bin/sh', '-c', SIDECAR_COMMAND] }],
})
const volumes = async () =>
  podman.podman('volume', 'ls', '--quiet', '--filter', `label=slipway.deployment=${ref.deployment_id}`)

test('killed at any moment of a start, it leaves what the next one makes whole: two copies, each with its sidecar', async () => {
  const wanted = unit(ref, { ...withSidecars(), min_scale: 2 })
  const artifact = running(SERVE_COMMAND)
  // Between the first request and the last line of a start of some two seconds.
  for (const ms of [0, 150, 300, 450, 600, 800, 1_000, 1_300, 1_700, 2_500]) {
    const agent = startCommand('test/support/container-engine-program.ts', [
      JSON.stringify({ options: pods.options, unit: wanted, artifact }),
    ])
    await agent.until(() => agent.said.out.includes('open'))
    await delay(ms)
    await agent.stop('SIGKILL')
  }
  const { engine } = await pods.open()
  await engine.start(wanted, artifact)
  await engine.route(wanted)
  await until(engine, ref, 'healthy')
  const names = await waitFor(async () => {
    const all = await pods.all(ref)
    return all.length === 4 && all.every(line => line.includes(' Up')) ? all : undefined
  })
  expect(names.filter(name => name.includes('beside'))).toHaveLength(2)
  expect((await volumes()).split('\n')).toHaveLength(2)
  expect((await requestRouter(await pods.url(engine, ref), '/health')).status).toBe(200)
  await engine.remove(ref.deployment_id)
  expect([await pods.all(ref), await volumes()]).toEqual([[], ''])
})

test('copies serve on while no agent is there, and the next one takes over the same, with every line once', async () => {
  const first = await pods.open()
  const count = `i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done & ${SERVE_COMMAND}`
  await first.engine.start(unit(ref), running(count))
  await until(first.engine, ref, 'healthy')
  await first.engine.route(unit(ref))
  const at = await pods.url(first.engine, ref)
  const before = await pods.all(ref)
  await waitFor(() => first.lines.length > 20)
  await first.engine.close({ stop: false })
  expect((await requestRouter(at, '/health')).body).toBe('well\n')

  const second = await pods.open()
  expect((await second.engine.observe(ref.deployment_id)).running).toMatchObject([{ phase: 'healthy' }])
  expect((await requestRouter(at, '/health')).body).toBe('well\n')
  await second.engine.start(unit(ref), running(count))
  await waitFor(() => second.lines.length > 20)
  const names = (lines: string[]) => lines.map(line => line.split(' ')[0])
  expect(names(await pods.all(ref))).toEqual(names(before))
  const told = [...first.lines, ...second.lines].filter(line => line.startsWith('INFO line'))
  expect(told).toEqual(told.map((_, i) => `INFO line ${i + 1}`))
})

test('a copy that ended meanwhile is cleared away; one that is killed is started again; a sidecar too', async () => {
  const first = await pods.open()
  const wanted = unit(ref, withSidecars())
  await first.engine.start(wanted, running(SERVE_COMMAND))
  await until(first.engine, ref, 'healthy')
  await first.engine.close({ stop: false })
  const [old] = (await pods.all(ref)).map(line => line.split(' ')[0]!).filter(name => !name.includes('beside'))
  await podman.podman('kill', old!)
  const { engine, lines } = await pods.open()
  expect((await engine.observe(ref.deployment_id)).running).toEqual([])
  expect([await pods.all(ref), await volumes()]).toEqual([[], ''])

  await engine.start(wanted, running(SERVE_COMMAND))
  await until(engine, ref, 'healthy')
  const [app, sidecar] = (await pods.all(ref)).map(line => line.split(' ')[0]!).sort((a, b) => a.length - b.length)
  await podman.podman('kill', sidecar!)
  await waitFor(() => lines.some(line => line.includes('Sidecar `beside` was killed')))
  await waitFor(async () => (await pods.all(ref)).every(line => line.includes(' Up')))
  expect((await pods.all(ref)).map(line => line.split(' ')[0])).toContain(app)

  await podman.podman('kill', app!)
  await until(engine, ref, 'unhealthy')
  await until(engine, ref, 'healthy')
  expect((await pods.all(ref)).map(line => line.split(' ')[0])).not.toContain(app)
})

test('what others run on the same engine is left alone', async () => {
  await podman.podman(
    'run',
    '--detach',
    '--name',
    'foreign',
    '--label',
    'slipway.owner=other',
    podman.image,
    'sleep',
    '1000',
  )
  const { engine } = await pods.open()
  await engine.start(unit(ref), running(SERVE_COMMAND))
  await until(engine, ref, 'healthy')
  await engine.remove(ref.deployment_id)
  expect(await podman.podman('ps', '--quiet', '--filter', 'name=foreign')).not.toBe('')
})
