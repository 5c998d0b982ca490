// The process engine with real processes: rollouts, restarts, limits, failures, and what an agent that was killed left.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { EngineObservation, RevisionRef, RevisionSpec } from '../../src/agent/engines/engine.ts'
import { ProcessReplica } from '../../src/agent/engines/process/replica.ts'
import type { ProcessEngine, ProcessOptions } from '../../src/agent/engines/process.ts'
import { writeJson } from '../../src/agent/system/files.ts'
import { isAlive, signalGroup } from '../../src/agent/system/processes.ts'
import { spawnTracked } from '../../src/agent/system/tracked-process.ts'
import { withDefaults } from '../../src/protocol/resources.schema.ts'
import { filterRunning, waitFor } from '../support/commands.ts'
import {
  makeServerCode,
  makeTempFolder,
  makeUnit,
  openEngine,
  requestRouter,
  writeApplication,
} from '../support/process-engine.ts'

let home: string
let started: ProcessEngine[]
let ref: RevisionRef

beforeEach(() => {
  home = makeTempFolder()
  started = []
  ref = { deployment_id: randomUUID(), revision_id: randomUUID() }
})
afterEach(async () => {
  for (const engine of started) await engine.close({ stop: true })
  fs.rmSync(home, { recursive: true, force: true })
})

async function open(limits = {}, options: Partial<ProcessOptions> = {}) {
  const opened = await openEngine(home, limits, options)
  started.push(opened.engine)
  return opened
}
const next = (): RevisionRef => ({ ...ref, revision_id: randomUUID() })
const of = (seen: EngineObservation, { revision_id }: RevisionRef) =>
  seen.running.find(one => one.revision_id === revision_id)
const until = (engine: ProcessEngine, one: RevisionRef, phase: string) =>
  waitFor(async () => {
    const running = of(await engine.observe(one.deployment_id), one)
    return running?.phase === phase ? running : undefined
  })
const url = async (engine: ProcessEngine) => (await engine.observe(ref.deployment_id)).url!

