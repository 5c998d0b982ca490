// The process engine with real processes: rollouts, restarts, limits, failures, and replicas of an earlier agent.
import { spawnSync } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { RevisionRef, RevisionSpec } from '../../src/agent/engine.ts'
import type { Limits } from '../../src/agent/engines/local/limits.ts'
import { ProcessReplica } from '../../src/agent/engines/process/replica.ts'
import type { ProcessEngine, ProcessOptions } from '../../src/agent/engines/process.ts'
import { writeJson } from '../../src/agent/system/files.ts'
import { isAlive, signalGroup } from '../../src/agent/system/processes.ts'
import { spawnTracked } from '../../src/agent/system/tracked-process.ts'
import type { ProcessType } from '../../src/build-plan/build-plan.ts'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { withDefaults } from '../../src/protocol/resources.schema.ts'
import { filterRunning, waitFor } from '../support/commands.ts'
import {
  closeEngines,
  makeRevisionRef,
  makeServerCode,
  makeTempFolder,
  makeUnit,
  openEngine,
  requestRouter,
  startPolling,
  writeApplication,
} from '../support/process-engine.ts'

let home: string
let ref: RevisionRef

beforeEach(() => {
  home = makeTempFolder()
  ref = makeRevisionRef()
})
afterEach(async () => {
  await closeEngines()
  fs.rmSync(home, { recursive: true, force: true })
})

const open = (limits: Partial<Limits> = {}, options: Partial<ProcessOptions> = {}) =>
  openEngine(home, { ...options, limits })
const nextRevision = (): RevisionRef => ({ ...ref, revision_id: randomUUID() })
const findRunning = async (engine: ProcessEngine, { deployment_id, revision_id }: RevisionRef) =>
  (await engine.observe(deployment_id)).running.find(one => one.revision_id === revision_id)
const waitForPhase = (engine: ProcessEngine, revision: RevisionRef, phase: string) =>
  waitFor(async () => {
    const running = await findRunning(engine, revision)
    return running?.phase === phase ? running : undefined
  })
const urlOf = async (engine: ProcessEngine) => (await engine.observe(ref.deployment_id)).url!

test('the address without a name stays, and is another one once a program has taken its port', async () => {
  const serveAt = async (engine: ProcessEngine) => {
    await engine.start(makeUnit(ref), writeApplication(home, 'local', makeServerCode('local')))
    await waitForPhase(engine, ref, 'healthy')
    await engine.route(makeUnit(ref))
    const { local_url = '' } = await engine.observe(ref.deployment_id)
    expect(await (await fetch(local_url)).text()).toBe('local')
    return local_url
  }
  const { engine: first } = await open()
  const address = await serveAt(first)
  await first.close({ stop: false })
  const { engine: second } = await open()
  expect(await serveAt(second)).toBe(address)
  await second.close({ stop: true })
  const other = createServer().listen(Number(new URL(address).port), '127.0.0.1')
  onTestFinished(() => void other.close())
  await once(other, 'listening')
  const { engine: third, lines } = await open()
  const next = await serveAt(third)
  expect(next).not.toBe(address)
  expect(lines.filter(({ message }) => message.includes(new URL(address).port) && message.includes(next))).toHaveLength(
    1,
  )
})

