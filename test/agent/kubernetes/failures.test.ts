// Failures in a cluster and their reported reasons, watches of its objects, and the logs of its pods.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { NO_EVENTS, PermanentError, TransientError } from '../../../src/agent/engine.ts'
import { withLog } from '../../../src/agent/engines/kubernetes/pod-failures.ts'
import { KubernetesEngine } from '../../../src/agent/engines/kubernetes.ts'
import { KubernetesApi } from '../../support/kubernetes-api.ts'
import {
  DEPLOYMENT_ID,
  makeArtifact,
  makeKubernetesSettings,
  makeKubernetesUnit,
  makeRevisionId,
} from '../../support/kubernetes-fixtures.ts'
import {
  bringUp,
  bringUpAutomatically,
  makeRunningStatus,
  putPod,
  reconcileUntilStable,
  setUnavailable,
} from '../../support/kubernetes-pods.ts'

const BASE = 'shop-aaaaaaaa00'
const NAME = `${BASE}-r1`
let api: KubernetesApi
let now = new Date()
const engines: KubernetesEngine[] = []
const createEngine = (more: Record<string, string> = {}, config = api.config) => {
  const engine = new KubernetesEngine({ settings: makeKubernetesSettings(more), config, pause_ms: 2, now: () => now })
  engines.push(engine)
  return engine
}
beforeEach(async () => {
  now = new Date()
  api = await new KubernetesApi().open()
})
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close()
  await api.close()
})

const waiting = (reason: string, message = '', more: object = {}) => ({
  phase: 'Pending',
  startTime: now.toISOString(),
  containerStatuses: [
    {
      name: 'app',
      image: 'registry.example.com/shop:1',
      ready: false,
      restartCount: 0,
      state: { waiting: { reason, message } },
      ...more,
    },
  ],
})
const crashed = (restartCount: number, terminated: object) =>
  waiting('CrashLoopBackOff', 'back-off', { restartCount, lastState: { terminated: { exitCode: 1, ...terminated } } })
const condition = (type: string, status: string, reason: string, message: string) => ({
  conditions: [{ type, status, reason, message, lastTransitionTime: now.toISOString() }],
})

