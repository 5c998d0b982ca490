// The public proxy: what the agent writes into Caddy's configuration, when, and for which hosts certificates may be
// ordered. test/proof/trials/public.sh runs it with real Caddys and a real authority.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { CaddyProxy } from '../../src/agent/public-proxy/caddy.ts'
import { type CaddyConfig, withOwnParts } from '../../src/agent/public-proxy/caddy-config.ts'
import { createCertificateGate, type Direction, type Pauses } from '../../src/agent/public-proxy/certificate-gate.ts'
import { HostWatch } from '../../src/agent/public-proxy/host-watch.ts'
import { readProxySettings } from '../../src/agent/public-proxy/settings.ts'
import { waitFor } from '../support/commands.ts'
import { makeTempFolder } from '../support/process-engine.ts'

const env = { AGENT_PROXY: 'caddy', APPS_DOMAIN: 'apps.example.net', AGENT_PROXY_API_HOST: 'slipway.example.com' }
const router = { port: 8788, certificateQuestion: 'http://127.0.0.1:8788/question' }
const makeInput = (more: NodeJS.ProcessEnv = {}) => ({
  settings: readProxySettings({ ...env, ...more })!,
  router,
  certificateStamp: '1',
  dialect: 'permission' as const,
})

describe('the settings of the public proxy', () => {
  it.each<[string, NodeJS.ProcessEnv]>([
    ['an unknown proxy', { AGENT_PROXY: 'apache' }],
    ['no domain of applications', { APPS_DOMAIN: '' }],
    ['an API below the domain of applications', { AGENT_PROXY_API_HOST: 'api.apps.example.net' }],
    ['a placeholder as the host of the API', { AGENT_PROXY_API_HOST: '{env.HOME}' }],
    ['a placeholder in a path', { ACME_ROOT: '/{env.HOME}/root.pem' }],
    ['a placeholder in an address', { ACME_EMAIL: '{env.HOME}@example.com' }],
    ['a directory without https', { ACME_DIRECTORY: 'http://ca.example.com/dir' }],
    ['a certificate without its key', { APPS_CERTIFICATE: '/etc/slipway/apps.pem' }],
    ['an address of the machine that is a name', { AGENT_PROXY_ADDRESSES: 'slipway.example.com' }],
    ['a limit of bodies that is no number', { AGENT_PROXY_BODY_MIB: '1e3' }],
  ])('refuse %s', (_, more) => {
    expect(() => readProxySettings({ ...env, ...more })).toThrow()
  })
})

describe('the configuration of Caddy', () => {
  const foreign: CaddyConfig = {
    admin: { listen: 'unix//run/admin.sock' },
    apps: {
      http: { servers: { shop: { listen: [':8443'] } } },
      tls: {
        automation: { policies: [{ '@id': 'theirs', subjects: ['other.example.com'] }] },
        certificates: { load_files: [{ certificate: '/a.pem', key: '/a.key' }] },
      },
    },
  }

  it('keeps what others have written, and is the same when it is applied again', () => {
    const files = { APPS_CERTIFICATE: '/etc/slipway/apps.pem', APPS_CERTIFICATE_KEY: '/etc/slipway/apps.key' }
    const once = withOwnParts(foreign, makeInput(files))
    expect(withOwnParts(once, makeInput(files))).toEqual(once)
    expect(once).toMatchObject({ admin: foreign.admin, apps: { http: foreign.apps!.http! } })
    const { automation, certificates } = once.apps!.tls!
    expect(automation!.policies!.map(policy => policy['@id'])).toEqual(['slipway_api', 'theirs', 'slipway_apps'])
    expect(certificates!.load_files).toHaveLength(2)
    const without = withOwnParts(once, makeInput()).apps!.tls!.certificates!.load_files
    expect(without).toEqual(foreign.apps!.tls!.certificates!.load_files)
  })

  it('reads the files of a certificate again when they have changed', () => {
    const files = { APPS_CERTIFICATE: '/etc/slipway/apps.pem', APPS_CERTIFICATE_KEY: '/etc/slipway/apps.key' }
    const [first, second] = ['1', '2'].map(certificateStamp =>
      withOwnParts({}, { ...makeInput(files), certificateStamp }),
    )
    expect(first).not.toEqual(second)
  })
})

