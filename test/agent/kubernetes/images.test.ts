// Tags are pinned to digests, and pull Secrets are created, renewed and removed.
import * as http from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  type EngineEvents,
  NO_EVENTS,
  PermanentError,
  type RevisionRef,
  TransientError,
} from '../../../src/agent/engine.ts'
import { KubernetesEngine } from '../../../src/agent/engines/kubernetes.ts'
import type { RegistryCredential } from '../../../src/protocol/credentials.schema.ts'
import { KubernetesApi } from '../../support/kubernetes-api.ts'
import {
  DEPLOYMENT_ID,
  listSchemaFaults,
  makeArtifact,
  makeKubernetesSettings,
  makeKubernetesUnit,
  makeRevisionId,
} from '../../support/kubernetes-fixtures.ts'
import { bringUpAutomatically, reconcileUntilStable } from '../../support/kubernetes-pods.ts'

const BASE = 'shop-aaaaaaaa00'
const SECRET = `${BASE}-r1-pull`
const REPOSITORY = 'registry.example.com/apps/tenant/shop'
const DIGEST = `sha256:${'a'.repeat(64)}`
const PINNED = `${REPOSITORY}@${DIGEST}`
const MINUTE = 60_000
let api: KubernetesApi
let now: Date
let credentialRequests: { ref: RevisionRef; image: string | undefined }[]
let issueCredential: (at: Date) => Promise<RegistryCredential | null>
const engines: KubernetesEngine[] = []
const lines: string[] = []

beforeEach(async () => {
  api = await new KubernetesApi().open()
  now = new Date('2026-11-21T12:00:00Z')
  credentialRequests = []
  lines.length = 0
  issueCredential = async at => ({
    registry: 'registry.example.com',
    repository: 'apps/tenant/shop',
    username: 'slipway',
    password: `at ${at.toISOString()}`,
    expires_at: new Date(at.getTime() + 60 * MINUTE).toISOString(),
  })
})
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close()
  await api.close()
})

const events: EngineEvents = {
  ...NO_EVENTS,
  log: (_, message, level) => void lines.push(`${level} ${message}`),
  registryCredential: async ({ deployment_id, revision_id }, image) => {
    credentialRequests.push({ ref: { deployment_id, revision_id }, image })
    return image === undefined || image.startsWith(REPOSITORY) ? issueCredential(now) : null
  },
}
async function createEngine(more: Record<string, string> = {}) {
  const settings = makeKubernetesSettings(more)
  const engine = new KubernetesEngine({ settings, config: api.config, pause_ms: 2, now: () => now, renew_ms: 5 })
  await engine.open(events)
  engines.push(engine)
  return engine
}
const advanceClock = (minutes: number) => (now = new Date(now.getTime() + minutes * MINUTE))
const task = () => ({
  log: (line: string, level = 'INFO') => void lines.push(`${level} ${line}`),
  cache: '',
  runningFolder: '',
  signal: new AbortController().signal,
})
const dockerConfig = (auths: object) => Buffer.from(JSON.stringify({ auths })).toString('base64')
const readAuths = () =>
  JSON.parse(Buffer.from(api.get('Secret', SECRET).data!['.dockerconfigjson']!, 'base64').toString()).auths
const unit = (more: Parameters<typeof makeKubernetesUnit>[0] = {}) =>
  makeKubernetesUnit({ source: 'internal_container', image_uri: PINNED, ...more })
const artifact = makeArtifact({ location: PINNED })
const podSpecOf = (name = `${BASE}-r1`) => api.get('Deployment', name).spec.template.spec