describe('a rollout', () => {
  test('the old revision serves until the new one is healthy, and no request of a polling client fails', async () => {
    const { engine } = await open()
    const slow = `
const { createServer } = require('node:http')
const text = process.env.TEXT
const answer = (req, res) => req.url === '/slow' ? setTimeout(() => res.end(text), 300) : res.end(text)
createServer(answer).listen(process.env.PORT)
`
    const run = (one: RevisionRef, text: string) => {
      const resources = withDefaults({ min_scale: 2 }, 'dev')
      return engine.start(
        makeUnit(one, { resources, secrets: { TEXT: text } }),
        writeApplication(home, one.revision_id, slow),
      )
    }
    await run(ref, 'old')
    await waitForPhase(engine, ref, 'healthy')
    await engine.route(makeUnit(ref))
    const at = await urlOf(engine)
    expect(at).toMatch(/^http:\/\/shop\.localhost:\d+$/)

    const clients = ['/', '/slow', '/slow'].map(path => startPolling(at, { path, pause_ms: 5 }))
    for (const { stop } of clients) onTestFinished(stop)
    const second = nextRevision()
    await run(second, 'new')
    await waitForPhase(engine, second, 'healthy')
    await engine.route(makeUnit(second))
    expect((await requestRouter(at)).body).toBe('new')
    await engine.drain(ref)
    await waitForPhase(engine, ref, 'drained')
    await engine.stop(ref)
    const count = () => clients.reduce((sum, client) => sum + client.count('200 new'), 0)
    const before = count()
    await waitFor(() => count() > before + 20)
    for (const client of clients) {
      await client.stop()
      expect(client.responses().sort()).toEqual(['200 new', '200 old'])
    }
    expect((await engine.observe(ref.deployment_id)).running.map(one => one.revision_id)).toEqual([second.revision_id])
  })

  test('a request has as long to end as the deployment says, also with the next agent', async () => {
    const limits = { drain_ms: 0 }
    const { engine } = await open(limits)
    const unit = makeUnit(ref, { resources: withDefaults({ drain_seconds: 600 }, 'dev') })
    const signal = join(home, 'end')
    const code = `
const { existsSync } = require('node:fs')
const endLater = res => existsSync(${JSON.stringify(signal)}) ? res.end('whole') : setTimeout(endLater, 20, res)
const { createServer } = require('node:http')
let open = 0
const answer = (req, res) => req.url === '/long' ? (open++, endLater(res)) : res.end(String(open))
createServer(answer).listen(process.env.PORT)
`
    await engine.start(unit, writeApplication(home, 'app', code))
    await waitForPhase(engine, ref, 'healthy')
    await engine.route(unit)
    const at = await urlOf(engine)
    const long = requestRouter(at, '/long')
    await waitFor(async () => (await requestRouter(at, '/')).body === '1')
    await engine.drain(ref)
    expect((await findRunning(engine, ref))?.phase).toBe('draining')
    await engine.close({ stop: false })
    const { engine: next } = await open(limits)
    // It would have been drained at once, with the limit of the agent.
    expect((await findRunning(next, ref))?.phase).toBe('draining')
    fs.writeFileSync(signal, '')
    expect((await long).body).toBe('whole')
    await waitForPhase(next, ref, 'drained')
  })

  test('an application gets its own variables and none of the agent’s', async () => {
    const { engine } = await open()
    const code = `
const { createServer } = require('node:http')
createServer((req, res) => res.end(JSON.stringify({ env: process.env, cwd: process.cwd() }))).listen(process.env.PORT)
process.once('SIGTERM', () => process.exit())
`
    const secrets = { TOKEN: 'hush', LANG: 'C' }
    const artifact = writeApplication(home, 'env', code, { env: { MODE: 'x', TOKEN: 'no' } })
    await engine.start(makeUnit(ref, { secrets }), artifact)
    await waitForPhase(engine, ref, 'healthy')
    await engine.route(makeUnit(ref))
    const { env, cwd } = JSON.parse((await requestRouter(await urlOf(engine))).body)
    const { PORT, PATH, HOME, TMPDIR, NODE_COMPILE_CACHE, PWD: _, ...rest } = env
    expect(rest).toEqual({
      TOKEN: 'hush',
      MODE: 'x',
      LANG: 'C',
      SLIPWAY_DEPLOYMENT_NAME: 'shop',
      SLIPWAY_DEPLOYMENT_ID: ref.deployment_id,
      SLIPWAY_REVISION_ID: ref.revision_id,
      SLIPWAY_ROLE: 'web',
    })
    expect(Number(PORT)).toBeGreaterThan(0)
    expect(PATH).toContain('/usr/bin')
    for (const own of [HOME, TMPDIR]) expect(fs.realpathSync(own)).toContain(ref.revision_id)
    // The path of a socket has at most 103 bytes, and a folder of `tsx` in it has 26.
    for (const own of [HOME, TMPDIR]) expect(own.length - home.length).toBeLessThan(26)
    expect(cwd).toBe(artifact.location)
    // The next copy takes what this one has compiled.
    await engine.close({ stop: true })
    expect(fs.readdirSync(NODE_COMPILE_CACHE)).toHaveLength(1)
  })

  test('an application also answers at its custom_url, which may change while it serves', async () => {
    const { engine } = await open()
    await engine.start(makeUnit(ref), writeApplication(home, 'custom', makeServerCode('here')))
    await waitForPhase(engine, ref, 'healthy')
    await engine.route(makeUnit(ref, { custom_url: 'https://shop.example.com/app' }))
    const at = await urlOf(engine)
    const status = async (host: string, path: string) => (await requestRouter(at, path, { headers: { host } })).status
    expect(await status('shop.example.com', '/app/x?y')).toBe(200)
    expect(await status('shop.example.com', '/application')).toBe(404)
    for (const host of ['127.0.0.1:80', 'unknown.example.com', 'localhost'])
      expect(await status(host, '/app')).toBe(404)
    await engine.route(makeUnit(ref, { custom_url: 'other.example.com' }))
    expect(await status('shop.example.com', '/app')).toBe(404)
    expect(await status('other.example.com', '/')).toBe(200)
    await engine.route(makeUnit(ref, { custom_url: 'shop.123' }))
    expect(await status('other.example.com', '/')).toBe(404)
  })

  test('a protected deployment is closed at once, and stays so for an agent without its control plane', async () => {
    const hash = createHash('sha256').update('a token').digest('hex')
    const protection = { open_paths: ['/open'], bypasses: [{ kind: 'token' as const, hash, expires_at: null }] }
    const issuer = { issuer: 'https://slipway.example.com', url: 'https://slipway.example.com/in', keys: [] }
    const artifact = writeApplication(home, 'closed', makeServerCode('closed'))
    const statuses = async (engine: ProcessEngine) => {
      const { url, local_url } = await engine.observe(ref.deployment_id)
      const ask = async (path: string, headers = {}, from = local_url!) =>
        (await fetch(`${from}${path}`, { headers, redirect: 'manual' })).status
      const sent = await requestRouter(url!, '/')
      const browser = (await requestRouter(url!, '/', { headers: { Accept: 'text/html' } })).status
      return [
        sent.status,
        await ask('/'),
        await ask('/open'),
        await ask('/', { 'X-Slipway-Bypass': 'a token' }),
        browser,
      ]
    }
    const { engine } = await open()
    await engine.trustGrants(issuer)
    await engine.start(makeUnit(ref, { protection }), artifact)
    await waitForPhase(engine, ref, 'healthy')
    await engine.route(makeUnit(ref, { protection }))
    expect(await statuses(engine)).toEqual([401, 401, 200, 200, 302])
    await engine.close({ stop: false })
    const { engine: next } = await open()
    expect(await statuses(next)).toEqual([401, 401, 200, 200, 302])
    // Another router has to be told again.
    await next.close({ stop: false })
    const { engine: third } = await open({}, { trusted_proxies: ['10.0.0.1'] })
    expect(await statuses(third)).toEqual([401, 401, 200, 200, 302])
    await third.protect(ref.deployment_id, null)
    expect(await statuses(third)).toEqual([200, 200, 200, 200, 200])
    // A step or a job that began before knows nothing of it.
    await third.protect(ref.deployment_id, protection)
    await third.start(makeUnit(ref, { protection: null }), artifact)
    await third.route(makeUnit(ref, { protection: null }))
    const job = { id: 'job', command: 'true', timeout_seconds: 10, wasStarted: false }
    await third.runOnce(makeUnit(ref, { protection: null }), artifact, job, () => {}, new AbortController().signal)
    expect(await statuses(third)).toEqual([401, 401, 200, 200, 302])
  })

  test('a custom_url with the host of another deployment gets no requests of that deployment', async () => {
    const { engine } = await open()
    const other = makeRevisionRef()
    for (const [one, text] of [[ref, 'own'] as const, [other, 'other'] as const]) {
      await engine.start(makeUnit(one, { name: text }), writeApplication(home, text, makeServerCode(text)))
      await waitForPhase(engine, one, 'healthy')
    }
    await engine.route(makeUnit(ref, { name: 'own' }))
    for (const path of ['/', '/pay']) {
      await engine.route(makeUnit(other, { name: 'other', custom_url: `http://own.localhost${path}` }))
      expect((await requestRouter(await urlOf(engine), '/pay')).body).toBe('own')
    }
  })

  test('a custom host belongs to the workspace that used it first, until that one changes its custom_url', async () => {
    const { engine } = await open()
    const other = makeRevisionRef()
    const of = (one: RevisionRef, path: string) => ({
      name: `app-${one === ref}`,
      tenant_id: one === ref ? 'first' : 'second',
      custom_url: `https://shop.example.com${path}`,
    })
    const at = async () => {
      const { body, status } = await requestRouter(await urlOf(engine), '/pay', {
        headers: { host: 'shop.example.com' },
      })
      return status === 200 ? body : status
    }
    for (const [one, text, path] of [[ref, 'first', '/'] as const, [other, 'second', '/pay'] as const]) {
      await engine.start(makeUnit(one, of(one, path)), writeApplication(home, text, makeServerCode(text)))
      await waitForPhase(engine, one, 'healthy')
      await engine.route(makeUnit(one, of(one, path)))
    }
    expect(await at()).toBe('first')
    await engine.route(makeUnit(ref, { ...of(ref, '/'), custom_url: 'other.example.com' }))
    expect(await at()).toBe('second')
  })

  describe('below the domain of the applications', () => {
    const domain = 'apps.example.com'
    const serve = async (engine: ProcessEngine, one: RevisionRef, text: string, more: Partial<RevisionSpec> = {}) => {
      await engine.start(makeUnit(one, more), writeApplication(home, one.revision_id, makeServerCode(text)))
      await waitForPhase(engine, one, 'healthy')
      await engine.route(makeUnit(one, more))
    }
    const portOf = () => JSON.parse(fs.readFileSync(join(home, 'router.json'), 'utf8')).port
    const answerAt = async (host: string, path = '/') => {
      const { body, status } = await requestRouter(`http://127.0.0.1:${portOf()}`, path, { headers: { host } })
      return status === 200 ? body : status
    }

    test('a deployment is served and reported by its name, however the host is spelt', async () => {
      const { engine } = await open({}, { domain })
      await serve(engine, ref, 'shop')
      expect(await urlOf(engine)).toBe('https://shop.apps.example.com')
      for (const host of [
        'shop.apps.example.com',
        'SHOP.Apps.Example.com:443',
        'shop.apps.example.com.',
        'shop.localhost',
      ])
        expect(await answerAt(host), host).toBe('shop')
      for (const host of [
        'apps.example.com',
        'x.shop.apps.example.com',
        'shop.apps.example.com.evil.test',
        'shop.apps.example.org',
        'shopapps.example.com',
        '.apps.example.com',
        'shop',
        'shop.apps.example.com..',
      ])
        expect(await answerAt(host), host).toBe(404)
    })

    test('a name that another workspace has gets the suffix, and two names never share a host', async () => {
      const { engine } = await open({}, { domain })
      const other = { deployment_id: randomUUID(), revision_id: randomUUID() }
      const third = { deployment_id: randomUUID(), revision_id: randomUUID() }
      const suffixed = `shop-${third.deployment_id.slice(0, 8)}`
      await serve(engine, ref, 'first')
      // A name that looks like the suffix of a deployment to come.
      await serve(engine, other, 'second', { name: suffixed, tenant_id: 'second' })
      await serve(engine, third, 'third', { tenant_id: 'third' })
      const urls = await Promise.all(
        [ref, other, third].map(async one => (await engine.observe(one.deployment_id)).url!),
      )
      expect(new Set(urls).size).toBe(3)
      const answers = await Promise.all(urls.map(one => answerAt(new URL(one).host)))
      expect(answers).toEqual(['first', 'second', 'third'])
      expect(new URL(urls[2]!).hostname.split('.')[0]!.length).toBeLessThanOrEqual(63)
    })

    test('no custom_url takes a host of the domain', async () => {
      const { engine } = await open({}, { domain })
      const other = { deployment_id: randomUUID(), revision_id: randomUUID() }
      await serve(engine, ref, 'own')
      for (const custom_url of [
        'shop.apps.example.com',
        'https://shop.apps.example.com/pay',
        'free.apps.example.com',
      ]) {
        await serve(engine, { ...other, revision_id: randomUUID() }, 'other', { name: 'other', custom_url })
        expect(await answerAt('shop.apps.example.com', '/pay')).toBe('own')
        expect(await answerAt('free.apps.example.com')).toBe(404)
      }
    })

    test('an agent that gets the domain later serves existing deployments there too, at the same port', async () => {
      const { engine } = await open()
      await serve(engine, ref, 'shop')
      const port = portOf()
      await engine.close({ stop: false })
      const second = await open({}, { domain })
      await waitForPhase(second.engine, ref, 'healthy')
      expect([await answerAt('shop.apps.example.com'), portOf()]).toEqual(['shop', port])
    })
  })

  describe('a router that is killed', () => {
    const readRouter = () => JSON.parse(fs.readFileSync(join(home, 'router.json'), 'utf8'))
    /** No timer helps: only the end of the process does. */
    const withoutPolls = { usage_poll_ms: 3_600_000 }
    async function killAndWait(engine: ProcessEngine) {
      const at = await urlOf(engine)
      const { pid } = readRouter().identity
      process.kill(pid, 'SIGKILL')
      const answers = new Set<number | string>()
      await waitFor(async () => {
        const answer = await requestRouter(at).then(
          ({ status }) => status,
          error => error.code,
        )
        answers.add(answer)
        return answer === 200
      })
      expect(readRouter().identity.pid).not.toBe(pid)
      expect(await urlOf(engine)).toBe(at)
      return answers
    }

    test('is started again at once at the same port, also a second time', async () => {
      const { engine } = await open(withoutPolls)
      await engine.start(makeUnit(ref), writeApplication(home, 'found', makeServerCode('x')))
      await waitForPhase(engine, ref, 'healthy')
      await engine.route(makeUnit(ref))
      for (let time = 0; time < 2; time++)
        for (const answer of await killAndWait(engine)) expect([200, 'ECONNREFUSED', 'ECONNRESET']).toContain(answer)
    })

    test('is started again also if an earlier agent started it', async () => {
      const { engine } = await open(withoutPolls)
      await engine.start(makeUnit(ref), writeApplication(home, 'found', makeServerCode('x')))
      await waitForPhase(engine, ref, 'healthy')
      await engine.route(makeUnit(ref))
      const { pid } = readRouter().identity
      await engine.close({ stop: false })
      const second = await open(withoutPolls)
      expect(readRouter().identity.pid).toBe(pid)
      await waitForPhase(second.engine, ref, 'healthy')
      await killAndWait(second.engine)
    })
  })

  test('an agent with other proxies or another version replaces the router, which finishes its requests', async () => {
    const { engine } = await open()
    const code = `
import { createServer } from 'node:http'
createServer((req, res) => {
  if (req.url === '/slow') process.once('SIGUSR2', () => res.end('slow'))
  else res.end(req.headers['x-real-ip'] + ' ' + process.pid)
}).listen(process.env.PORT)
`
    await engine.start(makeUnit(ref), writeApplication(home, 'proxied', code))
    await waitForPhase(engine, ref, 'healthy')
    await engine.route(makeUnit(ref))
    const at = await urlOf(engine)
    const ask = async () => (await requestRouter(at, '/', { headers: { 'X-Forwarded-For': '198.51.100.7' } })).body
    const [address, pid] = (await ask()).split(' ')
    expect(address).toBe('127.0.0.1')
    const slow = requestRouter(at, '/slow')
    await waitFor(async () => Object.values(await inFlight()).includes(1))
    await engine.close({ stop: false })
    const second = await open({}, { trusted_proxies: ['127.0.0.1'] })
    await waitForPhase(second.engine, ref, 'healthy')
    expect(await urlOf(second.engine)).toBe(at)
    expect(await ask()).toBe(`198.51.100.7 ${pid}`)
    process.kill(Number(pid), 'SIGUSR2')
    expect((await slow).body).toBe('slow')
  })
  async function inFlight(): Promise<Record<string, number>> {
    const { control, token } = JSON.parse(fs.readFileSync(join(home, 'router.json'), 'utf8'))
    const answer = await fetch(`http://127.0.0.1:${control}/`, { headers: { Authorization: `Bearer ${token}` } })
    return (await answer.json()) as Record<string, number>
  }

  test('two deployments with the same name have different hosts', async () => {
    const { engine } = await open()
    const other = makeRevisionRef()
    for (const one of [ref, other])
      await engine.start(makeUnit(one), writeApplication(home, one.revision_id, makeServerCode('x')))
    const urls = await Promise.all([ref, other].map(async one => (await engine.observe(one.deployment_id)).url))
    expect(new Set(urls).size).toBe(2)
    expect(urls[1]).toContain(`shop-${other.deployment_id.slice(0, 8)}.localhost`)
  })

  test('the last request is observed rarely and after a restart, and health checks do not count', async () => {
    const { engine, changes } = await open({ usage_poll_ms: 100, usage_report_ms: 300 })
    await engine.start(makeUnit(ref), writeApplication(home, 'used', makeServerCode('x'), { health_path: '/' }))
    const lastRequest = async (of = engine) => (await of.observe(ref.deployment_id)).last_request_at
    await waitForPhase(engine, ref, 'healthy')
    expect(await lastRequest()).toBeUndefined()
    await engine.route(makeUnit(ref))
    const routedAt = (await lastRequest())!
    await waitFor(() => Date.now() > Date.parse(routedAt) + 400)
    expect(await lastRequest()).toBe(routedAt)

    const before = changes.length
    const at = await urlOf(engine)
    const since = Date.now()
    const client = startPolling(at)
    onTestFinished(client.stop)
    await waitFor(() => Date.now() > since + 1000)
    await client.stop()
    await waitFor(() => changes.length - before >= 2)
    // The first one at once, and then one per interval.
    expect(changes.length - before).toBeLessThanOrEqual(2 + (Date.now() - since) / 300)
    expect(Date.parse((await lastRequest())!)).toBeGreaterThanOrEqual(since)
    await engine.close({ stop: true })
    const last = await lastRequest()
    const second = await open()
    expect(await lastRequest(second.engine)).toBe(last)
  })

  test('a removed deployment leaves no route and no files', async () => {
    const { engine } = await open()
    await engine.start(makeUnit(ref), writeApplication(home, 'gone', makeServerCode('x')))
    await waitForPhase(engine, ref, 'healthy')
    await engine.route(makeUnit(ref))
    const at = await urlOf(engine)
    await engine.remove(ref.deployment_id)
    expect((await requestRouter(at)).status).toBe(404)
    expect(await engine.observe(ref.deployment_id)).toMatchObject({ running: [], hasRemains: false, routed: null })
    expect(await engine.deployments()).toEqual([])
  })
})

