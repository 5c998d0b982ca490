// Tags that are pinned to digests, and pull Secrets that are created, renewed and removed.
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
const OWN = 'registry.example.com/apps/tenant/shop'
const DIGEST = `sha256:${'a'.repeat(64)}`
const PINNED = `${OWN}@${DIGEST}`
const MINUTE = 60_000
let api: KubernetesApi
let now: Date
let credentialRequests: { of: RevisionRef; image: string | undefined }[]
let issueCredential: (at: Date) => Promise<RegistryCredential | null>
const engines: KubernetesEngine[] = []
const lines: string[] = []

beforeEach(async () => {
  api = await new KubernetesApi().open()
  now = new Date('2026-11-21T12:00:00Z')
  credentialRequests = []
  lines.length = 0
  issueCredential = async at => ({
    ...{ registry: 'registry.example.com', repository: 'apps/tenant/shop', username: 'slipway' },
    ...{ password: `at ${at.toISOString()}`, expires_at: new Date(at.getTime() + 60 * MINUTE).toISOString() },
  })
})
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close()
  await api.close()
})

const events: EngineEvents = {
  ...NO_EVENTS,
  log: (_, message, level) => void lines.push(`${level} ${message}`),
  registryCredential: async (of, image) => {
    credentialRequests.push({ of: { deployment_id: of.deployment_id, revision_id: of.revision_id }, image })
    return image === undefined || image.startsWith(OWN) ? issueCredential(now) : null
  },
}
async function engineOf(more: Record<string, string> = {}) {
  const settings = makeKubernetesSettings(more)
  const engine = new KubernetesEngine({ settings, config: api.config, pause_ms: 2, now: () => now, renew_ms: 5 })
  await engine.open(events)
  engines.push(engine)
  return engine
}
const later = (minutes: number) => (now = new Date(now.getTime() + minutes * MINUTE))
const task = () => ({
  ...{ log: (line: string, level = 'INFO') => void lines.push(`${level} ${line}`), cache: '', runningFolder: '' },
  signal: new AbortController().signal,
})
const config = (auths: object) => Buffer.from(JSON.stringify({ auths })).toString('base64')
const auths = () =>
  JSON.parse(Buffer.from(api.get('Secret', SECRET).data!['.dockerconfigjson']!, 'base64').toString()).auths
const unit = (more: Parameters<typeof makeKubernetesUnit>[0] = {}) =>
  makeKubernetesUnit({ source: 'internal_container', image_uri: PINNED, ...more })
const artifact = makeArtifact({ location: PINNED })
const pods = (name = `${BASE}-r1`) => api.get('Deployment', name).spec.template.spec

