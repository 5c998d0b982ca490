// The container engine against a real Podman: rollouts, what goes with a copy, and failures.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { RevisionRef } from '../../src/agent/engine.ts'
import type { ContainerEngine } from '../../src/agent/engines/container.ts'
import type { Limits } from '../../src/agent/engines/local/limits.ts'
import type { ResourceSpec } from '../../src/protocol/resources.schema.ts'
import { waitFor } from '../support/commands.ts'
import { SERVE_COMMAND, SIDECAR_COMMAND, setUpContainerEngines } from '../support/container-engine.ts'
import { type Podman, startPodman } from '../support/podman.ts'
import { requestRouter } from '../support/process-engine.ts'

let podman: Podman
let ref: RevisionRef
const pods = setUpContainerEngines(() => podman)
const { unit, running, task, until } = pods
const open = pods.open.bind(pods)
const next = (): RevisionRef => ({ ...ref, revision_id: randomUUID() })
const url = (engine: ContainerEngine) => pods.url(engine, ref)
const containers = () => pods.all(ref)

beforeAll(async () => {
  podman = await startPodman()
})
afterAll(() => podman.stop())
beforeEach(() => {
  pods.begin()
  ref = { deployment_id: randomUUID(), revision_id: randomUUID() }
})
afterEach(() => pods.end())

describe('a rollout', () => {
  test('of a pulled image runs beside, switches, drains, stops; a client that polls sees not one failure', async () => {
    const { engine, lines } = await open()
    const said: string[] = []
    const rollOut = async (one: RevisionRef, text: string) => {
      const wanted = unit(one, { min_scale: 2 }, { secrets: { TEXT: text } })
      const artifact = await engine.prepare(
        wanted,
        null,
        task(line => said.push(line)),
      )
      expect(artifact.location).toMatch(/\/web@sha256:[0-9a-f]{64}$/)
      artifact.start_command = `echo "$TEXT" > /www/index.html; echo serving; ${SERVE_COMMAND}`
      await engine.start(wanted, artifact)
      await until(engine, one, 'healthy')
      await engine.route(wanted)
    }
    await rollOut(ref, 'old')
    expect(said.join()).toContain('Pulled')
    const at = await url(engine)
    expect((await requestRouter(at)).body.trim()).toBe('old')
    expect(await containers()).toHaveLength(2)

    const answers = new Set<string>()
    let polling = true
    const poll = async () => {
      while (polling) {
        const { status, body } = await requestRouter(at)
        answers.add(`${status} ${body.trim()}`)
      }
    }
    const clients = [poll(), poll()]
    const second = next()
    await rollOut(second, 'new')
    await engine.drain(ref)
    await until(engine, ref, 'drained')
    await engine.stop(ref)
    expect((await requestRouter(at)).body.trim()).toBe('new')
    polling = false
    await Promise.all(clients)
    expect([...answers].sort()).toEqual(['200 new', '200 old'])
    expect((await containers()).map(line => line.split(' ')[1])).toEqual(['Up', 'Up'])
    expect(lines).toContain('INFO serving')
  })

  test('holds copies to their limits, apart from others, and a removed deployment leaves nothing', async () => {
    const { engine } = await open()
    const wanted = unit(ref, {
      ...{ cpu: 0.5, cpu_limit: 0.7, memory_mb: 64, memory_limit_mb: 96 },
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }],
      volume_mounts: [{ name: 'data', mountPath: '/data' }],
    })
    await engine.start(wanted, running(SERVE_COMMAND))
    await until(engine, ref, 'healthy')
    const [name] = (await containers())[0]!.split(' ')
    const [{ HostConfig, NetworkSettings }] = JSON.parse(await podman.podman('inspect', name!))
    expect(HostConfig).toMatchObject({ Memory: 96 * 1024 ** 2, NanoCpus: 0.7e9, PidsLimit: 2048 })
    const networks = Object.keys(NetworkSettings.Networks)
    expect(networks).toHaveLength(1)
    expect(networks[0]).toContain(ref.deployment_id)
    const label = `label=slipway.deployment=${ref.deployment_id}`
    expect(await podman.podman('volume', 'ls', '-q', '--filter', label)).not.toBe('')

    await engine.remove(ref.deployment_id)
    expect(await containers()).toEqual([])
    expect(await podman.podman('volume', 'ls', '-q', '--filter', label)).toBe('')
    expect(await podman.podman('network', 'ls', '-q', '--filter', label)).toBe('')
    expect(await engine.deployments()).toEqual([])
    expect(await engine.observe(ref.deployment_id)).toMatchObject({ running: [], hasRemains: false, routed: null })
  })
})