describe('a revision fails or is restarted', () => {
  test('if it never opens its port', async () => {
    const { engine } = await open({ ready_ms: 4_000 })
    await engine.start(
      makeUnit(ref),
      writeApplication(home, 'deaf', `console.log('listening, really'); setInterval(() => {}, 1e9)`),
    )
    const { reason } = await waitForPhase(engine, ref, 'failing')
    expect(reason).toContain('PORT')
    expect(reason).toContain('listening, really')
  })

  test('if it is not healthy within the time of its resource_spec', async () => {
    const { engine } = await open({ ready_ms: 60_000 })
    const resources = { ...withDefaults({}, 'dev'), health_timeout_seconds: 1 }
    await engine.start(makeUnit(ref, { resources }), writeApplication(home, 'late', 'setInterval(() => {}, 1e9)'))
    expect((await waitForPhase(engine, ref, 'failing')).reason).toMatch(/ 1 s.*`health_timeout_seconds`/)
  })

  test.runIf(process.platform === 'linux')('while it starts, if it listens on another port', async () => {
    const { engine, lines } = await open({ slow_ms: 60_000, wrong_port_ms: 0 })
    const port = await findFreePort()
    const code = `require('node:http').createServer((_, res) => res.end()).listen(${port})`
    await engine.start(makeUnit(ref), writeApplication(home, 'elsewhere', code))
    const running = await waitFor(async () => {
      const found = await findRunning(engine, ref)
      return found?.reason ? found : undefined
    })
    expect(running).toMatchObject({ phase: 'starting', reason: expect.stringMatching(`on ${port}, not on PORT \\d+`) })
    expect(lines).toContainEqual(expect.objectContaining({ level: 'WARNING' }))
  })

  test('if it crashes repeatedly, but not after a single crash', async () => {
    const { engine } = await open()
    await engine.start(makeUnit(ref), writeApplication(home, 'loop', `console.error('no such table'); process.exit(3)`))
    const { reason } = await waitForPhase(engine, ref, 'failing')
    expect(reason).toMatch(/^Crash loop.*code 3/)
    expect(reason).toContain('no such table')

    const once = nextRevision()
    const code = `
const { createServer } = require('node:http')
const { existsSync, writeFileSync } = require('node:fs')
if (!existsSync('crashed')) { writeFileSync('crashed', ''); process.exit(1) }
createServer((req, res) => res.end('up')).listen(process.env.PORT)
`
    await engine.start(makeUnit(once), writeApplication(home, 'once', code))
    await waitForPhase(engine, once, 'healthy')
  })

  test('if its health check fails, at the start or later', async () => {
    const { engine, lines } = await open({ ready_ms: 4_000 })
    const code = `
const { createServer } = require('node:http')
const { existsSync } = require('node:fs')
createServer((req, res) => { res.statusCode = existsSync('well') ? 200 : 500; res.end() }).listen(process.env.PORT)
`
    const sick = writeApplication(home, 'sick', code, { health_path: '/healthz' })
    await engine.start(makeUnit(ref), sick)
    expect((await waitForPhase(engine, ref, 'failing')).reason).toContain('GET /healthz answers 500')
    await engine.stop(ref)

    fs.writeFileSync(join(sick.location, 'well'), '')
    const later = nextRevision()
    await engine.start(makeUnit(later), sick)
    await waitForPhase(engine, later, 'healthy')
    fs.rmSync(join(sick.location, 'well'))
    expect((await waitForPhase(engine, later, 'unhealthy')).reason).toContain('3 times in a row')
    expect(lines.some(({ level }) => level === 'ERROR')).toBe(true)
    fs.writeFileSync(join(sick.location, 'well'), '')
    await waitForPhase(engine, later, 'healthy')
  })

  test('if it exceeds its memory limit', async () => {
    const { engine } = await open()
    const resources = { ...withDefaults({}, 'dev'), memory_limit_mb: 128 }
    const hungry = `const kept = []; setInterval(() => kept.push(Buffer.alloc(16e6, 1)), 5)`
    await engine.start(makeUnit(ref, { resources }), writeApplication(home, 'hungry', hungry))
    expect((await waitForPhase(engine, ref, 'failing')).reason).toMatch(/memory_limit_mb of 128/)
  })

  test('if it exceeds its disk limit', async () => {
    const { engine } = await open({ disk_mb: 4 })
    const code = `const { writeFileSync } = require('node:fs'); const { createServer } = require('node:http')
writeFileSync(process.env.TMPDIR + '/big', Buffer.alloc(8e6, 1)); setInterval(() => {}, 1e9)`
    await engine.start(makeUnit(ref), writeApplication(home, 'wide', code))
    expect((await waitForPhase(engine, ref, 'failing')).reason).toContain('disk limit of 4 MB')
  })

  test('after it filled its folders, with empty ones; a full source folder is detected too', async () => {
    const { engine, lines } = await open({ disk_mb: 4 })
    const code = (
      path: string,
    ) => `const { existsSync, writeFileSync } = require('node:fs'); const { createServer } = require('node:http')
createServer((_, res) => res.end('up')).listen(process.env.PORT)
if (!existsSync('filled')) setTimeout(() => writeFileSync(${path}, Buffer.alloc(12e6, 1)), 300)
writeFileSync('filled', '')`
    await engine.start(makeUnit(ref), writeApplication(home, 'once', code("process.env.TMPDIR + '/big'")))
    await waitForPhase(engine, ref, 'unhealthy')
    await waitForPhase(engine, ref, 'healthy')
    const killed = () => lines.filter(({ message }) => message.startsWith('Killed')).length
    const before = killed()
    const healthy = Date.now()
    await waitFor(() => Date.now() > healthy + 500)
    expect([before, killed()]).toEqual([1, 1])

    const other = nextRevision()
    await engine.start(makeUnit(other), writeApplication(home, 'inside', code("'big'")))
    await waitFor(() => lines.some(({ message }) => message.includes('in its source folder')))
  })

  test('a process that ignores SIGTERM is killed with its children', async () => {
    const { engine, lines } = await open({ stop_ms: 1_000 })
    const code = `
const { spawn } = require('node:child_process')
const { createServer } = require('node:http')
process.on('SIGTERM', () => console.log('no'))
const child = 'process.on("SIGTERM", () => {}); setInterval(() => {}, 1e9); console.log("child " + process.pid)'
spawn(process.execPath, ['-e', child], { stdio: 'inherit' })
createServer().listen(process.env.PORT)
`
    await engine.start(makeUnit(ref), writeApplication(home, 'stubborn', code))
    await waitForPhase(engine, ref, 'healthy')
    const child = await waitFor(() => lines.map(({ message }) => /^child (\d+)/.exec(message)?.[1]).find(Boolean))
    await engine.stop(ref)
    expect(filterRunning([Number(child)])).toEqual([])
    expect(lines.some(({ message }) => message === 'no')).toBe(true)
    expect((await engine.observe(ref.deployment_id)).running).toEqual([])
  })

  test.each(['node main.js', 'true; node main.js'])('`%s` gets time to stop gracefully', async start_command => {
    const { engine, lines } = await open()
    const code = `
const { createServer } = require('node:http')
const server = createServer().listen(process.env.PORT)
process.on('SIGTERM', () => setTimeout(() => { console.log('gracefully'); server.close() }, 200))
`
    await engine.start(makeUnit(ref), writeApplication(home, 'graceful', code, { start_command }))
    await waitForPhase(engine, ref, 'healthy')
    await engine.stop(ref)
    expect(lines.map(({ message }) => message)).toEqual(['gracefully'])
  })

  test('an unfinished line is logged after a while, and its rest once it is finished', async () => {
    const { engine, lines } = await open({ unfinished_line_ms: 50 })
    const code = `
import { createServer } from 'node:http'
process.stdout.write('first\\nPassword: ')
createServer((req, res) => { console.log('given'); res.end() }).listen(process.env.PORT)
`
    const messages = () => lines.map(({ message }) => message)
    await engine.start(makeUnit(ref), writeApplication(home, 'prompt', code))
    await waitForPhase(engine, ref, 'healthy')
    await waitFor(() => messages().includes('Password: '))
    await engine.route(makeUnit(ref))
    await requestRouter(await urlOf(engine))
    await waitFor(() => messages().includes('given'))
    expect(messages()).toEqual(['first', 'Password: ', 'given'])
  })

  test('lines of standard error are warnings unless they say their level, also to the next agent', async () => {
    const first = await open()
    const code = `
import { createServer } from 'node:http'
console.error('slow'); console.error('INFO ready'); console.log('ERROR broken'); console.log('fine')
process.stderr.write('half ')
createServer((req, res) => { console.error('answered'); res.end() }).listen(process.env.PORT)
`
    const artifact = writeApplication(home, 'levels', code)
    await first.engine.start(makeUnit(ref), artifact)
    await waitForPhase(first.engine, ref, 'healthy')
    await first.engine.route(makeUnit(ref))
    const shown = (lines: typeof first.lines) => lines.map(({ level, message }) => `${level} ${message}`).sort()
    await waitFor(() => first.lines.length >= 4)
    const expected = ['ERROR ERROR broken', 'INFO INFO ready', 'INFO fine', 'WARNING slow']
    expect(shown(first.lines).slice(0, 4)).toEqual(expected)
    await first.engine.close({ stop: false })
    const second = await open()
    await second.engine.start(makeUnit(ref), artifact)
    await second.engine.route(makeUnit(ref))
    await requestRouter(await urlOf(second.engine))
    const rest = () => second.lines.map(({ message }) => message).join('')
    await waitFor(() => rest().endsWith('answered'))
    expect(rest()).toBe('half answered')
    expect(second.lines.every(({ level }) => level === 'WARNING')).toBe(true)
    for (const { of } of [...first.lines, ...second.lines]) expect(of).toEqual({ ...ref, process: 'web' })
  })

  test('more copies than the operator allows are refused, and never started', async () => {
    const { engine } = await open({ copies: 2, disk_gi: 7 })
    const unitOf = (copies: number) => {
      const unit = makeUnit(ref)
      return { ...unit, resources: { ...unit.resources, min_scale: copies, max_scale: copies } }
    }
    expect(engine.policy).toMatchObject({ privileged: false, service_accounts: [], max_copies: 2, max_disk_gi: 7 })
    expect(engine.refusalReason(unitOf(2))).toBeNull()
    expect(engine.refusalReason(unitOf(999))).toMatch(/resource_spec\.min_scale.*AGENT_MAX_COPIES/)
    // An agent with a higher limit has accepted this revision.
    await engine.start(unitOf(999), writeApplication(home, 'copies', makeServerCode('copy')))
    await waitForPhase(engine, ref, 'healthy')
    expect((await engine.readUsage()).flatMap(({ copies }) => copies)).toHaveLength(2)
  })

  test('an image is refused with a reason', async () => {
    const { engine } = await open()
    expect(engine.refusalReason(makeUnit(ref, { source: 'internal_container' }))).toContain('container')
    expect(engine.refusalReason(makeUnit(ref))).toBeNull()
  })
})

