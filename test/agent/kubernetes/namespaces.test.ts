// The kubernetes engine refuses privileges, accounts and namespaces that its operator does not allow.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { PermanentError, TransientError } from '../../../src/agent/engine.ts'
import { KubernetesEngine } from '../../../src/agent/engines/kubernetes.ts'
import { waitFor } from '../../support/commands.ts'
import { KubernetesApi } from '../../support/kubernetes-api.ts'
import { makeArtifact, makeKubernetesSettings, makeKubernetesUnit } from '../../support/kubernetes-fixtures.ts'

let api: KubernetesApi
let now = new Date()
const events: Record<string, unknown>[] = []
const engines: KubernetesEngine[] = []
const createEngine = (more: Record<string, string> = {}, check_ms?: number) => {
  const engine = new KubernetesEngine({
    settings: makeKubernetesSettings(more),
    config: api.config,
    pause_ms: 2,
    now: () => now,
    ...(check_ms !== undefined && { check_ms }),
    logEvent: (event, fields) => void events.push({ event, ...fields }),
  })
  engines.push(engine)
  return engine
}
beforeEach(async () => {
  now = new Date()
  events.length = 0
  api = await new KubernetesApi().open()
})
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close()
  await api.close()
})

const quiet = {
  changed: () => {},
  log: () => {},
  requests: () => {},
  settledLength: () => 0,
  hide: () => {},
  registryCredential: async () => null,
  modelToken: () => undefined,
  renewAccess: async () => null,
}
const checks = () => api.requests.filter(({ kind, verb }) => kind === 'Pod' && verb === 'create')
const start = (engine: KubernetesEngine, more = {}) => engine.start(makeKubernetesUnit(more), makeArtifact())

describe('a namespace that admits privileged pods', () => {
  beforeEach(() => void api.openNamespaces.add('apps'))

  test('gets no revision, and the reason names it and the settings', async () => {
    const failure = await start(createEngine()).catch((error: Error) => error)
    expect(failure).toBeInstanceOf(PermanentError)
    for (const part of ['apps', 'pod-security.kubernetes.io/enforce', 'K8S_PRIVILEGED_NAMESPACES'])
      expect(failure?.message).toContain(part)
    expect(api.all()).toEqual([])
  })

  test('gets no build either', async () => {
    const task = { log: () => {}, signal: AbortSignal.timeout(1000), cache: '', runningFolder: '' }
    await expect(createEngine().prepare(makeKubernetesUnit(), null, task)).rejects.toThrow(PermanentError)
  })

  test('gets revisions once it is labelled, or if the operator accepts it', async () => {
    const engine = createEngine()
    await expect(start(engine)).rejects.toThrow(PermanentError)
    await start(createEngine({ K8S_PRIVILEGED_NAMESPACES: 'accept' }))
    api.openNamespaces.clear()
    await start(engine, { number: 2 })
    expect(api.all('Deployment')).toHaveLength(2)
  })

  test('keeps its running revisions, which are applied again', async () => {
    await start(createEngine({ K8S_PRIVILEGED_NAMESPACES: 'accept' }))
    const engine = createEngine()
    await start(engine)
    await expect(start(engine, { number: 2 })).rejects.toThrow(PermanentError)
  })

  test('is logged at the start and when it changes, once each', async () => {
    await createEngine({}, 5).open(quiet)
    const warned = () => events.filter(({ event }) => event === 'namespace not restricted')
    await waitFor(() => warned().length === 1)
    expect(warned()).toMatchObject([{ namespace: 'apps' }])
    api.openNamespaces.add('other')
    await waitFor(() => warned().length === 2)
    expect(warned()[1]).toMatchObject({ namespace: 'other' })
    const asked = checks().length
    await waitFor(() => checks().length > asked + 4)
    expect(warned()).toHaveLength(2)
  })
})

describe('a namespace', () => {
  test('is asked with a dry run, and again only ten minutes after a refusal', async () => {
    const engine = createEngine()
    await start(engine)
    await start(engine)
    expect(checks()).toHaveLength(2)
    now = new Date(now.getTime() + 11 * 60_000)
    await start(engine)
    expect(checks()).toHaveLength(4)
    expect(api.all('Pod')).toEqual([])
  })

  test.each([
    ['the agent may not ask', { code: 403, message: 'pods is forbidden: User "agent" cannot create resource "pods"' }],
    [
      'it refuses every pod',
      { code: 403, message: 'pods "x" is forbidden: maximum memory usage per Container is 1Mi' },
    ],
  ])('counts as open if %s', async (_, refusal) => {
    api.refuse = ({ kind, verb }) => (kind === 'Pod' && verb === 'create' ? refusal : undefined)
    await expect(start(createEngine())).rejects.toThrow(/create pods/)
  })

  test('is judged by the checks before the quota if the quota is exhausted', async () => {
    api.refuse = ({ kind, verb }) =>
      kind === 'Pod' && verb === 'create'
        ? { code: 403, message: 'pods "x" is forbidden: exceeded quota: q' }
        : undefined
    await expect(start(createEngine())).rejects.toThrow(/admits privileged pods/)
  })

  test('is asked again after a request that failed', async () => {
    api.refuse = ({ kind, verb }) =>
      kind === 'Pod' && verb === 'create' ? { code: 503, message: 'try later' } : undefined
    await expect(start(createEngine())).rejects.toThrow(TransientError)
  })
})