describe('what goes with a copy', () => {
  test('init containers run in order and to their end, sidecars beside it, volumes between them', async () => {
    const secrets = `${pods.home}/secrets`
    fs.mkdirSync(`${secrets}/team`, { recursive: true })
    fs.writeFileSync(`${secrets}/team/token`, 'hush')
    const { engine, lines } = await open({}, { secrets })
    const { image } = podman
    const shared = [{ name: 'shared', mountPath: '/shared' }]
    const script = (name: string, text: string) => ({
      name,
      image,
      command: ['/bin/sh', '-c', text],
      volumeMounts: shared,
    })
    const wanted = unit(
      ref,
      {
        volumes: [{ name: 'shared', emptyDir: {} }],
        volume_mounts: shared,
        init_containers: [
          script('first', 'echo 1 > /shared/order; echo first was here'),
          { ...script('second', 'echo 2 $FROM >> /shared/order'), env: [{ name: 'FROM', value: 'env' }] },
        ],
        sidecars: [
          {
            ...script(
              'beside',
              `while ! wget -q -O- 127.0.0.1:$APP/order; do sleep 0.1; done; echo $TOKEN > /shared/token; ${SIDECAR_COMMAND}`,
            ),
            env: [
              { name: 'APP', value: '8000' },
              { name: 'TOKEN', valueFrom: { secretKeyRef: { name: 'team', key: 'token' } } },
            ],
          },
        ],
      },
      { secret_references: [{ name: 'REF', secret_name: 'team', secret_key: 'token' }] },
    )
    await engine.prepare(wanted, null, task())
    await engine.start(wanted, running(`echo $REF > /shared/ref; ${SERVE_COMMAND.replace('/www', '/shared')}`))
    await until(engine, ref, 'healthy')
    await engine.route(wanted)
    const at = await url(engine)
    expect((await requestRouter(at, '/order')).body).toBe('1\n2 env\n')
    expect((await requestRouter(at, '/ref')).body).toBe('hush\n')
    await waitFor(async () => (await requestRouter(at, '/token')).body === 'hush\n')
    expect(lines).toContain('INFO [first] first was here')
    expect(lines).toContain('INFO [beside] 2 env')
    expect(await containers()).toHaveLength(2)
    await engine.stop(ref)
    expect(await containers()).toEqual([])
  })

  test('a claim outlives the revision, an empty directory does not', async () => {
    const { engine } = await open()
    const spec: ResourceSpec = {
      volumes: [
        { name: 'kept', persistentVolumeClaim: { claimName: 'kept' } },
        { name: 'fresh', emptyDir: {} },
      ],
      volume_mounts: [
        { name: 'kept', mountPath: '/kept' },
        { name: 'fresh', mountPath: '/fresh' },
      ],
    }
    const write = 'for at in kept fresh; do echo x >> /$at/log; cp /$at/log /www/$at; done'
    for (const [one, kept] of [
      [ref, 'x\n'],
      [next(), 'x\nx\n'],
    ] as const) {
      await engine.start(unit(one, spec), running(`${write}; ${SERVE_COMMAND}`))
      await until(engine, one, 'healthy')
      await engine.route(unit(one, spec))
      const at = await url(engine)
      expect([(await requestRouter(at, '/kept')).body, (await requestRouter(at, '/fresh')).body]).toEqual([kept, 'x\n'])
      await engine.stop(one)
    }
  })
})