async function runToEnd(lines: number, width: number) {
  const options = { command: `seq -f %0${width}.0f ${lines}`, cwd: home, env: { PATH: process.env.PATH! }, port: 1 }
  const replica = ProcessReplica.launch(join(home, 'copies'), options)
  await new Promise<void>(resolve => (replica.onExit = resolve))
  return replica
}

test('no line of a fast replica is lost, and its log file is truncated', async () => {
  const replica = await runToEnd(100_000, 150)
  const all: string[] = []
  for (let lines = replica.readLines(); lines.length > 0; lines = replica.readLines())
    all.push(...lines.map(({ text }) => text))
  expect([all.length, all.findIndex((line, i) => Number(line) !== i + 1)]).toEqual([100_000, -1])
  expect(fs.statSync(join(replica.folder, 'log')).size).toBe(0)
})

test('the last lines of a replica that ended are read', async () => {
  const all = (await runToEnd(7_500, 300)).readLines(true).map(({ text }) => text)
  expect([all.length, Number(all[0]), Number(all.at(-1))]).toEqual([7_500, 1, 7_500])
})

test.each([
  [500_000, 1],
  [100_000, 150],
  [10_000, 1_500],
])('the last of %i lines of %i characters are read, with a note that others were dropped', async (written, width) => {
  const [note, ...last] = (await runToEnd(written, width)).readLines(true).map(({ text }) => text)
  expect(Number(note)).toBeNaN()
  expect(last.length).toBeGreaterThan(5_000)
  expect(last.length).toBeLessThan(written)
  expect(last.findIndex((line, i) => Number(line) !== written - last.length + i + 1)).toBe(-1)
})