type Case = [
  string,
  { pod?: object; deployment?: object; event?: [string, string]; later?: number },
  'starting' | 'failing',
  RegExp[],
]
const CASES: Case[] = [
  [
    'an image that is missing, but may still be pushed',
    { pod: waiting('ErrImagePull', 'no such host') },
    'starting',
    [/shop:1/, /no such host/, /image_pull_secrets/],
  ],
  [
    'an image that is missing for more than a minute',
    { pod: waiting('ImagePullBackOff', 'not found'), later: 90 },
    'failing',
    [/shop:1/, /not found/],
  ],
  [
    'an invalid image name',
    { pod: waiting('InvalidImageName', 'invalid reference') },
    'failing',
    [/invalid reference/],
  ],
  ['a first crash', { pod: crashed(1, { exitCode: 3 }) }, 'starting', [/exit code 3/, /its last words/]],
  ['a crash loop', { pod: crashed(5, { exitCode: 3 }) }, 'failing', [/exit code 3/, /its last words/]],
  ['a crash by a signal', { pod: crashed(5, { signal: 11 }) }, 'failing', [/signal 11/]],
  [
    'a crash for exceeding the memory limit',
    { pod: crashed(5, { reason: 'OOMKilled', exitCode: 137 }) },
    'failing',
    [/memory_limit_mb/],
  ],
  [
    'a command that does not exist',
    { pod: crashed(5, { reason: 'StartError', message: 'exec: "nmp": not found' }) },
    'failing',
    [/"nmp": not found/],
  ],
  [
    'a Secret that is missing, but may still be created',
    { pod: waiting('CreateContainerConfigError', 'secret "shared" not found') },
    'starting',
    [/"shared" not found/],
  ],
  [
    'a Secret that is missing for more than a minute',
    { pod: waiting('CreateContainerConfigError', 'secret "shared" not found'), later: 90 },
    'failing',
    [/"shared"/],
  ],
  [
    'an image that runs as root',
    { pod: waiting('CreateContainerConfigError', 'container has runAsNonRoot and image will run as root') },
    'failing',
    [/USER/],
  ],
  [
    'a cluster without free resources',
    {
      pod: {
        phase: 'Pending',
        ...condition('PodScheduled', 'False', 'Unschedulable', '0/3 nodes are available: 3 Insufficient cpu.'),
      },
    },
    'starting',
    [/3 Insufficient cpu/, /resource_spec/],
  ],
  [
    'a cluster without free resources until the deadline',
    {
      pod: { phase: 'Pending', ...condition('PodScheduled', 'False', 'Unschedulable', '0/3 nodes are available') },
      deployment: condition('Progressing', 'False', 'ProgressDeadlineExceeded', 'timed out'),
    },
    'failing',
    [/0\/3 nodes/],
  ],
  [
    'an evicted pod',
    { pod: { phase: 'Failed', reason: 'Evicted', message: 'The node was low on resource: memory.' } },
    'starting',
    [/low on resource: memory/],
  ],
  [
    'a volume that cannot be mounted',
    { pod: { phase: 'Pending' }, event: ['FailedMount', 'configmap "c" not found'] },
    'starting',
    [/"c" not found/, /volumes/],
  ],
  [
    'an application that does not listen',
    {
      pod: makeRunningStatus('app', false),
      event: ['Unhealthy', 'Startup probe failed: dial tcp 10.0.0.1:8000: connect: connection refused'],
    },
    'starting',
    [/8000/, /PORT/, /its last words/],
  ],
  [
    'a health check that fails until the deadline',
    {
      pod: makeRunningStatus('app', false),
      event: ['Unhealthy', 'Readiness probe failed: HTTP probe failed with statuscode: 500'],
      deployment: condition('Progressing', 'False', 'ProgressDeadlineExceeded', 'timed out'),
    },
    'failing',
    [/statuscode: 500/, /health_path/, /its last words/],
  ],
  [
    'an exceeded quota',
    {
      deployment: condition('ReplicaFailure', 'True', 'FailedCreate', 'exceeded quota: compute, requested: cpu=1'),
      later: 90,
    },
    'failing',
    [/requested: cpu=1/, /resource_spec/],
  ],
  ...[
    'pods "x" is forbidden: failed quota: q: must specify limits.cpu for: side',
    'pods "x" is forbidden: maximum cpu usage per Container is 100m, but limit is 200m',
  ].map(
    (message): Case => [
      `resources outside the limits of the namespace: ${message.slice(23, 36)}`,
      { deployment: condition('ReplicaFailure', 'True', 'FailedCreate', message) },
      'starting',
      [/requires other amounts/, /limits\.cpu|100m/],
    ],
  ),
  [
    'a pod security violation',
    {
      deployment: condition(
        'ReplicaFailure',
        'True',
        'FailedCreate',
        'violates PodSecurity "restricted:latest": host namespaces',
      ),
    },
    'failing',
    [/host namespaces/],
  ],
  [
    'a missing service account',
    { deployment: condition('ReplicaFailure', 'True', 'FailedCreate', 'serviceaccount "robot" not found') },
    'starting',
    [/"robot"/, /service_account_name/],
  ],
  [
    'no progress until the deadline',
    { deployment: condition('Progressing', 'False', 'ProgressDeadlineExceeded', '') },
    'failing',
    [/in time/],
  ],
]