describe('Caddy', () => {
  /** Its admin API, as far as the agent uses it: the whole configuration, with ETags. */
  async function startAdmin({ refusesPermission = false } = {}) {
    const admin = join(makeTempFolder(), 'admin.sock')
    const state = { config: { admin: { listen: admin } } as CaddyConfig, writes: 0, onRead: () => {} }
    const etag = () => `"/config/ ${createHash('sha256').update(JSON.stringify(state.config)).digest('hex')}"`
    const server = createServer(async (req, res) => {
      if (req.method === 'GET') {
        res.setHeader('ETag', etag()).end(JSON.stringify(state.config))
        return state.onRead()
      }
      const body = await text(req)
      if (req.headers['if-match'] !== etag()) return void res.writeHead(412).end('{"error": "ETag mismatch"}')
      if (refusesPermission && body.includes('"permission"'))
        return void res.writeHead(500).end('{"error": "json: unknown field \\"permission\\""}')
      state.config = JSON.parse(body)
      state.writes++
      res.end()
    })
    await once(server.listen(admin), 'listening')
    onTestFinished(() => void server.close())
    const settings = readProxySettings({ ...env, AGENT_PROXY_ADMIN: admin })!
    const events: string[] = []
    const proxy = new CaddyProxy({ settings, logEvent: event => events.push(event), check_ms: 5 })
    onTestFinished(() => proxy.close())
    const isServing = () => state.config.apps?.http?.servers?.slipway_https !== undefined
    return { state, proxy, events, isServing }
  }

  it('is configured, again after it has lost its configuration, and left alone while nothing changes', async () => {
    const { state, proxy, isServing } = await startAdmin()
    proxy.open(() => router)
    await waitFor(isServing)
    state.config = {}
    await waitFor(isServing)
    let reads = 0
    state.onRead = () => void reads++
    await waitFor(() => reads > 3)
    expect(state.writes).toBe(2)
  })

  it('keeps what another program writes between the reading and the writing of the agent', async () => {
    const { state, proxy, isServing } = await startAdmin()
    state.onRead = () => {
      state.config = { ...state.config, logging: {} }
      state.onRead = () => {}
    }
    proxy.open(() => router)
    await waitFor(isServing)
    expect(state.config.logging).toEqual({})
  })

  it('is configured, also in a version before 2.8', async () => {
    const { state, proxy, isServing, events } = await startAdmin({ refusesPermission: true })
    proxy.open(() => router)
    await waitFor(isServing)
    expect(state.config.apps!.tls!.automation!.on_demand).toEqual({ ask: router.certificateQuestion })
    await waitFor(() => events.length > 0)
    expect(events).toEqual(['public proxy configured'])
  })
})

describe('a certificate may be ordered', () => {
  const HOUR_MS = 3600_000
  function makeGate(pauses: Pauses = {}) {
    const state = { served: true, direction: 'here' as Direction, certified: false, now: 0, orders: 0, pauses }
    const gate = createCertificateGate({
      isServed: () => state.served,
      findDirection: async () => state.direction,
      hasCertificate: async () => {
        state.orders++
        return state.certified
      },
      pauses,
      storePauses: stored => {
        state.pauses = stored
      },
      now: () => state.now,
    })
    return { state, gate, mayOrder: () => gate.mayOrder('shop.example.com') }
  }

  it('only for a host that is served and leads to this machine', async () => {
    const { state, mayOrder } = makeGate()
    for (const [served, direction, isAllowed] of [
      [false, 'here', false],
      [true, 'elsewhere', false],
      [true, 'unknown', true],
    ] as const) {
      Object.assign(state, { served, direction })
      expect(await mayOrder(), `${served} ${direction}`).toBe(isAllowed)
    }
    expect(state.orders).toBe(1)
  })

  it('after a failure only with a growing pause, for each program that asks', async () => {
    const { state, mayOrder } = makeGate()
    for (const hours of [0, 1, 6, 24, 24]) {
      if (hours > 0) expect(await mayOrder()).toBe(false)
      state.now += hours * HOUR_MS
      expect(await mayOrder()).toBe(true)
    }
    expect(state.orders).toBe(5)
  })

  it('at any time for a host that has one, also after an order that failed before', async () => {
    const { state, mayOrder } = makeGate()
    await mayOrder()
    Object.assign(state, { now: HOUR_MS, certified: true })
    for (let time = 0; time < 5; time++) expect(await mayOrder()).toBe(true)
    expect(state.orders).toBe(2)
  })

  it('no sooner for a host whose deployment was created again, nor by another process', async () => {
    const { state, gate, mayOrder } = makeGate()
    const createAgain = () => {
      state.served = false
      gate.forgetUnserved()
      state.served = true
    }
    const asked = mayOrder()
    createAgain()
    expect(await asked).toBe(true)
    createAgain()
    expect([await mayOrder(), state.orders]).toEqual([false, 1])
    const { host, ...next } = { host: 'shop.example.com', ...makeGate(JSON.parse(JSON.stringify(state.pauses))) }
    expect(await next.mayOrder()).toBe(false)
    // The steps go on where they were.
    next.state.now = HOUR_MS
    expect(await next.mayOrder()).toBe(true)
    expect(next.state.pauses[host]).toEqual({ failures: 2, retryAt: 7 * HOUR_MS })
  })

  it('again at once for a host that was removed long ago, or that has got one', async () => {
    const { state, gate, mayOrder } = makeGate()
    await mayOrder()
    Object.assign(state, { now: 25 * HOUR_MS, served: false })
    gate.forgetUnserved()
    expect(state.pauses).toEqual({})
    Object.assign(state, { served: true, pauses: undefined })
    await mayOrder()
    expect(state.pauses).toMatchObject({ 'shop.example.com': { failures: 1 } })
    Object.assign(state, { now: 26 * HOUR_MS, certified: true })
    await mayOrder()
    expect(state.pauses).toEqual({})
  })
})