test('the exit code of a replica is known, also if its exit is checked before Node reports it', async () => {
  const options = { command: 'sleep 0.1; exit 3', cwd: home, env: { PATH: process.env.PATH! }, port: 1 }
  const replica = ProcessReplica.launch(join(home, 'copies'), options)
  const { identity } = replica
  const exited = new Promise<void>(resolve => (replica.onExit = resolve))
  // Blocks the event loop, so that the process ends before Node reports it.
  while (isAlive(identity!));
  replica.checkExit()
  expect(replica.endReason).toBeUndefined()
  await exited
  expect(replica.endReason).toBe('ended with code 3')
})

describe('after a restart of the agent', () => {
  const replicasFolder = () => join(home, 'process', ref.deployment_id, 'revisions', ref.revision_id, 'copies')
  /** A replica that the earlier agent left running. */
  function findReplica() {
    const folder = join(replicasFolder(), fs.readdirSync(replicasFolder())[0]!)
    return { folder, pid: JSON.parse(fs.readFileSync(join(folder, 'identity.json'), 'utf8')).pid as number }
  }
  const waitForEnd = (pid: number) => waitFor(() => filterRunning([pid]).length === 0)
  async function killReplica() {
    const { pid } = findReplica()
    process.kill(-pid, 'SIGKILL')
    await waitForEnd(pid)
  }
  /** Starts a revision, waits until it is healthy, and closes the engine without stopping the revision. */
  async function leaveRunning(name: string, code = makeServerCode('x'), unit = makeUnit(ref)) {
    const { engine, lines } = await open()
    await engine.start(unit, writeApplication(home, name, code))
    await waitForPhase(engine, ref, 'healthy')
    return { lines, close: () => engine.close({ stop: false }) }
  }

  test('replicas keep serving and are adopted without a second one, and restarted after a crash', async () => {
    const first = await open()
    const code = `
const { createServer } = require('node:http')
console.log('I am ' + process.pid)
const answer = (req, res) => req.url === '/die' ? process.exit(1) : res.end(String(process.pid))
createServer(answer).listen(process.env.PORT)
`
    const app = writeApplication(home, 'survivor', code)
    await first.engine.start(makeUnit(ref), app)
    await waitForPhase(first.engine, ref, 'healthy')
    await first.engine.route(makeUnit(ref))
    const at = await urlOf(first.engine)
    const { body: pid } = await requestRouter(at)
    await first.engine.close({ stop: false })
    expect((await requestRouter(at)).body).toBe(pid)

    const { engine, lines } = await open()
    expect((await findRunning(engine, ref))?.phase).toBe('healthy')
    expect(await urlOf(engine)).toBe(at)
    await engine.start(makeUnit(ref), app)
    expect((await requestRouter(at)).body).toBe(pid)
    await requestRouter(at, '/die').catch(() => {})
    const reborn = await waitFor(async () => {
      const { body, status } = await requestRouter(at)
      return status === 200 && body !== pid && body
    })
    await waitFor(() => lines.some(({ message }) => message === `I am ${reborn}`))
    // Lines that the first agent has read are not logged again.
    expect(lines.some(({ message }) => message === `I am ${pid}`)).toBe(false)
  })

  test.each([
    ['serves', true, true, 'healthy'],
    ['serves, without a stored health policy,', true, false, 'healthy'],
    ['was never healthy', false, true, 'starting'],
    ['was never healthy, without a stored health policy,', false, false, 'starting'],
  ])('a revision that %s has the same phase', async (_, routed, known, phase) => {
    const first = await open()
    const code = `
const { createServer } = require('node:http')
const statusOf = req => req.url === '/healthz' ? ${routed ? 200 : 503} : 200
const server = createServer((req, res) => res.writeHead(statusOf(req)).end())
server.listen(process.env.PORT, () => console.log('listens'))
`
    await first.engine.start(makeUnit(ref), writeApplication(home, 'judged', code, { health_path: '/healthz' }))
    await waitFor(() => first.lines.some(({ message }) => message === 'listens'))
    if (routed) await waitForPhase(first.engine, ref, 'healthy')
    if (routed) await first.engine.route(makeUnit(ref))
    await first.engine.close({ stop: false })
    if (!known) fs.rmSync(join(home, 'process', ref.deployment_id, 'revisions', ref.revision_id, 'known.json'))
    const { engine } = await open()
    expect((await findRunning(engine, ref))?.phase).toBe(phase)
  })

  test('a revision that lost a replica is not healthy until it has all of them, unless it serves', async () => {
    const unit = makeUnit(ref, { resources: withDefaults({ min_scale: 2 }, 'dev') })
    await (await leaveRunning('two', makeServerCode('x'), unit)).close()
    await killReplica()
    const second = await open()
    expect((await findRunning(second.engine, ref))?.phase).toBe('starting')
    await second.engine.route(unit)
    await second.engine.close({ stop: false })
    const { engine } = await open()
    expect((await findRunning(engine, ref))?.phase).toBe('healthy')
  })

  test('the children of an adopted replica end with it', async () => {
    const folder = join(replicasFolder(), 'left')
    writeJson(join(folder, 'copy.json'), { port: 1 })
    const env = { PATH: process.env.PATH!, SLIPWAY_REVISION_ID: ref.revision_id, OTHER: join(home, 'other') }
    // Nothing listens to its exit event, as for a child of another process.
    const { child } = spawnTracked(folder, ['sh', '-c', 'sleep 600 & echo $! > "$OTHER"; wait'], {
      env,
      stdio: 'ignore',
    })
    onTestFinished(() => void signalGroup(child.pid!, 'SIGKILL'))
    const other = Number(await waitFor(() => fs.existsSync(env.OTHER) && fs.readFileSync(env.OTHER, 'utf8')))
    const { lines } = await open()
    expect(filterRunning([child.pid!, other])).toHaveLength(2)
    child.kill('SIGKILL')
    await waitFor(() => lines.some(({ message }) => message.startsWith('Ended')))
    expect(filterRunning([other])).toEqual([])
  })

  test('lines that were written without an agent are logged, and no line twice', async () => {
    const code = `
const { createServer } = require('node:http')
console.log('first')
process.once('SIGTERM', () => { console.log('last'); process.stdout.write('words'); process.exit(1) })
createServer().listen(process.env.PORT)
`
    const first = await leaveRunning('words', code)
    await waitFor(() => first.lines.length > 0)
    await first.close()
    const { pid } = findReplica()
    process.kill(pid, 'SIGTERM')
    await waitForEnd(pid)
    const { lines } = await open()
    expect([...first.lines, ...lines].map(({ message }) => message)).toEqual(['first', 'last', 'words'])
  })

  test('a revision that ended without an agent is removed', async () => {
    await (await leaveRunning('short')).close()
    await killReplica()
    const { engine } = await open()
    expect((await engine.observe(ref.deployment_id)).running).toEqual([])
  })

  test('a replica that the killed agent had not recorded is found and ended', async () => {
    await (await leaveRunning('window')).close()
    const { folder, pid } = findReplica()
    fs.rmSync(join(folder, 'identity.json'))
    const { engine } = await open()
    expect((await engine.observe(ref.deployment_id)).running).toEqual([])
    expect(filterRunning([pid])).toEqual([])
  })
})