describe('a rollout', () => {
  test('runs beside, switches, drains, stops; a client that polls through it sees not one failure', async () => {
    const { engine } = await open()
    const slow = `
import { createServer } from 'node:http'
const text = process.env.TEXT
createServer((req, res) => req.url === '/slow' ? setTimeout(() => res.end(text), 300) : res.end(text)).listen(process.env.PORT)
`
    const run = (one: RevisionRef, text: string) => {
      const resources = withDefaults({ min_scale: 2 }, 'dev')
      return engine.start(
        makeUnit(one, { resources, secrets: { TEXT: text } }),
        writeApplication(home, one.revision_id, slow),
      )
    }
    await run(ref, 'old')
    await until(engine, ref, 'healthy')
    await engine.route(makeUnit(ref))
    const at = await url(engine)
    expect(at).toMatch(/^http:\/\/shop\.localhost:\d+$/)

    const said = new Map<string, number>()
    let polling = true
    onTestFinished(() => {
      polling = false
    })
    const poll = async (path: string) => {
      while (polling) {
        const answer = await requestRouter(at, path).then(
          ({ status, body }) => `${status} ${body}`,
          error => `failed: ${error.message}`,
        )
        said.set(answer, (said.get(answer) ?? 0) + 1)
      }
    }
    const clients = ['/', '/', '/slow', '/slow'].map(poll)
    const second = next()
    await run(second, 'new')
    await until(engine, second, 'healthy')
    await engine.route(makeUnit(second))
    expect((await requestRouter(at)).body).toBe('new')
    await engine.drain(ref)
    await until(engine, ref, 'drained')
    await engine.stop(ref)
    const before = said.get('200 new') ?? 0
    await waitFor(() => (said.get('200 new') ?? 0) > before + 20)
    polling = false
    await Promise.all(clients)
    expect([...said.keys()].sort()).toEqual(['200 new', '200 old'])
    expect((await engine.observe(ref.deployment_id)).running.map(one => one.revision_id)).toEqual([second.revision_id])
  })

  test('an application sees its own environment, and nothing of ours', async () => {
    const { engine } = await open()
    const code = `
import { createServer } from 'node:http'
createServer((req, res) => res.end(JSON.stringify({ env: process.env, cwd: process.cwd() }))).listen(process.env.PORT)
`
    const secrets = { TOKEN: 'hush', LANG: 'C' }
    await engine.start(
      makeUnit(ref, { secrets }),
      writeApplication(home, 'env', code, { env: { MODE: 'x', TOKEN: 'no' } }),
    )
    await until(engine, ref, 'healthy')
    await engine.route(makeUnit(ref))
    const { env, cwd } = JSON.parse((await requestRouter(await url(engine))).body)
    const { PORT, PATH, HOME, TMPDIR, PWD: _, ...rest } = env
    expect(rest).toEqual({
      ...{ TOKEN: 'hush', MODE: 'x', LANG: 'C', SLIPWAY_DEPLOYMENT_NAME: 'shop' },
      ...{ SLIPWAY_DEPLOYMENT_ID: ref.deployment_id, SLIPWAY_REVISION_ID: ref.revision_id },
    })
    expect(Number(PORT)).toBeGreaterThan(0)
    expect(PATH).toContain('/usr/bin')
    for (const own of [HOME, TMPDIR]) expect(own).toContain(ref.revision_id)
    expect(cwd).toBe(join(home, 'apps/env'))
  })

  test('is reached at its custom_url too, which may change under it', async () => {
    const { engine } = await open()
    await engine.start(makeUnit(ref), writeApplication(home, 'custom', makeServerCode('here')))
    await until(engine, ref, 'healthy')
    await engine.route(makeUnit(ref, { custom_url: 'https://shop.example.com/app' }))
    const at = await url(engine)
    const status = async (host: string, path: string) => (await requestRouter(at, path, { headers: { host } })).status
    expect(await status('shop.example.com', '/app/x?y')).toBe(200)
    expect(await status('shop.example.com', '/application')).toBe(404)
    // Nobody gets what is asked of any other name.
    for (const host of ['127.0.0.1:80', 'unknown.example.com', 'localhost'])
      expect(await status(host, '/app')).toBe(404)
    await engine.route(makeUnit(ref, { custom_url: 'other.example.com' }))
    expect(await status('shop.example.com', '/app')).toBe(404)
    expect(await status('other.example.com', '/')).toBe(200)
    await engine.route(makeUnit(ref, { custom_url: 'shop.123' }))
    expect(await status('other.example.com', '/')).toBe(404)
  })

  test('naming another one’s host as its custom_url gets it nothing that is asked of that one', async () => {
    const { engine } = await open()
    const other = { deployment_id: randomUUID(), revision_id: randomUUID() }
    for (const [one, text] of [[ref, 'own'] as const, [other, 'other'] as const]) {
      await engine.start(makeUnit(one, { name: text }), writeApplication(home, text, makeServerCode(text)))
      await until(engine, one, 'healthy')
    }
    await engine.route(makeUnit(ref, { name: 'own' }))
    for (const path of ['/', '/pay']) {
      await engine.route(makeUnit(other, { name: 'other', custom_url: `http://own.localhost${path}` }))
      expect((await requestRouter(await url(engine), '/pay')).body).toBe('own')
    }
  })

  test('a custom host stays with the workspace that has it first, until that one is gone', async () => {
    const { engine } = await open()
    const other = { deployment_id: randomUUID(), revision_id: randomUUID() }
    const of = (one: RevisionRef, path: string) => ({
      name: `app-${one === ref}`,
      tenant_id: one === ref ? 'first' : 'second',
      custom_url: `https://shop.example.com${path}`,
    })
    const at = async () => {
      const { body, status } = await requestRouter(await url(engine), '/pay', { headers: { host: 'shop.example.com' } })
      return status === 200 ? body : status
    }
    for (const [one, text, path] of [[ref, 'first', '/'] as const, [other, 'second', '/pay'] as const]) {
      await engine.start(makeUnit(one, of(one, path)), writeApplication(home, text, makeServerCode(text)))
      await until(engine, one, 'healthy')
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
      await until(engine, one, 'healthy')
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
      expect(await url(engine)).toBe('https://shop.apps.example.com')
      for (const host of [
        'shop.apps.example.com',
        'SHOP.Apps.Example.com:443',
        'shop.apps.example.com.',
        'shop.localhost',
      ])
        expect(await answerAt(host), host).toBe('shop')
      for (const host of [
        ...['apps.example.com', 'x.shop.apps.example.com', 'shop.apps.example.com.evil.test', 'shop.apps.example.org'],
        ...['shopapps.example.com', '.apps.example.com', 'shop', 'shop.apps.example.com..'],
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

    test('an agent that is given the domain later serves what it finds there too, at the same port', async () => {
      const { engine } = await open()
      await serve(engine, ref, 'shop')
      const port = portOf()
      await engine.close({ stop: false })
      const second = await open({}, { domain })
      await until(second.engine, ref, 'healthy')
      expect([await answerAt('shop.apps.example.com'), portOf()]).toEqual(['shop', port])
    })
  })

  describe('a router that is killed', () => {
    const readRouter = () => JSON.parse(fs.readFileSync(join(home, 'router.json'), 'utf8'))
    /** No timer helps: only the end of the process does. */
    const withoutPolls = { usage_poll_ms: 3_600_000 }
    async function killAndWait(engine: ProcessEngine) {
      const at = await url(engine)
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
      expect(await url(engine)).toBe(at)
      return answers
    }

    test('is started again at once at the same port, also a second time', async () => {
      const { engine } = await open(withoutPolls)
      await engine.start(makeUnit(ref), writeApplication(home, 'found', makeServerCode('x')))
      await until(engine, ref, 'healthy')
      await engine.route(makeUnit(ref))
      for (let time = 0; time < 2; time++)
        for (const answer of await killAndWait(engine)) expect([200, 'ECONNREFUSED', 'ECONNRESET']).toContain(answer)
    })

    test('is started again also if an earlier agent started it', async () => {
      const { engine } = await open(withoutPolls)
      await engine.start(makeUnit(ref), writeApplication(home, 'found', makeServerCode('x')))
      await until(engine, ref, 'healthy')
      await engine.route(makeUnit(ref))
      const { pid } = readRouter().identity
      await engine.close({ stop: false })
      const second = await open(withoutPolls)
      expect(readRouter().identity.pid).toBe(pid)
      await until(second.engine, ref, 'healthy')
      await killAndWait(second.engine)
    })
  })

  test('an agent with other proxies or another version replaces the router, which answers what it has first', async () => {
    const { engine } = await open()
    const code = `
import { createServer } from 'node:http'
createServer((req, res) => {
  if (req.url === '/slow') process.once('SIGUSR2', () => res.end('slow'))
  else res.end(req.headers['x-real-ip'] + ' ' + process.pid)
}).listen(process.env.PORT)
`
    await engine.start(makeUnit(ref), writeApplication(home, 'proxied', code))
    await until(engine, ref, 'healthy')
    await engine.route(makeUnit(ref))
    const at = await url(engine)
    const ask = async () => (await requestRouter(at, '/', { headers: { 'X-Forwarded-For': '198.51.100.7' } })).body
    const [address, pid] = (await ask()).split(' ')
    expect(address).toBe('127.0.0.1')
    const slow = requestRouter(at, '/slow')
    await waitFor(async () => Object.values(await inFlight()).includes(1))
    await engine.close({ stop: false })
    const second = await open({}, { trusted_proxies: ['127.0.0.1'] })
    await until(second.engine, ref, 'healthy')
    expect(await url(second.engine)).toBe(at)
    expect(await ask()).toBe(`198.51.100.7 ${pid}`)
    process.kill(Number(pid), 'SIGUSR2')
    expect((await slow).body).toBe('slow')
  })
  async function inFlight(): Promise<Record<string, number>> {
    const { control, token } = JSON.parse(fs.readFileSync(join(home, 'router.json'), 'utf8'))
    const answer = await fetch(`http://127.0.0.1:${control}/`, { headers: { Authorization: `Bearer ${token}` } })
    return (await answer.json()) as Record<string, number>
  }

  test('two deployments of one name have two addresses', async () => {
    const { engine } = await open()
    const other = { deployment_id: randomUUID(), revision_id: randomUUID() }
    for (const one of [ref, other])
      await engine.start(makeUnit(one), writeApplication(home, one.revision_id, makeServerCode('x')))
    const urls = await Promise.all([ref, other].map(async one => (await engine.observe(one.deployment_id)).url))
    expect(new Set(urls).size).toBe(2)
    expect(urls[1]).toContain(`shop-${other.deployment_id.slice(0, 8)}.localhost`)
  })

  test('when it was last used is known to whoever observes it, coarsely, and after a restart; a health check is no use', async () => {
    const { engine, changes } = await open({ usage_poll_ms: 25, usage_report_ms: 300 })
    await engine.start(makeUnit(ref), writeApplication(home, 'used', makeServerCode('x'), { health_path: '/' }))
    const used = async (one = engine) => (await one.observe(ref.deployment_id)).last_request_at
    await until(engine, ref, 'healthy')
    expect(await used()).toBeUndefined()
    await engine.route(makeUnit(ref))
    const counted = (await used())!
    await waitFor(() => Date.now() > Date.parse(counted) + 400)
    expect(await used()).toBe(counted)

    const before = changes.length
    const at = await url(engine)
    const asking = Date.now()
    while (Date.now() < asking + 1000) await requestRouter(at)
    await waitFor(() => changes.length - before >= 2)
    // The first use at once, and then a few in all: not one for each request.
    expect(changes.length - before).toBeLessThanOrEqual(2 + (Date.now() - asking) / 300)
    expect(Date.parse((await used())!)).toBeGreaterThanOrEqual(asking)
    await engine.close({ stop: true })
    const last = await used()
    const second = await open()
    expect(await used(second.engine)).toBe(last)
  })

  test('a removed deployment leaves nothing', async () => {
    const { engine } = await open()
    await engine.start(makeUnit(ref), writeApplication(home, 'gone', makeServerCode('x')))
    await until(engine, ref, 'healthy')
    await engine.route(makeUnit(ref))
    const at = await url(engine)
    await engine.remove(ref.deployment_id)
    expect((await requestRouter(at)).status).toBe(404)
    expect(await engine.observe(ref.deployment_id)).toMatchObject({ running: [], hasRemains: false, routed: null })
    expect(await engine.deployments()).toEqual([])
  })
})

describe('failures', () => {
  test('a port that is never opened', async () => {
    const { engine } = await open({ ready_ms: 4_000 })
    await engine.start(
      makeUnit(ref),
      writeApplication(home, 'deaf', `console.log('listening, really'); setInterval(() => {}, 9e9)`),
    )
    const { reason } = await until(engine, ref, 'failing')
    expect(reason).toContain('PORT')
    expect(reason).toContain('listening, really')
  })

  test('a crash loop, told apart from a single crash', async () => {
    const { engine } = await open()
    await engine.start(makeUnit(ref), writeApplication(home, 'loop', `console.error('no such table'); process.exit(3)`))
    const { reason } = await until(engine, ref, 'failing')
    expect(reason).toMatch(/^Crash loop.*code 3/)
    expect(reason).toContain('no such table')

    const once = next()
    const code = `
import { createServer } from 'node:http'
import { existsSync, writeFileSync } from 'node:fs'
if (!existsSync('crashed')) { writeFileSync('crashed', ''); process.exit(1) }
createServer((req, res) => res.end('up')).listen(process.env.PORT)
`
    await engine.start(makeUnit(once), writeApplication(home, 'once', code))
    await until(engine, once, 'healthy')
  })

  test('a health check that fails, at the start and later', async () => {
    const { engine, lines } = await open({ ready_ms: 4_000 })
    const code = `
import { createServer } from 'node:http'
import { existsSync } from 'node:fs'
createServer((req, res) => { res.statusCode = existsSync('well') ? 200 : 500; res.end() }).listen(process.env.PORT)
`
    const sick = writeApplication(home, 'sick', code, { health_path: '/healthz' })
    await engine.start(makeUnit(ref), sick)
    expect((await until(engine, ref, 'failing')).reason).toContain('GET /healthz answers 500')
    await engine.stop(ref)

    fs.writeFileSync(join(sick.location, 'well'), '')
    const later = next()
    await engine.start(makeUnit(later), sick)
    await until(engine, later, 'healthy')
    fs.rmSync(join(sick.location, 'well'))
    expect((await until(engine, later, 'unhealthy')).reason).toContain('3 times in a row')
    expect(lines.some(({ level }) => level === 'ERROR')).toBe(true)
    fs.writeFileSync(join(sick.location, 'well'), '')
    await until(engine, later, 'healthy')
  })

  test('more memory than it may have', async () => {
    const { engine } = await open()
    const resources = { ...withDefaults({}, 'dev'), memory_limit_mb: 128 }
    const hungry = `const kept = []; setInterval(() => kept.push(Buffer.alloc(16e6, 1)), 5)`
    await engine.start(makeUnit(ref, { resources }), writeApplication(home, 'hungry', hungry))
    expect((await until(engine, ref, 'failing')).reason).toMatch(/memory_limit_mb of 128/)
  })

  test('more on disk than it may have', async () => {
    const { engine } = await open({ disk_mb: 4 })
    const code = `import { writeFileSync } from 'node:fs'; import { createServer } from 'node:http'
writeFileSync(process.env.TMPDIR + '/big', Buffer.alloc(8e6, 1)); setInterval(() => {}, 9e9)`
    await engine.start(makeUnit(ref), writeApplication(home, 'wide', code))
    expect((await until(engine, ref, 'failing')).reason).toContain('disk limit of 4 MB')
  })

  test('one that filled its folders is started again with empty ones; one that fills its source is seen, too', async () => {
    const { engine, lines } = await open({ disk_mb: 4 })
    const code = (
      path: string,
    ) => `import { existsSync, writeFileSync } from 'node:fs'; import { createServer } from 'node:http'
createServer((_, res) => res.end('up')).listen(process.env.PORT)
if (!existsSync('filled')) setTimeout(() => writeFileSync(${path}, Buffer.alloc(12e6, 1)), 300)
writeFileSync('filled', '')`
    await engine.start(makeUnit(ref), writeApplication(home, 'once', code("process.env.TMPDIR + '/big'")))
    await until(engine, ref, 'unhealthy')
    await until(engine, ref, 'healthy')
    const killed = () => lines.filter(({ message }) => message.startsWith('Killed')).length
    const before = killed()
    const healthy = Date.now()
    await waitFor(() => Date.now() > healthy + 500)
    expect([before, killed()]).toEqual([1, 1])

    const other = next()
    await engine.start(makeUnit(other), writeApplication(home, 'inside', code("'big'")))
    await waitFor(() => lines.some(({ message }) => message.includes('in its source folder')))
  })

  test('one that does not want to end is made to, with all that it started', async () => {
    const { engine, lines } = await open({ stop_ms: 1_000 })
    const code = `
import { spawn } from 'node:child_process'
import { createServer } from 'node:http'
process.on('SIGTERM', () => console.log('no'))
spawn(process.execPath, ['-e', 'process.on("SIGTERM", () => {}); setInterval(() => {}, 9e9); console.log("child " + process.pid)'], { stdio: 'inherit' })
createServer().listen(process.env.PORT)
`
    await engine.start(makeUnit(ref), writeApplication(home, 'stubborn', code))
    await until(engine, ref, 'healthy')
    const child = await waitFor(() => lines.map(({ message }) => /^child (\d+)/.exec(message)?.[1]).find(Boolean))
    await engine.stop(ref)
    expect(filterRunning([Number(child)])).toEqual([])
    expect(lines.some(({ message }) => message === 'no')).toBe(true)
    expect((await engine.observe(ref.deployment_id)).running).toEqual([])
  })

  test.each(['node main.mjs', 'true; node main.mjs'])('`%s` may take its time to end', async start_command => {
    const { engine, lines } = await open()
    const code = `
import { createServer } from 'node:http'
const server = createServer().listen(process.env.PORT)
process.on('SIGTERM', () => setTimeout(() => { console.log('gracefully'); server.close() }, 200))
`
    await engine.start(makeUnit(ref), writeApplication(home, 'graceful', code, { start_command }))
    await until(engine, ref, 'healthy')
    await engine.stop(ref)
    expect(lines.map(({ message }) => message)).toEqual(['gracefully'])
  })

  test('an image is refused with a reason', async () => {
    const { engine } = await open()
    expect(engine.refusalReason(makeUnit(ref, { source: 'internal_container' }))).toContain('container')
    expect(engine.refusalReason(makeUnit(ref))).toBeNull()
  })
})

async function wrote(lines: number, width: number) {
  const how = { command: `seq -f %0${width}.0f ${lines}`, cwd: home, env: { PATH: process.env.PATH! }, port: 1 }
  const copy = ProcessReplica.launch(join(home, 'copies'), how)
  await new Promise<void>(resolve => (copy.onExit = resolve))
  return copy
}

test('of what a copy wrote faster than it was read nothing is lost, and its log does not grow for ever', async () => {
  const copy = await wrote(100_000, 150)
  const told: string[] = []
  for (let lines = copy.readLines(); lines.length > 0; lines = copy.readLines()) told.push(...lines)
  expect([told.length, told.findIndex((line, i) => Number(line) !== i + 1)]).toEqual([100_000, -1])
  expect(fs.statSync(join(copy.folder, 'log')).size).toBe(0)
})

test('what a copy wrote before it ended is told to its last line', async () => {
  const all = (await wrote(7_500, 300)).readLines(true)
  expect([all.length, Number(all[0]), Number(all.at(-1))]).toEqual([7_500, 1, 7_500])
})

test.each([
  [500_000, 1],
  [100_000, 150],
  [10_000, 1_500],
])('of %i lines of %i characters the last are told, and that others are not', async (most, width) => {
  const [leftOut, ...last] = (await wrote(most, width)).readLines(true)
  expect(Number(leftOut)).toBeNaN()
  expect(last.length).toBeGreaterThan(5_000)
  expect(last.length).toBeLessThan(most)
  expect(last.findIndex((line, i) => Number(line) !== most - last.length + i + 1)).toBe(-1)
})

test('how a copy ended is told by itself, however early somebody looks', async () => {
  const how = { command: 'sleep 0.1; exit 3', cwd: home, env: { PATH: process.env.PATH! }, port: 1 }
  const copy = ProcessReplica.launch(join(home, 'copies'), how)
  const { identity } = copy
  const told = new Promise<void>(resolve => (copy.onExit = resolve))
  // Without a turn of the event loop: it has ended, and nobody has been told yet.
  while (isAlive(identity!));
  copy.checkExit()
  expect(copy.endReason).toBeUndefined()
  await told
  expect(copy.endReason).toBe('ended with code 3')
})

describe('after the agent was killed', () => {
  /** One of the copies that it left, with all that it started. */
  const killOne = async () => {
    const copies = join(home, 'process', ref.deployment_id, 'revisions', ref.revision_id, 'copies')
    const [copy] = fs.readdirSync(copies)
    const { pid } = JSON.parse(fs.readFileSync(join(copies, copy!, 'identity.json'), 'utf8'))
    process.kill(-pid, 'SIGKILL')
    await waitFor(() => filterRunning([pid]).length === 0)
  }

  test('copies serve on, are taken over without a second one, and started again by the new one', async () => {
    const first = await open()
    const code = `
import { createServer } from 'node:http'
console.log('I am ' + process.pid)
createServer((req, res) => { if (req.url === '/die') process.exit(1); res.end(String(process.pid)) }).listen(process.env.PORT)
`
    const app = writeApplication(home, 'survivor', code)
    await first.engine.start(makeUnit(ref), app)
    await until(first.engine, ref, 'healthy')
    await first.engine.route(makeUnit(ref))
    const at = await url(first.engine)
    const { body: pid } = await requestRouter(at)
    await first.engine.close({ stop: false })
    expect((await requestRouter(at)).body).toBe(pid)

    const { engine, lines } = await open()
    expect(of(await engine.observe(ref.deployment_id), ref)?.phase).toBe('healthy')
    expect(await url(engine)).toBe(at)
    await engine.start(makeUnit(ref), app)
    expect((await requestRouter(at)).body).toBe(pid)
    await requestRouter(at, '/die').catch(() => {})
    const reborn = await waitFor(async () => {
      const { body, status } = await requestRouter(at)
      return status === 200 && body !== pid && body
    })
    await waitFor(() => lines.some(({ message }) => message === `I am ${reborn}`))
    // What the first agent read already is not told again.
    expect(lines.some(({ message }) => message === `I am ${pid}`)).toBe(false)
  })

  test.each([
    ['serves', true, true, 'healthy'],
    ['serves since an older agent', true, false, 'healthy'],
    ['was never healthy', false, true, 'starting'],
    ['may never have been healthy', false, false, 'starting'],
  ])('one that %s is taken for no more than that', async (_, routed, known, phase) => {
    const first = await open()
    const code = `
import { createServer } from 'node:http'
const server = createServer((req, res) => { res.statusCode = req.url === '/healthz' ? ${routed ? 200 : 503} : 200; res.end() })
server.listen(process.env.PORT, () => console.log('listens'))
`
    await first.engine.start(makeUnit(ref), writeApplication(home, 'judged', code, { health_path: '/healthz' }))
    await waitFor(() => first.lines.some(({ message }) => message === 'listens'))
    if (routed) await until(first.engine, ref, 'healthy')
    if (routed) await first.engine.route(makeUnit(ref))
    await first.engine.close({ stop: false })
    if (!known) fs.rmSync(join(home, 'process', ref.deployment_id, 'revisions', ref.revision_id, 'known.json'))
    const { engine } = await open()
    expect(of(await engine.observe(ref.deployment_id), ref)?.phase).toBe(phase)
  })

  test('one that has lost a copy is not healthy before it has as many as it was wanted with, unless it serves', async () => {
    const first = await open()
    const wanted = makeUnit(ref, { resources: withDefaults({ min_scale: 2 }, 'dev') })
    const app = writeApplication(home, 'two', makeServerCode('x'))
    await first.engine.start(wanted, app)
    await until(first.engine, ref, 'healthy')
    await first.engine.close({ stop: false })
    await killOne()
    const second = await open()
    expect(of(await second.engine.observe(ref.deployment_id), ref)?.phase).toBe('starting')
    await second.engine.route(wanted)
    await second.engine.close({ stop: false })
    const { engine } = await open()
    expect(of(await engine.observe(ref.deployment_id), ref)?.phase).toBe('healthy')
  })

  test('one that was taken over and ends takes with it all that it started', async () => {
    const copy = join(home, 'process', ref.deployment_id, 'revisions', ref.revision_id, 'copies', 'left')
    writeJson(join(copy, 'copy.json'), { port: 1 })
    const env = { PATH: process.env.PATH!, SLIPWAY_REVISION_ID: ref.revision_id, OTHER: join(home, 'other') }
    // Nobody is told of its end, as nobody is by another agent's.
    const { child } = spawnTracked(copy, ['sh', '-c', 'sleep 600 & echo $! > "$OTHER"; wait'], { env, stdio: 'ignore' })
    onTestFinished(() => void signalGroup(child.pid!, 'SIGKILL'))
    const other = Number(await waitFor(() => fs.existsSync(env.OTHER) && fs.readFileSync(env.OTHER, 'utf8')))
    const { lines } = await open()
    expect(filterRunning([child.pid!, other])).toHaveLength(2)
    child.kill('SIGKILL')
    await waitFor(() => lines.some(({ message }) => message.startsWith('Ended')))
    expect(filterRunning([other])).toEqual([])
  })

  test('what it wrote before it ended meanwhile is told, and nothing twice', async () => {
    const first = await open()
    const code = `
import { createServer } from 'node:http'
console.log('first')
process.once('SIGTERM', () => { console.log('last'); process.stdout.write('words'); process.exit(1) })
createServer().listen(process.env.PORT)
`
    await first.engine.start(makeUnit(ref), writeApplication(home, 'words', code))
    await until(first.engine, ref, 'healthy')
    await waitFor(() => first.lines.length > 0)
    await first.engine.close({ stop: false })
    const copies = join(home, 'process', ref.deployment_id, 'revisions', ref.revision_id, 'copies')
    const { pid } = JSON.parse(fs.readFileSync(join(copies, fs.readdirSync(copies)[0]!, 'identity.json'), 'utf8'))
    process.kill(pid, 'SIGTERM')
    await waitFor(() => filterRunning([pid]).length === 0)
    const { lines } = await open()
    expect([...first.lines, ...lines].map(({ message }) => message)).toEqual(['first', 'last', 'words'])
  })

  test('what ended meanwhile is cleared away', async () => {
    const first = await open()
    await first.engine.start(makeUnit(ref), writeApplication(home, 'short', makeServerCode('x')))
    await until(first.engine, ref, 'healthy')
    await first.engine.close({ stop: false })
    await killOne()
    const { engine } = await open()
    expect((await engine.observe(ref.deployment_id)).running).toEqual([])
  })

  test('one killed between a launch and the note of it finds the copy and ends it', async () => {
    const first = await open()
    await first.engine.start(makeUnit(ref), writeApplication(home, 'window', makeServerCode('x')))
    await until(first.engine, ref, 'healthy')
    await first.engine.close({ stop: false })
    const copies = join(home, 'process', ref.deployment_id, 'revisions', ref.revision_id, 'copies')
    const copy = join(copies, fs.readdirSync(copies)[0]!)
    const { pid } = JSON.parse(fs.readFileSync(join(copy, 'identity.json'), 'utf8'))
    fs.rmSync(join(copy, 'identity.json'))
    const { engine } = await open()
    expect((await engine.observe(ref.deployment_id)).running).toEqual([])
    expect(filterRunning([pid])).toEqual([])
  })
})