describe('the watch of custom hosts', () => {
  const host = 'shop.example.com'
  function makeWatch() {
    const state = { direction: 'here' as Direction, certificates: {}, now: 0, changes: 0, hosts: [host], lookups: 0 }
    const watch = new HostWatch({
      listHosts: () => state.hosts,
      readCertificates: async () => state.certificates,
      findDirection: async () => {
        state.lookups++
        return state.direction
      },
      onChange: () => state.changes++,
      now: () => state.now,
    })
    const look = async (minutes: number) => {
      state.now += minutes * 60_000
      await watch.look()
      return watch.read(host)
    }
    return { state, watch, look }
  }

  it('calls a host lost after the third lookup in a row, a minute apart, and found after one', async () => {
    const { state, look } = makeWatch()
    state.direction = 'elsewhere'
    expect([await look(0), await look(0), await look(1)]).toEqual([undefined, undefined, undefined])
    expect(await look(1)).toMatchObject({ leads_here: false, reason: expect.stringContaining(host) })
    state.direction = 'unknown'
    expect(await look(10)).toMatchObject({ leads_here: false })
    state.direction = 'here'
    expect(await look(1)).toMatchObject({ leads_here: false })
    expect(await look(9)).toEqual({ host, leads_here: true, certificate: null })
    state.direction = 'elsewhere'
    expect([await look(10), await look(1)]).toMatchObject([{ leads_here: true }, { leads_here: true }])
    expect([state.lookups, state.changes]).toEqual([7, 2])
  })

  it('knows the end of the last order until the next one ends, and nothing of a host that is gone', async () => {
    const { state, look, watch } = makeWatch()
    state.certificates = { [host]: 'failed', 'other.example.com': 'failed' }
    expect(await look(0)).toMatchObject({ certificate: 'failed', leads_here: true, reason: expect.any(String) })
    state.certificates = {}
    expect(await look(0)).toMatchObject({ certificate: 'failed' })
    state.certificates = { [host]: 'valid' }
    expect(await look(0)).toEqual({ host, certificate: 'valid', leads_here: true })
    expect(watch.read('other.example.com')).toBeUndefined()
    state.hosts = []
    expect(await look(0)).toBeUndefined()
  })

  it('reads of the gate which orders have ended, of hosts that are served', async () => {
    const served = new Set([host])
    const certified = Promise.withResolvers<boolean>()
    const gate = createCertificateGate({
      isServed: name => served.has(name),
      findDirection: async () => 'here',
      hasCertificate: () => certified.promise,
      pauses: { 'gone.example.com': { failures: 1, retryAt: 0 } },
    })
    await gate.mayOrder(host)
    expect(gate.certificates()).toEqual({})
    certified.resolve(false)
    await certified.promise
    await Promise.resolve()
    expect(gate.certificates()).toEqual({ [host]: 'failed' })
  })
})