describe('failures', () => {
  const failing = async (
    start: string,
    more: { limits?: Partial<Limits>; spec?: ResourceSpec; health?: string } = {},
  ) => {
    const { engine, lines } = await open(more.limits)
    await engine.start(unit(ref, more.spec), running(start, { health_path: more.health ?? null }))
    return { ...(await until(engine, ref, 'failing')), lines }
  }
  const refused = async (image_uri: string, more: ResourceSpec = {}) => {
    const { engine } = await open()
    return engine.prepare(unit(ref, more, { image_uri }), null, task()).then(
      () => 'it was not refused',
      (error: Error) => `${error.name}: ${error.message}`,
    )
  }

  test('a missing image', async () => {
    expect(await refused(`${podman.registry}/nothing:1`)).toMatch(
      /^PermanentError: The image .*nothing:1 does not exist\. Check/,
    )
    expect(await refused(podman.image, { sidecars: [{ name: 'side', image: `${podman.registry}/side:2` }] })).toMatch(
      /^PermanentError: The image .*side:2 does not exist\. Check/,
    )
  })

  test('a registry that is away', async () => {
    expect(await refused('127.0.0.1:1/web:1')).toMatch(/^PermanentError: The registry of the image .* is unreachable/)
  })

  test('a command that is not there, told with the reason', async () => {
    const { reason } = await failing('exec nothing-of-that-name')
    expect(reason).toMatch(/^Crash loop: it ended 3 times in a row; the last time it ended with code 127/)
    expect(reason).toContain('nothing-of-that-name: not found')
  })

  test('a port that is never opened', async () => {
    const { reason } = await failing(`echo up; ${SIDECAR_COMMAND}`, { limits: { ready_ms: 2_000 } })
    expect(reason).toMatch(/^It was not healthy within 2 s: nothing in the container listens on the port in PORT/)
    expect(reason).toContain('up')
  })

  test('a crash loop, with its last lines', async () => {
    const { reason, lines } = await failing('echo going down; exit 3')
    expect(reason).toMatch(/^Crash loop: .* it ended with code 3\. Its last lines:\ngoing down$/)
    expect(lines.filter(line => line.startsWith('ERROR Ended: it ended with code 3'))).toHaveLength(3)
  })

  test('a health check that fails', async () => {
    const { reason } = await failing(SERVE_COMMAND, { limits: { ready_ms: 2_000 }, health: '/nowhere' })
    expect(reason).toMatch(/^It was not healthy within 2 s: GET \/nowhere answers 404/)
  })

  test('more memory than it may have', async () => {
    const { reason } = await failing('exec tail /dev/zero', { spec: { memory_mb: 64, memory_limit_mb: 64 } })
    expect(reason).toMatch(/was killed.* needed more memory than its memory limit of 64 MB/)
  })

  test('more on disk than it may have', async () => {
    const { engine, lines } = await open({ disk_mb: 4 })
    await engine.start(unit(ref), running(`(sleep 1; dd if=/dev/zero of=/big bs=1M count=8) & ${SERVE_COMMAND}`))
    await waitFor(() => lines.some(line => /^ERROR Killed: it exceeded its disk limit of 4 MB/.test(line)))
    expect(await until(engine, ref, 'unhealthy')).toMatchObject({ reason: expect.stringContaining('4 MB') })
  })

  test('one that ends before what is beside it is there', async () => {
    const sidecars = [{ name: 'beside', image: podman.image, command: ['/bin/sh', '-c', SIDECAR_COMMAND] }]
    const { reason } = await failing('echo no such key; exit 3', { spec: { sidecars } })
    expect(reason).toMatch(/ended with code 3\b.*no such key/s)
  })

  test('a sidecar that does not stay', async () => {
    const sidecars = [{ name: 'beside', image: podman.image, command: ['/bin/sh', '-c', 'echo no; exit 5'] }]
    const { reason } = await failing(SERVE_COMMAND, { spec: { sidecars }, limits: { ready_ms: 4_000 } })
    // By the reason or by its last lines, as it was between two starts or just begun again when the time was up.
    expect(reason).toMatch(/sidecar `beside` (.* )?ended with code 5/)
    expect(reason).toContain('[beside] no')
  })

  test('an init container that fails', async () => {
    const { image } = podman
    const init = { init_containers: [{ name: 'migrate', image, command: ['/bin/sh', '-c', 'echo no table; exit 2'] }] }
    const { reason } = await failing(SERVE_COMMAND, { spec: init })
    expect(reason).toContain('its init container `migrate` ended with code 2')
    expect(reason).toContain('[migrate] no table')
  })

  test('one that does not want to end is made to', async () => {
    const { engine } = await open({ stop_ms: 1_000 })
    await engine.start(
      unit(ref),
      running(`trap 'echo not yet' TERM; httpd -p $PORT -h /www; while :; do sleep 0.1; done`),
    )
    await until(engine, ref, 'healthy')
    await engine.stop(ref)
    expect(await containers()).toEqual([])
  })
})