describe('the pull Secret for the installation’s own registry', () => {
  test('is created before the pods, which name it beside other pull secrets', async () => {
    const engine = await engineOf({ K8S_PULL_SECRETS: 'all' })
    await engine.start(unit({ spec: { image_pull_secrets: [{ name: 'mine' }] } }), artifact)
    expect(pods().imagePullSecrets).toEqual([{ name: 'mine' }, { name: SECRET }, { name: 'all' }])
    expect(listSchemaFaults(api.get('Secret', SECRET) as never)).toEqual([])
    expect(api.get('Secret', SECRET)).toMatchObject({ type: 'kubernetes.io/dockerconfigjson' })
    const password = 'at 2026-11-21T12:00:00.000Z'
    const auth = Buffer.from(`slipway:${password}`).toString('base64')
    expect(auths()).toEqual({ [OWN]: { username: 'slipway', password, auth } })
    const order = api.requests.filter(({ verb }) => verb === 'create').map(({ kind }) => kind)
    expect(order.indexOf('Secret')).toBeLessThan(order.indexOf('Deployment'))
  })

  test('is created only if one of the images, sidecars included, is in that registry', async () => {
    const engine = await engineOf()
    const image = 'docker.io/library/web@sha256:b'
    await engine.start(unit({ image_uri: image }), makeArtifact({ location: image }))
    expect(api.has('Secret', SECRET)).toBe(false)
    expect(pods().imagePullSecrets).toBeUndefined()
    const spec = { sidecars: [{ name: 'beside', image: `${OWN}/beside:1` }] }
    await engine.start(unit({ number: 2, spec, image_uri: image }), makeArtifact({ location: image }))
    expect(pods(`${BASE}-r2`).imagePullSecrets).toEqual([{ name: `${BASE}-r2-pull` }])
  })

  test('is requested once while it is valid', async () => {
    const engine = await engineOf()
    await engine.start(unit(), artifact)
    await engine.start(unit(), artifact)
    expect(credentialRequests).toHaveLength(1)
    expect(credentialRequests[0]).toEqual({
      of: { deployment_id: DEPLOYMENT_ID, revision_id: makeRevisionId(1) },
      image: PINNED,
    })
  })

  test('is renewed after half of its lifetime, by any agent', async () => {
    const first = await engineOf()
    await first.start(unit(), artifact)
    later(29)
    await first.start(unit(), artifact)
    expect(credentialRequests).toHaveLength(1)
    later(2)
    await first.start(unit(), artifact)
    expect(auths()[OWN].password).toBe('at 2026-11-21T12:31:00.000Z')
    await first.close()
    const { labels } = api.get('Secret', SECRET).metadata
    await engineOf()
    later(31)
    await expect.poll(() => auths()[OWN].password).toBe('at 2026-11-21T13:02:00.000Z')
    expect(api.get('Secret', SECRET).metadata.labels).toEqual(labels)
    expect(credentialRequests).toHaveLength(3)
  })

  test('is removed with its revision and not created again', async () => {
    bringUpAutomatically(api)
    const engine = await engineOf()
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
    const before = credentialRequests.length
    api.requests.length = 0
    later(45)
    const looked = () => api.requests.map(({ verb, name }) => `${verb} ${name}`)
    await expect.poll(looked).toEqual(expect.arrayContaining([`get ${SECRET}`, `get ${BASE}-r2-pull`]))
    expect(looked().filter(one => !one.startsWith('get '))).toEqual([])
    expect(credentialRequests).toHaveLength(before)
  })

  test('that cannot be renewed is reported once, after it expired, and renewed when that works again', async () => {
    const engine = await engineOf()
    await engine.start(unit(), artifact)
    const right = issueCredential
    issueCredential = () => Promise.reject(new PermanentError('The listener is revoked.'))
    const waited = async (minutes: number, asks: number) => {
      later(minutes)
      await expect.poll(() => credentialRequests.length).toBe(asks)
    }
    await waited(40, 2)
    await engine.start(unit(), artifact)
    expect(pods().imagePullSecrets).toEqual([{ name: SECRET }])
    expect([credentialRequests.length, lines]).toEqual([2, []])
    await waited(21, 3)
    await expect.poll(() => lines.length).toBe(1)
    expect(lines[0]).toMatch(/^WARNING .*expired.*The listener is revoked\./)
    await waited(6, 4)
    issueCredential = right
    await waited(6, 5)
    await expect.poll(() => auths()[OWN].password).toBe('at 2026-11-21T13:13:00.000Z')
    expect(lines).toHaveLength(1)
  })

  test('that is unavailable delays the start', async () => {
    const engine = await engineOf()
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
  const pull = (name: string, password: string, type = 'kubernetes.io/dockerconfigjson') =>
    api.put({
      ...{ apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: 'apps' }, type },
      data: { '.dockerconfigjson': config({ [host]: { username: 'ann', password } }) },
    })

  test('is pinned to its digest with the pull secrets of the pods', async () => {
    pull('mine', 'wrong')
    pull('all', 'right')
    const engine = await engineOf({ K8S_HTTP_REGISTRIES: host, K8S_PULL_SECRETS: 'all,missing' })
    const named = makeKubernetesUnit({ image_uri: `${host}/web:1`, spec: { image_pull_secrets: [{ name: 'mine' }] } })
    expect(await engine.prepare(named, null, task())).toMatchObject({ location: `${host}/web@${DIGEST}` })
    expect(logins).toEqual([undefined, 'ann:wrong', undefined, 'ann:right'])
    expect(lines).toEqual([`INFO Resolved ${host}/web:1 to ${host}/web@${DIGEST}`])
  })

  test('is kept, with a warning, if the registry does not return its digest', async () => {
    pull('mine', 'right', 'Opaque')
    api.put({
      ...{ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'broken' }, type: 'kubernetes.io/dockerconfigjson' },
      data: { '.dockerconfigjson': Buffer.from('no').toString('base64') },
    })
    const engine = await engineOf({ K8S_HTTP_REGISTRIES: host, K8S_PULL_SECRETS: 'mine,broken' })
    const { location } = await engine.prepare(makeKubernetesUnit({ image_uri: `${host}/web:1` }), null, task())
    expect(location).toBe(`${host}/web:1`)
    expect(lines).toHaveLength(2)
    expect(lines[0]).toMatch(/^WARNING .*The Secret broken is not a valid/)
    expect(lines[1]).toMatch(/^WARNING .* answers 401.*Each node/)
  })

  test('in the installation’s own registry is resolved with a credential of the control plane', async () => {
    const at = new URL(`http://${host}`).host
    issueCredential = async when => ({
      ...{ registry: at, repository: 'apps/x', username: 'ann', password: 'right' },
      expires_at: new Date(when.getTime() + MINUTE).toISOString(),
    })
    const engine = new KubernetesEngine({
      settings: makeKubernetesSettings({ K8S_HTTP_REGISTRIES: host }),
      config: api.config,
    })
    engines.push(engine)
    await engine.open({ ...events, registryCredential: () => issueCredential(now) })
    const named = unit({ image_uri: `${host}/apps/x/web:1` })
    expect((await engine.prepare(named, null, task())).location).toBe(`${host}/apps/x/web@${DIGEST}`)
    issueCredential = () => Promise.reject(new TransientError('away'))
    await expect(engine.prepare(named, null, task())).rejects.toThrow(TransientError)
  })

  test('beside a digest is ignored', async () => {
    const engine = await engineOf({ K8S_HTTP_REGISTRIES: host })
    const image_uri = `${host}/web:1@${DIGEST}`
    expect((await engine.prepare(makeKubernetesUnit({ image_uri }), null, task())).location).toBe(image_uri)
    expect([logins, credentialRequests, lines]).toEqual([[], [], []])
  })
})