describe('the pull Secret for the installation’s own registry', () => {
  test('is created before the pods, which name it together with the other pull secrets', async () => {
    const engine = await createEngine({ K8S_PULL_SECRETS: 'all' })
    await engine.start(unit({ spec: { image_pull_secrets: [{ name: 'first' }] } }), artifact)
    expect(podSpecOf().imagePullSecrets).toEqual([{ name: 'first' }, { name: SECRET }, { name: 'all' }])
    expect(listSchemaFaults(api.get('Secret', SECRET) as never)).toEqual([])
    expect(api.get('Secret', SECRET)).toMatchObject({ type: 'kubernetes.io/dockerconfigjson' })
    const password = 'at 2026-11-21T12:00:00.000Z'
    const auth = Buffer.from(`slipway:${password}`).toString('base64')
    expect(readAuths()).toEqual({ [REPOSITORY]: { username: 'slipway', password, auth } })
    const order = api.requests.filter(({ verb }) => verb === 'create').map(({ kind }) => kind)
    expect(order.indexOf('Secret')).toBeLessThan(order.indexOf('Deployment'))
  })

  test('is created only if one of the images, sidecars included, is in that registry', async () => {
    const engine = await createEngine()
    const image = 'docker.io/library/web@sha256:b'
    await engine.start(unit({ image_uri: image }), makeArtifact({ location: image }))
    expect(api.has('Secret', SECRET)).toBe(false)
    expect(podSpecOf().imagePullSecrets).toBeUndefined()
    const spec = { sidecars: [{ name: 'beside', image: `${REPOSITORY}/beside:1` }] }
    await engine.start(unit({ number: 2, spec, image_uri: image }), makeArtifact({ location: image }))
    expect(podSpecOf(`${BASE}-r2`).imagePullSecrets).toEqual([{ name: `${BASE}-r2-pull` }])
  })

  test('is requested once while it is valid', async () => {
    const engine = await createEngine()
    await engine.start(unit(), artifact)
    await engine.start(unit(), artifact)
    expect(credentialRequests).toHaveLength(1)
    expect(credentialRequests[0]).toEqual({
      ref: { deployment_id: DEPLOYMENT_ID, revision_id: makeRevisionId(1) },
      image: PINNED,
    })
  })

  test('is renewed after half of its lifetime, also by a restarted agent', async () => {
    const first = await createEngine()
    await first.start(unit(), artifact)
    advanceClock(29)
    await first.start(unit(), artifact)
    expect(credentialRequests).toHaveLength(1)
    advanceClock(2)
    await first.start(unit(), artifact)
    expect(readAuths()[REPOSITORY].password).toBe('at 2026-11-21T12:31:00.000Z')
    await first.close()
    const { labels } = api.get('Secret', SECRET).metadata
    await createEngine()
    advanceClock(31)
    await expect.poll(() => readAuths()[REPOSITORY].password).toBe('at 2026-11-21T13:02:00.000Z')
    expect(api.get('Secret', SECRET).metadata.labels).toEqual(labels)
    expect(credentialRequests).toHaveLength(3)
  })

  test('is removed with its revision and not created again', async () => {
    bringUpAutomatically(api)
    const engine = await createEngine()
    const units = [unit(), unit({ number: 2 })]
    await reconcileUntilStable(engine, { target: makeRevisionId(1) }, units, () => {}, artifact)
    await reconcileUntilStable(
      engine,
      { target: makeRevisionId(2), serving: makeRevisionId(1) },
      units,
      () => {},
      artifact,
    )
    await reconcileUntilStable(engine, { serving: makeRevisionId(2) }, units, () => {}, artifact)
    expect(api.all('Secret').map(({ metadata }) => metadata.name)).toEqual([`${BASE}-r2-pull`])
    await reconcileUntilStable(engine, { present: false }, units)
    expect(api.all()).toEqual([])
    const requestsBefore = credentialRequests.length
    api.requests.length = 0
    advanceClock(45)
    const apiRequests = () => api.requests.map(({ verb, name }) => `${verb} ${name}`)
    await expect.poll(apiRequests).toEqual(expect.arrayContaining([`get ${SECRET}`, `get ${BASE}-r2-pull`]))
    expect(apiRequests().filter(request => !request.startsWith('get '))).toEqual([])
    expect(credentialRequests).toHaveLength(requestsBefore)
  })

  test('causes one warning when it expires without a renewal, and is renewed as soon as possible', async () => {
    const engine = await createEngine()
    await engine.start(unit(), artifact)
    const issueValid = issueCredential
    issueCredential = () => Promise.reject(new PermanentError('The listener is revoked.'))
    const expectRequestsAfter = async (minutes: number, count: number) => {
      advanceClock(minutes)
      await expect.poll(() => credentialRequests.length).toBe(count)
    }
    await expectRequestsAfter(40, 2)
    await engine.start(unit(), artifact)
    expect(podSpecOf().imagePullSecrets).toEqual([{ name: SECRET }])
    expect([credentialRequests.length, lines]).toEqual([2, []])
    await expectRequestsAfter(21, 3)
    await expect.poll(() => lines.length).toBe(1)
    expect(lines[0]).toMatch(/^WARNING .*expired.*The listener is revoked\./)
    await expectRequestsAfter(6, 4)
    issueCredential = issueValid
    await expectRequestsAfter(6, 5)
    await expect.poll(() => readAuths()[REPOSITORY].password).toBe('at 2026-11-21T13:13:00.000Z')
    expect(lines).toHaveLength(1)
  })

  test('delays the start while it cannot be requested', async () => {
    const engine = await createEngine()
    issueCredential = () => Promise.reject(new TransientError('away'))
    await expect(engine.start(unit(), artifact)).rejects.toThrow(TransientError)
    expect(api.has('Deployment', `${BASE}-r1`)).toBe(false)
  })
})

