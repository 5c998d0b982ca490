// The container engine against a real Podman: rollouts, sidecars, init containers, volumes and failures.
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
const { unit, artifact: running, task, waitForPhase: until } = pods
const open = pods.open.bind(pods)
const newRevision = (): RevisionRef => ({ ...ref, revision_id: randomUUID() })
const findUrl = (engine: ContainerEngine) => pods.url(engine, ref)
const listContainers = () => pods.listContainers(ref)

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
  test('to a pulled image answers every request of polling clients, from the old or the new revision', async () => {
    const { engine, lines } = await open()
    const pullLog: string[] = []
    const rollOut = async (revision: RevisionRef, text: string) => {
      const spec = unit(revision, { min_scale: 2 }, { secrets: { TEXT: text } })
      const artifact = await engine.prepare(
        spec,
        null,
        task(line => pullLog.push(line)),
      )
      expect(artifact.location).toMatch(/\/web@sha256:[0-9a-f]{64}$/)
      artifact.start_command = `echo "$TEXT" > /www/index.html; echo serving; ${SERVE_COMMAND}`
      await engine.start(spec, artifact)
      await until(engine, revision, 'healthy')
      await engine.route(spec)
    }
    await rollOut(ref, 'old')
    expect(pullLog.join()).toContain('Pulled')
    const url = await findUrl(engine)
    expect((await requestRouter(url)).body.trim()).toBe('old')
    expect(await listContainers()).toHaveLength(2)

    const answers = new Set<string>()
    let isPolling = true
    const poll = async () => {
      while (isPolling) {
        const { status, body } = await requestRouter(url)
        answers.add(`${status} ${body.trim()}`)
      }
    }
    const clients = [poll(), poll()]
    await rollOut(newRevision(), 'new')
    await engine.drain(ref)
    await until(engine, ref, 'drained')
    await engine.stop(ref)
    expect((await requestRouter(url)).body.trim()).toBe('new')
    isPolling = false
    await Promise.all(clients)
    expect([...answers].sort()).toEqual(['200 new', '200 old'])
    expect((await listContainers()).map(line => line.split(' ')[1])).toEqual(['Up', 'Up'])
    expect(lines).toContain('INFO serving')
  })

  test.each([0, 3_600])('sleeps without requests, %d s paused, and the next request wakes it', async frozen_seconds => {
    const { engine } = await open({ scale_ms: 50 })
    const spec = unit(ref, { min_scale: 0, idle_seconds: 0.5, frozen_seconds })
    await engine.start(spec, running(`echo awake > /www/index.html; ${SERVE_COMMAND}`))
    await until(engine, ref, 'healthy')
    await engine.route(spec)
    const state = async () => (await engine.observe(ref.deployment_id)).running[0]!.condition!.health.state
    for (const _ of [1, 2]) {
      await waitFor(async () => (await state()) === 'sleeping')
      await waitFor(async () => (await listContainers()).every(line => line.includes('Paused')))
      expect(await listContainers()).toHaveLength(frozen_seconds ? 1 : 0)
      expect((await requestRouter(await findUrl(engine))).body.trim()).toBe('awake')
    }
  })

  test('reads its token for models, which is renewed without a restart, and cannot change it', async () => {
    const tokens = new Map([[ref.deployment_id, 'first']])
    const { engine } = await open({}, {}, { modelToken: id => tokens.get(id) })
    const spec = unit(ref, {}, { models_url: 'https://slipway.example.com/v1/model-proxy' })
    const file = '$SLIPWAY_MODEL_TOKEN_FILE'
    const readonly = `(echo no > ${file}; rm -f ${file}; touch $(dirname ${file})/x) 2>/dev/null`
    await engine.start(spec, running(`ln -s ${file} /www/token; ${readonly}; ${SERVE_COMMAND}`))
    await until(engine, ref, 'healthy')
    await engine.route(spec)
    const url = await findUrl(engine)
    const readToken = async () => (await requestRouter(url, '/token')).body
    expect(await readToken()).toBe('first')
    const containers = await listContainers()
    tokens.set(ref.deployment_id, 'second')
    await engine.renewModelToken(ref.deployment_id)
    expect(await readToken()).toBe('second')
    expect((await listContainers()).map(line => line.split(' ')[0])).toEqual(containers.map(line => line.split(' ')[0]))
  })

  test('starts replicas with their limits in a separate network, and a removed deployment leaves nothing', async () => {
    const { engine } = await open()
    const spec = unit(ref, {
      cpu: 0.5,
      cpu_limit: 0.7,
      memory_mb: 64,
      memory_limit_mb: 96,
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }],
      volume_mounts: [{ name: 'data', mountPath: '/data' }],
    })
    await engine.start(spec, running(SERVE_COMMAND))
    await until(engine, ref, 'healthy')
    const [name] = (await listContainers())[0]!.split(' ')
    const [{ HostConfig, NetworkSettings }] = JSON.parse(await podman.podman('inspect', name!))
    expect(HostConfig).toMatchObject({ Memory: 96 * 1024 ** 2, NanoCpus: 0.7e9, PidsLimit: 2048 })
    const networks = Object.keys(NetworkSettings.Networks)
    expect(networks).toHaveLength(1)
    expect(networks[0]).toContain(ref.deployment_id)
    const label = `label=slipway.deployment=${ref.deployment_id}`
    expect(await podman.podman('volume', 'ls', '-q', '--filter', label)).not.toBe('')

    await engine.remove(ref.deployment_id)
    expect(await listContainers()).toEqual([])
    expect(await podman.podman('volume', 'ls', '-q', '--filter', label)).toBe('')
    expect(await podman.podman('network', 'ls', '-q', '--filter', label)).toBe('')
    expect(await engine.deployments()).toEqual([])
    expect(await engine.observe(ref.deployment_id)).toMatchObject({ running: [], hasRemains: false, routed: null })
  })
})