describe('the token for models', () => {
  const tokens = new Map<string, string>()
  const READER = `
const { createServer } = require('node:http')
const { readFileSync } = require('node:fs')
createServer((req, res) => {
  try { res.end(process.env.SLIPWAY_MODELS_URL + ' ' + readFileSync(process.env.SLIPWAY_MODEL_TOKEN_FILE, 'utf8')) }
  catch (error) { res.end(error.code ?? 'none') }
}).listen(process.env.PORT)`
  const openWithTokens = () => openEngine(home, {}, { modelToken: id => tokens.get(id) })
  const unit = (more: Partial<RevisionSpec> = {}) => makeUnit(ref, { models_url: 'http://models', ...more })

  test('is in a file that the application reads, and is replaced as a whole', async () => {
    const { engine } = await openWithTokens()
    await engine.start(unit(), writeApplication(home, 'app', READER))
    await waitForPhase(engine, ref, 'healthy')
    await engine.route(unit())
    const ask = async () => (await requestRouter(await urlOf(engine))).body
    expect(await ask()).toBe('ENOENT')
    tokens.set(ref.deployment_id, 'first')
    await engine.renewModelToken(ref.deployment_id)
    expect(await ask()).toBe('http://models first')
    const folder = join(home, 'process', ref.deployment_id, 'models')
    const file = fs.openSync(join(folder, 'token'), 'r')
    tokens.set(ref.deployment_id, 'second')
    await engine.renewModelToken(ref.deployment_id)
    expect([fs.readFileSync(file, 'utf8'), await ask()]).toEqual(['first', 'http://models second'])
    fs.closeSync(file)
    expect(fs.readdirSync(folder)).toEqual(['token'])
    const modeOf = (path: string) => fs.statSync(path).mode & 0o777
    expect([modeOf(join(folder, 'token')), modeOf(folder)]).toEqual([0o400, 0o700])
  })

  test('is masked from the beginning if an earlier agent wrote it', async () => {
    const { engine } = await openWithTokens()
    tokens.set(ref.deployment_id, 'eyJ.claims.signature')
    await engine.start(unit(), writeApplication(home, 'app', READER))
    await engine.close({ stop: false })
    const hidden: unknown[] = []
    await openEngine(home, {}, { hide: (...values) => void hidden.push(values) })
    expect(hidden).toContainEqual([ref.deployment_id, ['signature']])
  })

  test('is removed with the deployment, and a late renewal does not bring it back', async () => {
    const { engine } = await openWithTokens()
    tokens.set(ref.deployment_id, 'first')
    await engine.start(unit(), writeApplication(home, 'app', READER))
    await waitForPhase(engine, ref, 'healthy')
    await engine.remove(ref.deployment_id)
    await engine.renewModelToken(ref.deployment_id)
    expect(fs.existsSync(join(home, 'process', ref.deployment_id))).toBe(false)
  })

  test.runIf(process.getuid?.() === 0)('is readable by the user of its application alone', async () => {
    const user = { uid: 64_001, gid: 64_001 }
    const users = { isPerDeployment: true, of: () => user, forget: () => {} }
    const { engine } = await openEngine(home, { users }, { modelToken: id => tokens.get(id) })
    fs.chmodSync(home, 0o711)
    tokens.set(ref.deployment_id, 'first')
    await engine.start(unit(), writeApplication(home, 'app', READER))
    const folder = join(home, 'process', ref.deployment_id, 'models')
    const readAs = (uid: number) =>
      spawnSync('cat', [join(folder, 'token')], { uid, gid: uid, encoding: 'utf8' }).stdout
    expect([readAs(user.uid), readAs(64_002)]).toEqual(['first', ''])
    const { uid, gid, mode } = fs.statSync(join(folder, 'token'))
    expect([uid, gid, mode & 0o777]).toEqual([user.uid, user.gid, 0o400])
  })
})