describe('a revision that does not become healthy', () => {
  test.each(CASES)('is reported with its cause: %s', async (_, { pod, deployment, event, later = 0 }, phase, parts) => {
    const engine = createEngine()
    await engine.start(makeKubernetesUnit(), makeArtifact())
    api.logs.set(`${NAME}-0`, ['first', 'its last words'])
    api.logs.set(`${NAME}-0/previous`, ['first', 'its last words'])
    const failedPod = setUnavailable(api, NAME, (pod as never) ?? null, deployment as never)
    if (event && failedPod) {
      const involvedObject = { kind: 'Pod', name: failedPod.metadata.name, uid: failedPod.metadata.uid }
      const [reason, message] = event
      api.put({
        apiVersion: 'v1',
        kind: 'Event',
        metadata: { name: 'e1' },
        involvedObject,
        type: 'Warning',
        reason,
        message,
      })
    }
    now = new Date(now.getTime() + later * 1000)
    const { running } = await engine.observe(DEPLOYMENT_ID)
    expect(running).toMatchObject([{ revision_id: makeRevisionId(1), phase }])
    for (const part of parts) expect(running[0]!.reason).toMatch(part)
    expect(/\d\d:\d\d:\d\d UTC/.test(running[0]!.reason!)).toBe(phase === 'starting')
    expect(running[0]!.reason!.length).toBeLessThanOrEqual(2000)
  })

  test('leaves the previous revision serving, which is reported as unhealthy once it crashes', async () => {
    const engine = createEngine()
    await engine.start(makeKubernetesUnit(), makeArtifact())
    bringUp(api, api.get('Deployment', NAME))
    await engine.route(makeKubernetesUnit())
    const next = makeKubernetesUnit({ number: 2 })
    await engine.start(next, makeArtifact())
    setUnavailable(api, `${BASE}-r2`, waiting('InvalidImageName', 'no'))
    const { actions } = await reconcileUntilStable(engine, { target: makeRevisionId(2), serving: makeRevisionId(1) }, [
      makeKubernetesUnit(),
      next,
    ])
    expect(actions).toEqual(['give_up 2'])
    expect(api.get('Service', BASE).spec.selector['slipway/revision-id']).toBe(makeRevisionId(1))
    expect(api.all('Deployment').map(({ metadata }) => metadata.name)).toEqual([NAME])
    setUnavailable(api, NAME, crashed(9, { exitCode: 1 }))
    const reason = expect.stringMatching(/exit code 1/)
    expect((await engine.observe(DEPLOYMENT_ID)).running).toMatchObject([{ phase: 'unhealthy', reason }])
  })

  test('is reported with the last lines of a long log', () => {
    const report = withLog(
      'Why.',
      Array.from({ length: 500 }, (_, i) => `line ${i}`),
    )
    expect(report.length).toBeLessThanOrEqual(2000)
    expect(report).toMatch(/^Why\.\n.*line 499$/s)
    // No line loses its beginning: the masks would not recognize half of a secret.
    const [ellipsis, ...lines] = report.split('\n').slice(2)
    expect([ellipsis, lines.filter(line => !/^line \d+$/.test(line))]).toEqual(['…', []])
  })
})