describe('a replica', () => {
  test('starts after its init containers, runs with its sidecars, and shares volumes with all of them', async () => {
    const secrets = `${pods.home}/secrets`
    fs.mkdirSync(`${secrets}/team`, { recursive: true })
    fs.writeFileSync(`${secrets}/team/token`, 'hush')
    const { engine, lines } = await open({}, { secrets })
    const { image } = podman
    const volumeMounts = [{ name: 'shared', mountPath: '/shared' }]
    const container = (name: string, script: string) => ({
      name,
      image,
      command: ['/bin/sh', '-c', script],
      volumeMounts,
    })
    const spec = unit(
      ref,
      {
        volumes: [{ name: 'shared', emptyDir: {} }],
        volume_mounts: volumeMounts,
        init_containers: [
          container('first', 'echo 1 > /shared/order; echo first was here'),
          { ...container('second', 'echo 2 $FROM >> /shared/order'), env: [{ name: 'FROM', value: 'env' }] },
        ],
        sidecars: [
          {
            ...container(
              'beside',
              'while ! wget -q -O- 127.0.0.1:$APP/order; do sleep 0.1; done; echo $TOKEN > /shared/token; ' +
                SIDECAR_COMMAND,
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
    await engine.prepare(spec, null, task())
    await engine.start(spec, running(`echo $REF > /shared/ref; ${SERVE_COMMAND.replace('/www', '/shared')}`))
    await until(engine, ref, 'healthy')
    await engine.route(spec)
    const url = await findUrl(engine)
    expect((await requestRouter(url, '/order')).body).toBe('1\n2 env\n')
    expect((await requestRouter(url, '/ref')).body).toBe('hush\n')
    await waitFor(async () => (await requestRouter(url, '/token')).body === 'hush\n')
    // The sum of the application and its sidecar.
    const usage = await waitFor(async () => {
      const [copy] = (await engine.readUsage())[0]!.copies
      return copy?.cpu_ms && copy.memory_bytes ? copy : undefined
    })
    expect(usage).toMatchObject({ copy: '1', running: true, restarts: 0 })
    expect(usage.memory_bytes).toBeLessThan(512 * 1024 * 1024)
    expect(usage.requests!.statuses[1]).toBeGreaterThanOrEqual(3)
    expect(lines).toContain('INFO [first] first was here')
    expect(lines).toContain('INFO [beside] 2 env')
    expect(await listContainers()).toHaveLength(2)
    await engine.stop(ref)
    expect(await listContainers()).toEqual([])
  })

  test('keeps the data of a claimed volume for the next revision, but not of an emptyDir', async () => {
    const { engine } = await open()
    const spec: ResourceSpec = {
      volumes: [
        { name: 'claimed', persistentVolumeClaim: { claimName: 'claimed' } },
        { name: 'empty', emptyDir: {} },
      ],
      volume_mounts: [
        { name: 'claimed', mountPath: '/claimed' },
        { name: 'empty', mountPath: '/empty' },
      ],
    }
    const write = 'for name in claimed empty; do echo x >> /$name/log; cp /$name/log /www/$name; done'
    for (const [revision, claimedLog] of [
      [ref, 'x\n'],
      [newRevision(), 'x\nx\n'],
    ] as const) {
      await engine.start(unit(revision, spec), running(`${write}; ${SERVE_COMMAND}`))
      await until(engine, revision, 'healthy')
      await engine.route(unit(revision, spec))
      const url = await findUrl(engine)
      expect((await requestRouter(url, '/claimed')).body).toBe(claimedLog)
      expect((await requestRouter(url, '/empty')).body).toBe('x\n')
      await engine.stop(revision)
    }
  })
})

describe('the reason of a failure names', () => {
  const startUntilFailing = async (
    start: string,
    more: { limits?: Partial<Limits>; spec?: ResourceSpec; health?: string } = {},
  ) => {
    const { engine, lines } = await open(more.limits)
    await engine.start(unit(ref, more.spec), running(start, { health_path: more.health ?? null }))
    return { ...(await until(engine, ref, 'failing')), lines }
  }
  const prepareError = async (image_uri: string, spec: ResourceSpec = {}) => {
    const { engine } = await open()
    return engine.prepare(unit(ref, spec, { image_uri }), null, task()).then(
      () => 'no error',
      (error: Error) => `${error.name}: ${error.message}`,
    )
  }

  test('an image that does not exist', async () => {
    expect(await prepareError(`${podman.registry}/nothing:1`)).toMatch(
      /^PermanentError: The image .*nothing:1 does not exist\. Check/,
    )
    expect(
      await prepareError(podman.image, { sidecars: [{ name: 'side', image: `${podman.registry}/side:2` }] }),
    ).toMatch(/^PermanentError: The image .*side:2 does not exist\. Check/)
  })

  test('an unreachable registry', async () => {
    expect(await prepareError('127.0.0.1:1/web:1')).toMatch(
      /^PermanentError: The registry of the image .* is unreachable/,
    )
  })

  test('a command that does not exist', async () => {
    const { reason } = await startUntilFailing('exec nothing-of-that-name')
    expect(reason).toMatch(/^Crash loop: it ended 3 times in a row; the last time it ended with code 127/)
    expect(reason).toContain('nothing-of-that-name: not found')
  })

  test('a port that is never opened', async () => {
    const { reason } = await startUntilFailing(`echo up; ${SIDECAR_COMMAND}`, { limits: { ready_ms: 2_000 } })
    expect(reason).toMatch(/^It was not healthy within 2 s: nothing in the container listens on the port in PORT/)
    expect(reason).toContain('up')
  })

  test('the exit code and the last lines of a crash loop', async () => {
    const { reason, lines } = await startUntilFailing('echo going down; exit 3')
    expect(reason).toMatch(/^Crash loop: .* it ended with code 3\. Its last lines:\ngoing down$/)
    expect(lines.filter(line => line.startsWith('ERROR Ended: it ended with code 3'))).toHaveLength(3)
  })

  test('the answer of a health check that fails', async () => {
    const { reason } = await startUntilFailing(SERVE_COMMAND, { limits: { ready_ms: 2_000 }, health: '/nowhere' })
    expect(reason).toMatch(/^It was not healthy within 2 s: GET \/nowhere answers 404/)
  })

  test('an exceeded memory limit', async () => {
    const { reason } = await startUntilFailing('exec tail /dev/zero', { spec: { memory_mb: 64, memory_limit_mb: 64 } })
    expect(reason).toMatch(/was killed.* needed more memory than its memory limit of 64 MB/)
  })

  test('an exceeded disk limit', async () => {
    const { engine, lines } = await open({ disk_mb: 4 })
    await engine.start(unit(ref), running(`(sleep 1; dd if=/dev/zero of=/big bs=1M count=8) & ${SERVE_COMMAND}`))
    await waitFor(() => lines.some(line => /^ERROR Killed: it exceeded its disk limit of 4 MB/.test(line)))
    expect(await until(engine, ref, 'unhealthy')).toMatchObject({ reason: expect.stringContaining('4 MB') })
  })

  test('the exit code of an application that ends before its sidecar runs', async () => {
    const sidecars = [{ name: 'beside', image: podman.image, command: ['/bin/sh', '-c', SIDECAR_COMMAND] }]
    const { reason } = await startUntilFailing('echo no such key; exit 3', { spec: { sidecars } })
    expect(reason).toMatch(/ended with code 3\b.*no such key/s)
  })

  test('a sidecar that ends', async () => {
    const sidecars = [{ name: 'beside', image: podman.image, command: ['/bin/sh', '-c', 'echo no; exit 5'] }]
    const { reason } = await startUntilFailing(SERVE_COMMAND, { spec: { sidecars }, limits: { ready_ms: 4_000 } })
    // The reason or the last lines say it: at the deadline it may just have been restarted.
    expect(reason).toMatch(/sidecar `beside` (.* )?ended with code 5/i)
    expect(reason).toContain('[beside] no')
  })

  test('an init container that fails', async () => {
    const { image } = podman
    const init = { init_containers: [{ name: 'migrate', image, command: ['/bin/sh', '-c', 'echo no table; exit 2'] }] }
    const { reason } = await startUntilFailing(SERVE_COMMAND, { spec: init })
    expect(reason).toContain('its init container `migrate` ended with code 2')
    expect(reason).toContain('[migrate] no table')
  })
})

test('a replica that ignores SIGTERM is killed after the grace period', async () => {
  const { engine } = await open({ stop_ms: 1_000 })
  await engine.start(
    unit(ref),
    running(`trap 'echo not yet' TERM; httpd -p $PORT -h /www; while :; do sleep 0.1; done`),
  )
  await until(engine, ref, 'healthy')
  await engine.stop(ref)
  expect(await listContainers()).toEqual([])
})

describe('processes of other types', () => {
  test('run in containers of their own after the switch, and the next agent adopts them', async () => {
    const { engine: first, lines } = await open({ settle_ms: 200 })
    const processes = [{ name: 'worker', command: `echo "$SLIPWAY_ROLE on $PORT"; ${SIDECAR_COMMAND}`, memory_mb: 32 }]
    const artifact = running(SERVE_COMMAND, { processes })
    await first.start(unit(ref), artifact)
    await until(first, ref, 'healthy')
    expect(await listContainers()).toHaveLength(1)
    await first.route(unit(ref))
    await waitFor(() => lines.some(line => line.startsWith('INFO worker on ')))
    await until(first, ref, 'healthy')
    const names = async () => (await listContainers()).map(line => line.split(' ')[0]).sort()
    const before = await names()
    expect(before).toHaveLength(2)
    await first.close({ stop: false })
    const { engine: second } = await open({ settle_ms: 200 })
    await until(second, ref, 'healthy')
    await second.start(unit(ref), artifact)
    await second.route(unit(ref))
    expect(await names()).toEqual(before)
    const next = newRevision()
    await second.start(
      unit(next),
      running(SERVE_COMMAND, { processes: [{ ...processes[0]!, health_command: 'true' }] }),
    )
    await until(second, next, 'healthy')
    await second.route(unit(next))
    await until(second, next, 'healthy')
    expect(await names()).toHaveLength(3)
  })
})

describe('a command that runs once', () => {
  const never = new AbortController().signal
  const once = (command: string, timeout_seconds = 60) => ({ id: randomUUID(), command, timeout_seconds })

  test('runs in a container of its own, and the next agent finds it and its exit code', async () => {
    const { engine: first } = await open()
    const lines: string[] = []
    const log = (line: string) => void lines.push(line)
    const claim = { volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }] }
    const mounted = { ...claim, volume_mounts: [{ name: 'data', mountPath: '/data' }] }
    const spec = unit(ref, mounted as ResourceSpec, { secrets: { TOKEN: 'hush' } })
    const quick = once('echo "$TOKEN $PORT."; exit 3')
    const slow = once('echo ran >> /data/count; sleep 3; cat /data/count; exit 4')
    const closing = new AbortController()
    const waiting = first.runOnce(spec, running(SERVE_COMMAND), slow, log, closing.signal)
    expect(await first.runOnce(spec, running(SERVE_COMMAND), quick, log, never)).toMatchObject({ exit_code: 3 })
    closing.abort(new Error('closed'))
    await expect(waiting).rejects.toThrow('closed')
    await first.close({ stop: false })

    const { engine: second } = await open()
    expect(await second.runOnce(spec, running(SERVE_COMMAND), slow, log, never)).toMatchObject({ exit_code: 4 })
    expect(await second.runOnce(spec, running(SERVE_COMMAND), quick, log, never)).toMatchObject({ exit_code: 3 })
    expect(lines).toEqual(['hush .', 'ran'])
    expect((await second.observe(ref.deployment_id)).running).toEqual([])
    for (const { id } of [quick, slow]) await second.forgetRun(ref.deployment_id, id)
    expect(await listContainers()).toEqual([])

    const removed = once('echo ran >> /data/count; sleep 60')
    const lost = second.runOnce(spec, running(SERVE_COMMAND), removed, log, closing.signal)
    await expect(lost).rejects.toThrow('closed')
    await waitFor(async () => (await listContainers()).some(line => line.includes(removed.id) && line.includes('Up')))
    await second.close({ stop: false })
    const [name] = (await listContainers()).map(line => line.split(' ')[0]!)
    await podman.podman('rm', '--force', '--time', '0', name!)
    const { engine: third } = await open()
    const end = await third.runOnce(spec, running(SERVE_COMMAND), removed, log, never)
    expect(end).toMatchObject({ exit_code: null, reason: expect.stringMatching(/^is gone/) })
    expect(await listContainers()).toEqual([])
  })

  test('is ended after its time and when it is forgotten', async () => {
    const { engine } = await open()
    const forgotten = once('sleep 60')
    const late = engine.runOnce(unit(ref), running(SERVE_COMMAND), once('sleep 60', 1), () => {}, never)
    const cancelled = engine.runOnce(unit(ref), running(SERVE_COMMAND), forgotten, () => {}, never)
    await waitFor(async () => (await listContainers()).some(line => line.includes(forgotten.id) && line.includes('Up')))
    await engine.forgetRun(ref.deployment_id, forgotten.id)
    for (const end of [late, cancelled])
      expect(await end).toEqual({ exit_code: null, reason: expect.stringMatching(/./) })
  })
})

describe('a disk', () => {
  const disk: ResourceSpec = {
    volumes: [{ name: 'media', persistentVolumeClaim: { claimName: 'media' } }],
    volume_mounts: [{ name: 'media', mountPath: '/www' }],
  }
  const store = 'disk:media'

  test('is copied while its application runs, restored in place, into another one, and removed', async () => {
    const { engine } = await open()
    const other: RevisionRef = { deployment_id: randomUUID(), revision_id: randomUUID() }
    const signal = AbortSignal.timeout(120_000)
    const start = async (of: RevisionRef, text: string) => {
      const fill = `mkdir -p /www/a; echo ${text} > /www/a/b; ln -s a/b /www/index.html`
      const script = `[ -e /www/index.html ] || { ${fill}; }`
      await engine.start(unit(of, disk), running(`${script}; ${SERVE_COMMAND}`))
      await until(engine, of, 'healthy')
      await engine.route(unit(of, disk))
    }
    const read = async (of: RevisionRef) => (await requestRouter(await pods.url(engine, of))).body.trim()
    await start(ref, 'one')
    await start(other, 'other')
    expect(await engine.listStores(ref.deployment_id)).toEqual([store])
    const folder = fs.mkdtempSync(`${pods.home}/snapshot-`)
    await engine.takeSnapshot(ref.deployment_id, store, folder, signal)
    expect(await read(ref)).toBe('one')

    const change = await engine.openTerminal(ref, 'change', {
      command: ['sh', '-c', 'echo two > /www/a/b'],
      tty: false,
      columns: 80,
      rows: 24,
    })
    await change.exit
    expect(await read(ref)).toBe('two')
    await waitFor(() => engine.storeUsage().some(one => one.store === store && one.bytes > 0))
    const amounts = engine.storeUsage().find(({ deployment_id }) => deployment_id === ref.deployment_id)
    expect(amounts).toMatchObject({ store })
    for (const of of [ref, other]) {
      await engine.restoreSnapshot(unit(of, disk), store, { folder }, signal)
      await waitFor(async () => (await requestRouter(await pods.url(engine, of))).body.trim() === 'one')
    }
    await expect(engine.takeSnapshot(ref.deployment_id, 'disk:none', folder, signal)).rejects.toThrow('no disk:none')

    await engine.stop(ref)
    await engine.removeStore(ref.deployment_id, store)
    expect(await engine.listStores(ref.deployment_id)).toEqual([])
    await engine.remove(other.deployment_id)
  })

  test('above its size ends its copies, and lets them start once it is enlarged', async () => {
    const { engine, lines } = await open()
    const sized = (storage_gi: number) => {
      const claim = { claimName: 'media', storage_gi }
      return unit(ref, { ...disk, volumes: [{ name: 'media', persistentVolumeClaim: claim }] })
    }
    const fill = 'mkdir -p /www; head -c 5000000 /dev/zero > /www/full'
    await engine.start(sized(1), running(`${fill}; ${SERVE_COMMAND}`))
    await until(engine, ref, 'healthy')
    // In the place of filling a whole gibibyte.
    const record = `${pods.home}/container/${ref.deployment_id}/disks.json`
    fs.writeFileSync(record, fs.readFileSync(record, 'utf8').replace('"storage_gi":1', '"storage_gi":0.001'))
    await waitFor(() => lines.some(line => line.includes('`media` is full')))
    await waitFor(async () => (await engine.observe(ref.deployment_id)).running[0]?.phase !== 'healthy')
    await engine.start(sized(1), running(`${fill}; ${SERVE_COMMAND}`))
    await until(engine, ref, 'healthy')
    await engine.remove(ref.deployment_id)
  })
})