describe('processes of other types', () => {
  const role = `const fs = require('node:fs'); const { SLIPWAY_ROLE, SLIPWAY_REVISION_ID } = process.env
const log = text => fs.appendFileSync(process.argv[2], \`\${text} \${SLIPWAY_ROLE} \${SLIPWAY_REVISION_ID}\\n\`)
log('start'); process.on('SIGTERM', () => { log('end'); process.exit() }); setInterval(() => {}, 1000)`
  const startWith = (engine: ProcessEngine, one: RevisionRef, processes: ProcessType[], more = {}) => {
    const artifact = writeApplication(home, one.revision_id, makeServerCode('web'), { processes, ...more })
    fs.writeFileSync(join(artifact.location, 'role.js'), role)
    return engine.start(makeUnit(one), artifact)
  }
  const worker = (file: string, more = {}): ProcessType => ({
    name: 'worker',
    command: `node role.js ${file}`,
    ...more,
  })
  const routed = (engine: ProcessEngine, one: RevisionRef) => engine.route(makeUnit(one))

  test('start once the requests go to their revision, after those of the revision before have ended', async () => {
    const { engine } = await open({ settle_ms: 100 })
    const file = join(home, 'roles')
    const seen = () => (fs.existsSync(file) ? fs.readFileSync(file, 'utf8').trim().split('\n') : [])
    await startWith(engine, ref, [worker(file)])
    await waitForPhase(engine, ref, 'healthy')
    expect(seen()).toEqual([])
    await routed(engine, ref)
    expect((await findRunning(engine, ref))?.phase).toBe('starting')
    await waitForPhase(engine, ref, 'healthy')
    const second = nextRevision()
    await startWith(engine, second, [worker(file)])
    await waitForPhase(engine, second, 'healthy')
    await routed(engine, second)
    await waitForPhase(engine, second, 'healthy')
    const [one, two] = [ref, second].map(({ revision_id }) => `worker ${revision_id}`)
    await waitFor(() => seen().length === 3)
    expect(seen()).toEqual([`start ${one}`, `end ${one}`, `start ${two}`])
    expect((await findRunning(engine, ref))?.phase).toBe('healthy')
    const usage = await engine.readUsage()
    const copies = usage
      .find(({ revision_id }) => revision_id === second.revision_id)
      ?.copies.map(({ copy, process }) => `${copy} ${process}`)
    expect(copies?.sort()).toEqual(['1 web', 'worker.1 worker'])
  })

  test('have as many copies as the deployment says, at once, and the next agent adopts them', async () => {
    const { engine: first, lines } = await open({ settle_ms: 100, copies: 3 })
    const file = join(home, 'roles')
    const starts = () => (fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('start').length - 1 : 0)
    const artifact = writeApplication(home, 'scaled', makeServerCode('web'), {
      processes: [worker(file, { scale: 5 })],
    })
    fs.writeFileSync(join(artifact.location, 'role.js'), role)
    const unit = (process_scale?: Record<string, number>) =>
      makeUnit(ref, { resources: withDefaults(process_scale ? { process_scale } : {}, 'dev') })
    await first.start(unit(), artifact)
    await waitForPhase(first, ref, 'healthy')
    await first.route(unit())
    await waitFor(() => starts() === 2)
    await waitForPhase(first, ref, 'healthy')
    expect(lines.some(({ message }) => message.includes('AGENT_MAX_COPIES'))).toBe(true)
    await first.close({ stop: false })
    const { engine: second } = await open({ settle_ms: 100 })
    expect((await findRunning(second, ref))?.phase).toBe('healthy')
    await second.start(unit({ worker: 3 }), artifact)
    await second.route(unit({ worker: 3 }))
    await waitFor(() => starts() === 3)
    await second.start(unit({ worker: 0 }), artifact)
    await second.route(unit({ worker: 0 }))
    await waitFor(() => fs.readFileSync(file, 'utf8').split('end').length - 1 === 3)
    expect(await findRunning(second, ref)).toMatchObject({
      phase: 'healthy',
      condition: { health: { state: 'healthy' } },
    })
  })

  test('make their revision fail if they never run, and are checked by their command', async () => {
    const { engine } = await open({ settle_ms: 100, crashes: 2, patience: 2, probe_ms: 50 })
    await startWith(engine, ref, [{ name: 'mail', command: 'echo no queue; exit 3' }])
    await waitForPhase(engine, ref, 'healthy')
    await routed(engine, ref)
    const failing = await waitForPhase(engine, ref, 'failing')
    expect(failing.reason).toMatch(/`mail`.*code 3/s)
    expect(failing.reason).toContain('no queue')
    expect(failing.condition?.health).toMatchObject({
      state: 'degraded',
      processes: [
        { name: 'web', state: 'healthy', reason: null },
        { name: 'mail', state: 'crash_looping', reason: expect.stringMatching(/code 3\.$/) },
      ],
    })
    const checked = nextRevision()
    const flag = join(home, 'flag')
    await startWith(engine, checked, [worker(join(home, 'roles'), { health_command: `test -e ${flag}` })])
    await routed(engine, checked)
    await waitForPhase(engine, checked, 'starting')
    fs.writeFileSync(flag, '')
    await waitForPhase(engine, checked, 'healthy')
    fs.rmSync(flag)
    expect((await waitForPhase(engine, checked, 'unhealthy')).reason).toContain('test -e')
  })

  test('run alone, without a URL', async () => {
    const { engine } = await open({ settle_ms: 100 })
    const file = join(home, 'roles')
    await startWith(engine, ref, [worker(file)], { isWithoutWeb: true, start_command: null })
    expect((await findRunning(engine, ref))?.phase).toBe('healthy')
    await routed(engine, ref)
    await waitFor(() => fs.existsSync(file))
    await waitForPhase(engine, ref, 'healthy')
    expect(await engine.observe(ref.deployment_id)).toMatchObject({ routed: ref.revision_id, url: null })
  })
})