describe('a refusal by the cluster', () => {
  const start = () => createEngine().start(makeKubernetesUnit(), makeArtifact())
  test.each<[string, { code: number; message: string }, RegExp]>([
    ['a missing permission', { code: 403, message: 'secrets is forbidden: User "a" cannot patch' }, /cannot patch/],
    [
      'an exceeded quota',
      { code: 403, message: 'exceeded quota: objects, requested: count/deployments=1' },
      /resource_spec/,
    ],
    [
      'an admission controller',
      {
        code: 403,
        message: 'persistentvolumeclaims "db" is forbidden: only dynamically provisioned pvc can be resized',
      },
      /rejected .* can be resized/,
    ],
    [
      'a namespace that is being deleted',
      { code: 403, message: 'unable to create because it is being terminated' },
      /another/,
    ],
    ['a missing namespace', { code: 404, message: 'namespaces "apps" not found' }, /namespaces "apps"/],
    [
      'an invalid value',
      { code: 422, message: 'spec.template.spec.containers[1].image: Required value' },
      /containers\[1\]\.image/,
    ],
  ])('fails the revision permanently: %s', async (_, refusal, reason) => {
    api.refuse = ({ verb }) => (verb === 'patch' ? refusal : undefined)
    await expect(start()).rejects.toThrow(PermanentError)
    await expect(start()).rejects.toThrow(reason)
  })

  test.each([429, 500, 503])('is temporary with the status %d', async code => {
    api.refuse = () => ({ code, message: 'later' })
    await expect(start()).rejects.toThrow(TransientError)
    await expect(createEngine().deployments()).rejects.toThrow()
  })

  test('is permanent if the Gateway API is missing: the agent does not continue without routes', async () => {
    api.missingGroups.add('gateway.networking.k8s.io/v1')
    const engine = createEngine({ K8S_ROUTES: 'gateway', K8S_GATEWAY: 'infra/main', K8S_DOMAIN: 'apps.example.com' })
    await expect(engine.route(makeKubernetesUnit())).rejects.toThrow(PermanentError)
    await expect(engine.deployments()).rejects.toThrow(PermanentError)
  })

  test('is permanent if the namespace is missing: the agent does not create it', async () => {
    api.namespaces.delete('apps')
    await expect(start()).rejects.toThrow(PermanentError)
    expect(api.all()).toEqual([])
  })

  test('names the member with an invalid value', async () => {
    const invalidVolume = { name: 'v', emptyDir: { sizeLimit: { not: 'a quantity' } } }
    const started = createEngine().start(makeKubernetesUnit({ spec: { volumes: [invalidVolume] } }), makeArtifact())
    await expect(started).rejects.toThrow(PermanentError)
    await expect(started).rejects.toThrow(/volumes/)
  })

  test('comes before the application starts if a host is invalid, and changes no route', async () => {
    const engine = createEngine({ K8S_ROUTES: 'ingress' })
    const unit = makeKubernetesUnit({ custom_url: 'http://192.0.2.7/' })
    const message = 'spec.rules[0].host: Invalid value: must be a DNS name, not an IP address'
    api.refuse = ({ kind, verb }) => (kind === 'Ingress' && verb === 'patch' ? { code: 422, message } : undefined)
    await expect(engine.start(unit, makeArtifact())).rejects.toThrow(/IP address\. Change custom_url/)
    await expect(engine.route(unit)).rejects.toThrow(PermanentError)
    expect(api.all()).toEqual([])
    api.refuse = () => undefined
    await engine.start(unit, makeArtifact())
    expect(api.all('Ingress')).toEqual([])
  })

  test('names the member with a duplicate name', async () => {
    const sidecars = [
      { name: 'side', image: 'x', volumeMounts: ['a', 'b'].map(name => ({ name, mountPath: '/data' })) },
    ]
    const started = createEngine().start(makeKubernetesUnit({ spec: { sidecars } }), makeArtifact())
    await expect(started).rejects.toThrow(PermanentError)
    await expect(started).rejects.toThrow(/volumeMounts.*data/)
  })
})

describe('a watch', () => {
  test('continues to report changes after its connection breaks or its resource version expires', async () => {
    const changed: string[] = []
    const engine = createEngine()
    await engine.open({ ...NO_EVENTS, changed: id => changed.push(id) })
    await expect.poll(() => api.watchCount).toBe(6)
    await engine.start(makeKubernetesUnit(), makeArtifact())
    await expect.poll(() => changed.length).toBeGreaterThan(0)
    api.cutWatches()
    bringUp(api, api.get('Deployment', NAME))
    api.expireChanges()
    changed.length = 0
    await expect.poll(() => changed).toContain(DEPLOYMENT_ID)
    await expect.poll(() => api.watchCount).toBe(6)
    await engine.close()
    await expect.poll(() => api.watchCount).toBe(0)
  })

  test('reconnects after a failed login', async () => {
    const config = api.config
    const login = config.applySecurityAuthentication.bind(config)
    let isFailing = false
    config.applySecurityAuthentication = async context => {
      if (!isFailing) return login(context)
      isFailing = false
      throw new Error('no login')
    }
    const watchRequests = () => api.requests.filter(({ verb }) => verb === 'watch').length
    await createEngine({}, config).open(NO_EVENTS)
    await expect.poll(() => api.watchCount).toBe(6)
    isFailing = true
    api.endWatches()
    await expect.poll(watchRequests).toBe(12)
    expect(isFailing).toBe(false)
  })

  test('ends if the engine closes while the watch connects', async () => {
    const engine = createEngine()
    await engine.open(NO_EVENTS)
    await engine.close()
    await expect.poll(() => api.requests.filter(({ verb }) => verb === 'watch').length).toBe(6)
    await expect.poll(() => api.watchCount).toBe(0)
  })
})