describe('a tag', () => {
  let server: http.Server
  let host: string
  let logins: (string | undefined)[]
  beforeEach(async () => {
    logins = []
    server = http.createServer((req, res) => {
      const { authorization } = req.headers
      logins.push(authorization && Buffer.from(authorization.slice('Basic '.length), 'base64').toString())
      if (logins.at(-1) !== 'ann:right') return res.writeHead(401, { 'WWW-Authenticate': 'Basic realm="r"' }).end()
      res.writeHead(200, { 'Docker-Content-Digest': DIGEST }).end()
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  afterEach(() => {
    server.closeAllConnections()
    server.close()
  })
  const createPullSecret = (name: string, password: string, type = 'kubernetes.io/dockerconfigjson') =>
    api.put({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, namespace: 'apps' },
      type,
      data: { '.dockerconfigjson': dockerConfig({ [host]: { username: 'ann', password } }) },
    })

  test('is resolved to a digest with the pull secrets of the pods', async () => {
    createPullSecret('first', 'wrong')
    createPullSecret('all', 'right')
    const engine = await createEngine({ K8S_HTTP_REGISTRIES: host, K8S_PULL_SECRETS: 'all,missing' })
    const tagged = makeKubernetesUnit({ image_uri: `${host}/web:1`, spec: { image_pull_secrets: [{ name: 'first' }] } })
    expect(await engine.prepare(tagged, null, task())).toMatchObject({ location: `${host}/web@${DIGEST}` })
    expect(logins).toEqual([undefined, 'ann:wrong', undefined, 'ann:right'])
    expect(lines).toEqual([`INFO Resolved ${host}/web:1 to ${host}/web@${DIGEST}`])
  })

  test('stays unresolved, with a warning, if the registry does not return a digest', async () => {
    createPullSecret('first', 'right', 'Opaque')
    api.put({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'broken' },
      type: 'kubernetes.io/dockerconfigjson',
      data: { '.dockerconfigjson': Buffer.from('no').toString('base64') },
    })
    const engine = await createEngine({ K8S_HTTP_REGISTRIES: host, K8S_PULL_SECRETS: 'first,broken' })
    const { location } = await engine.prepare(makeKubernetesUnit({ image_uri: `${host}/web:1` }), null, task())
    expect(location).toBe(`${host}/web:1`)
    expect(lines).toHaveLength(2)
    expect(lines[0]).toMatch(/^WARNING .*The Secret broken is not a valid/)
    expect(lines[1]).toMatch(/^WARNING .* answers 401.*Each node/)
  })

  test('in the installation’s own registry is resolved with a credential of the control plane', async () => {
    issueCredential = async issuedAt => ({
      registry: host,
      repository: 'apps/x',
      username: 'ann',
      password: 'right',
      expires_at: new Date(issuedAt.getTime() + MINUTE).toISOString(),
    })
    const engine = new KubernetesEngine({
      settings: makeKubernetesSettings({ K8S_HTTP_REGISTRIES: host }),
      config: api.config,
    })
    engines.push(engine)
    await engine.open({ ...events, registryCredential: () => issueCredential(now) })
    const tagged = unit({ image_uri: `${host}/apps/x/web:1` })
    expect((await engine.prepare(tagged, null, task())).location).toBe(`${host}/apps/x/web@${DIGEST}`)
    issueCredential = () => Promise.reject(new TransientError('away'))
    await expect(engine.prepare(tagged, null, task())).rejects.toThrow(TransientError)
  })

  test('with a digest is ignored', async () => {
    const engine = await createEngine({ K8S_HTTP_REGISTRIES: host })
    const image_uri = `${host}/web:1@${DIGEST}`
    expect((await engine.prepare(makeKubernetesUnit({ image_uri }), null, task())).location).toBe(image_uri)
    expect([logins, credentialRequests, lines]).toEqual([[], [], []])
  })
})

describe('a source that must be built', () => {
  const files = {
    folder: '/nowhere',
    commit: null,
    version: null,
    configuration_path: null,
    start_command: null,
    health_path: null,
    env: {},
  }
  const tree = { ...files, install_command: null, build_command: null }

  test('is refused by an agent without an image builder', async () => {
    for (const source of ['githost', 'internal_source', 'internal_template'] as const) {
      expect((await createEngine()).refusalReason(unit({ source }))).toMatch(/K8S_BUILD_SOCKET/)
      expect((await createEngine({ K8S_BUILD_SOCKET: '/nowhere' })).refusalReason(unit({ source }))).toBeNull()
    }
  })

  test('needs a registry to push to', async () => {
    const engine = await createEngine({ K8S_BUILD_SOCKET: '/nowhere' })
    issueCredential = async () => null
    const built = unit({ source: 'githost', image_uri: null })
    await expect(engine.prepare(built, tree, task())).rejects.toThrow(/K8S_BUILD_REGISTRY/)
    expect(credentialRequests).toMatchObject([{ image: undefined }])
  })

  test('needs a readable Docker configuration', async () => {
    const settings = { K8S_BUILD_SOCKET: '/nowhere', K8S_BUILD_REGISTRY: 'registry.example.com/built' }
    const engine = await createEngine({ ...settings, K8S_BUILD_DOCKER_CONFIG: '/nowhere/config.json' })
    const built = unit({ source: 'githost', image_uri: null })
    await expect(engine.prepare(built, tree, task())).rejects.toThrow(/K8S_BUILD_DOCKER_CONFIG/)
  })
})