describe('a command that runs once', () => {
  const run = (command: string, timeout_seconds = 30) => ({ id: randomUUID(), command, timeout_seconds })
  const never = new AbortController().signal

  test('gets the environment of its revision without PORT, and its exit code and lines are told', async () => {
    const { engine } = await open()
    const lines: string[] = []
    const code =
      'const { PORT, TOKEN, HOME } = process.env;' +
      "console.log(PORT, TOKEN, require('node:fs').realpathSync(HOME).includes('/runs/')); process.exit(3)"
    const artifact = writeApplication(home, 'once', code)
    const once = run('node main.js')
    const unit = makeUnit(ref, { secrets: { TOKEN: 'hush' } })
    const end = await engine.runOnce(unit, artifact, once, line => void lines.push(line), never)
    expect(end).toEqual({ exit_code: 3, reason: expect.any(String) })
    expect(lines).toEqual(['undefined hush true'])
    // Asked again, it is found and not run again.
    expect(await engine.runOnce(unit, artifact, once, line => void lines.push(line), never)).toEqual(end)
    expect(lines).toHaveLength(1)
    await engine.forgetRun(ref.deployment_id, once.id)
    expect(fs.readdirSync(join(home, 'process', ref.deployment_id, 'runs'))).toEqual([])
  })

  test('is found by the next agent while it runs and after its end, and runs one time', async () => {
    const { engine: first } = await open()
    const count = join(home, 'count')
    const gate = join(home, 'gate')
    const artifact = writeApplication(home, 'once', '')
    const waits = run(`echo ran >> ${count}; while [ ! -e ${gate} ]; do sleep 0.05; done; echo over; exit 7`)
    const ends = run('echo quick; exit 4')
    const lines: string[] = []
    const log = (line: string) => void lines.push(line)
    const closing = new AbortController()
    const waiting = first.runOnce(makeUnit(ref), artifact, waits, log, closing.signal)
    const ending = first.runOnce(makeUnit(ref), artifact, ends, log, never)
    await waitFor(() => fs.existsSync(count))
    await ending
    closing.abort(new Error('closed'))
    await expect(waiting).rejects.toThrow('closed')
    await first.close({ stop: false })

    const { engine: second } = await open()
    // The replicas of a revision end without it.
    await second.stop(ref)
    const again = second.runOnce(makeUnit(ref), artifact, waits, log, never)
    expect(await second.runOnce(makeUnit(ref), artifact, ends, log, never)).toMatchObject({ exit_code: 4 })
    fs.writeFileSync(gate, '')
    expect(await again).toMatchObject({ exit_code: 7 })
    expect(fs.readFileSync(count, 'utf8')).toBe('ran\n')
    expect(lines.sort()).toEqual(['over', 'quick'])
  })

  test('fills the disk neither with its output nor with files', async () => {
    const { engine } = await open({ disk_ms: 600_000, disk_mb: 300, space_ms: 50 })
    const artifact = writeApplication(home, 'once', '')
    const flood = run('for i in $(seq 30); do yes | head -c 10000000; sleep 0.1; done; exit 5')
    const log = join(home, 'process', ref.deployment_id, 'runs', flood.id, 'log')
    let largest = 0
    const flooding = engine.runOnce(makeUnit(ref), artifact, flood, () => {}, never)
    const measuring = setInterval(() => {
      largest = Math.max(largest, fs.statSync(log, { throwIfNoEntry: false })?.size ?? 0)
    }, 5)
    expect(await flooding).toMatchObject({ exit_code: 5 })
    clearInterval(measuring)
    expect(largest).toBeLessThan(290e6)
    const files = run('for i in $(seq 400); do head -c 5000000 /dev/zero > $HOME/$i; sleep 0.05; done')
    const end = await engine.runOnce(makeUnit(ref), artifact, files, () => {}, never)
    expect(end).toEqual({ exit_code: null, reason: expect.stringContaining('disk limit') })
  })

  test('is ended after its time, when it is forgotten, and when it uses too much memory', async () => {
    const { engine } = await open()
    const artifact = writeApplication(
      home,
      'once',
      'setInterval(() => {}, 1000); globalThis.a = Buffer.alloc(200e6, 1)',
    )
    const log = () => {}
    const late = engine.runOnce(makeUnit(ref), artifact, run('sleep 60', 1), log, never)
    const forgotten = run('sleep 60')
    const cancelled = engine.runOnce(makeUnit(ref), artifact, forgotten, log, never)
    const resources = withDefaults({ memory_limit_mb: 64, memory_mb: 64 }, 'dev')
    const large = engine.runOnce(makeUnit(ref, { resources }), artifact, run('node main.js'), log, never)
    await waitFor(() => fs.existsSync(join(home, 'process', ref.deployment_id, 'runs', forgotten.id, 'identity.json')))
    await engine.forgetRun(ref.deployment_id, forgotten.id)
    for (const end of [late, cancelled, large])
      expect(await end).toEqual({ exit_code: null, reason: expect.stringMatching(/./) })
    await engine.remove(ref.deployment_id)
    expect(fs.existsSync(join(home, 'process', ref.deployment_id))).toBe(false)
  })
})