describe('the log of a pod', () => {
  test('is shipped line by line and each line once, even if the connection breaks', async () => {
    const lines: string[] = []
    const engine = createEngine()
    await engine.open({ ...NO_EVENTS, log: (ref, message) => lines.push(`${ref.revision_id.slice(-1)} ${message}`) })
    await engine.start(makeKubernetesUnit(), makeArtifact())
    const pod = putPod(api, api.get('Deployment', NAME), makeRunningStatus('app'))
    await expect.poll(() => api.followerCount).toBe(1)
    api.writeLog(pod.metadata.name, 'one')
    api.writeNodeMessage(pod.metadata.name, 'unable to retrieve container logs for containerd://c8ef')
    api.writeLog(pod.metadata.name, 'two words')
    await expect.poll(() => lines).toEqual(['1 one', '1 two words'])
    api.cutLogs()
    await expect.poll(() => api.followerCount).toBe(1)
    api.writeLog(pod.metadata.name, 'three')
    await expect.poll(() => lines).toEqual(['1 one', '1 two words', '1 three'])
    await engine.stop({ deployment_id: DEPLOYMENT_ID, revision_id: makeRevisionId(1) })
    api.cutLogs()
    await engine.close()
    await expect.poll(() => api.followerCount).toBe(0)
  })

  test('is followed by an agent that starts after the pod', async () => {
    await createEngine().start(makeKubernetesUnit(), makeArtifact())
    const pod = putPod(api, api.get('Deployment', NAME), makeRunningStatus('app'))
    const lines: string[] = []
    await createEngine().open({ ...NO_EVENTS, log: (_, message) => lines.push(message) })
    await expect.poll(() => api.followerCount).toBe(1)
    api.writeLog(pod.metadata.name, 'one')
    await expect.poll(() => lines).toEqual(['one'])
  })

  test('is read over one connection, also after a connection reset', async () => {
    const engine = createEngine()
    await engine.open(NO_EVENTS)
    await engine.start(makeKubernetesUnit(), makeArtifact())
    putPod(api, api.get('Deployment', NAME), makeRunningStatus('app'))
    const requestCount = () => api.requests.filter(({ kind, verb }) => kind === 'Pod' && verb === 'get').length
    for (const times of [1, 2, 3]) {
      await expect.poll(requestCount).toBe(times)
      await expect.poll(() => api.followerCount).toBe(1)
      if (times < 3) api.cutLogs(({ socket }) => void socket!.resetAndDestroy())
    }
    await engine.close()
    await expect.poll(() => api.followerCount).toBe(0)
  })

  test.each([
    ['has ended', waiting('', '', { state: { terminated: { exitCode: 1 } } })],
    ['waits for its restart', crashed(1, {})],
  ])('is shipped for a container that the agent never observed running: it %s', async (_, status) => {
    const lines: string[] = []
    const engine = createEngine()
    await engine.open({ ...NO_EVENTS, log: (_, message) => lines.push(message) })
    await engine.start(makeKubernetesUnit(), makeArtifact())
    putPod(api, api.get('Deployment', NAME), status)
    api.writeLog(`${NAME}-0`, 'its last words')
    await expect.poll(() => lines).toEqual(['its last words'])
  })
})

test('a draining revision is observed again once its drain time is over, even if the watches break', async () => {
  bringUpAutomatically(api)
  const changed: string[] = []
  const engine = createEngine({ K8S_DRAIN_SECONDS: '1' })
  await reconcileUntilStable(engine, { target: makeRevisionId(1) }, [makeKubernetesUnit()])
  await engine.open({ ...NO_EVENTS, changed: id => changed.push(id) })
  await engine.drain({ deployment_id: DEPLOYMENT_ID, revision_id: makeRevisionId(1) })
  await expect.poll(() => api.watchCount).toBe(6)
  api.cutWatches()
  changed.length = 0
  await expect.poll(() => changed).toContain(DEPLOYMENT_ID)
})