describe('a setting that only the operator may allow', () => {
  const privileged = { spec: { sidecars: [{ name: 'x', image: 'x', securityContext: { privileged: true } }] } }
  const account = { spec: { service_account_name: 'robot' } }
  test.each([
    ['a privileged container', privileged, { K8S_PRIVILEGES: 'on' }],
    ['a service account', account, { K8S_SERVICE_ACCOUNTS: 'other,robot' }],
  ])('is refused before a build and at a start: %s', async (_, unit, opening) => {
    const [closed, open] = [createEngine(), createEngine(opening)]
    const [setting] = Object.keys(opening)
    expect(closed.refusalReason(makeKubernetesUnit(unit))).toContain(setting)
    // An earlier agent may have accepted the revision, before an upgrade.
    await expect(start(closed, unit)).rejects.toThrow(PermanentError)
    expect(api.all()).toEqual([])
    expect(open.refusalReason(makeKubernetesUnit(unit))).toBeNull()
    await start(open, unit)
  })

  const SECRET = 'mail-settings'
  test.each<[string, object]>([
    ['secret_references', { secret_references: [{ name: 'A', secret_name: SECRET, secret_key: 'uri' }] }],
    ['image_pull_secrets', { spec: { image_pull_secrets: [{ name: SECRET }] } }],
    ['volumes', { spec: { volumes: [{ name: 'v', secret: { secretName: SECRET } }] } }],
    ['volumes', { spec: { volumes: [{ name: 'v', projected: { sources: [{ secret: { name: SECRET } }] } }] } }],
    ['volumes', { spec: { volumes: [{ name: 'v', persistentVolumeClaim: { claimName: SECRET } }] } }],
    ['sidecars', { spec: { sidecars: [{ name: 'x', image: 'x', envFrom: [{ secretRef: { name: SECRET } }] }] } }],
    [
      'init_containers',
      {
        spec: {
          init_containers: [
            { name: 'x', image: 'x', env: [{ name: 'A', valueFrom: { secretKeyRef: { name: SECRET, key: 'uri' } } }] },
          ],
        },
      },
    ],
  ])('is no object that the agent made for another deployment: %s', async (path, unit) => {
    const engine = createEngine()
    for (const kind of ['Secret', 'PersistentVolumeClaim'])
      api.put({ apiVersion: 'v1', kind, metadata: { name: SECRET } })
    // Objects of the operator or of other programs are for everybody who may deploy to the namespace.
    await start(engine, unit)
    const labels = { 'app.kubernetes.io/managed-by': 'slipway', 'slipway/deployment-id': 'another' }
    for (const kind of ['Secret', 'PersistentVolumeClaim'])
      api.put({ apiVersion: 'v1', kind, metadata: { name: SECRET, labels } })
    await expect(start(engine, unit)).rejects.toThrow(new RegExp(`${path}.*${SECRET}`))
  })

  test.each(['db', 'redis', 'models', 'r7', 'r7-tracing', 'r7-models', 'r7-pull'])(
    'is no object that an agent will make for another deployment: %s',
    async suffix => {
      const naming = (name: string) => ({
        spec: { volumes: [{ name: 'v', secret: { secretName: name, optional: true } }] },
      })
      const engine = createEngine()
      await start(engine, naming(`shop-aaaaaaaa00-${suffix}`))
      await expect(start(engine, naming(`mail-dddddddd00-${suffix}`))).rejects.toThrow(/volumes.*mail-dddddddd00/)
    },
  )

  test('is reported to the control plane', () => {
    expect(createEngine().policy).toMatchObject({ privileged: false, service_accounts: [] })
    const opened = createEngine({ K8S_PRIVILEGES: 'on', K8S_SERVICE_ACCOUNTS: 'robot' })
    expect(opened.policy).toMatchObject({ privileged: true, service_accounts: ['robot'] })
  })
})