describe('a source that is built', () => {
  const files = { folder: '/nowhere', commit: null, start_command: null, health_path: null, env: {} }
  const tree = { ...files, install_command: null, build_command: null }

  test('is refused by an agent without an image builder', async () => {
    for (const source of ['githost', 'internal_source', 'internal_template'] as const) {
      expect((await engineOf()).refusalReason(unit({ source }))).toMatch(/K8S_BUILD_SOCKET/)
      expect((await engineOf({ K8S_BUILD_SOCKET: '/nowhere' })).refusalReason(unit({ source }))).toBeNull()
    }
  })

  test('needs a registry to push to', async () => {
    const engine = await engineOf({ K8S_BUILD_SOCKET: '/nowhere' })
    issueCredential = async () => null
    const built = unit({ source: 'githost', image_uri: null })
    await expect(engine.prepare(built, tree, task())).rejects.toThrow(/K8S_BUILD_REGISTRY/)
    expect(credentialRequests).toMatchObject([{ image: undefined }])
  })

  test('needs a readable Docker configuration', async () => {
    const settings = { K8S_BUILD_SOCKET: '/nowhere', K8S_BUILD_REGISTRY: 'registry.example.com/built' }
    const engine = await engineOf({ ...settings, K8S_BUILD_DOCKER_CONFIG: '/nowhere/config.json' })
    const built = unit({ source: 'githost', image_uri: null })
    await expect(engine.prepare(built, tree, task())).rejects.toThrow(/K8S_BUILD_DOCKER_CONFIG/)
  })
})
