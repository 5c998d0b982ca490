// Copies of processes that move by themselves: to sleep and awake without losing a request, and by load.
import * as fs from 'node:fs'
import * as http from 'node:http'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import type { Artifact, RevisionRef } from '../../src/agent/engine.ts'
import type { Limits } from '../../src/agent/engines/local/limits.ts'
import type { ProcessEngine } from '../../src/agent/engines/process.ts'
import { type ResourceSpec, withDefaults } from '../../src/protocol/resources.schema.ts'
import { waitFor } from '../support/commands.ts'
import {
  closeEngines,
  makeRevisionRef,
  makeServerCode,
  makeTempFolder,
  makeUnit,
  openEngine,
  requestRouter,
  writeApplication,
} from '../support/process-engine.ts'

afterEach(closeEngines)

const NEVER = new AbortController().signal

/** Parts of a second, which the API takes not. */
const IDLE_SECONDS = 0.2
const SOON: Partial<Limits> = {
  scale_ms: 20,
  scale: { up_ms: 200, down_ms: 600, step_ms: 100 },
  sleep_ask_ms: 20,
  wake_ahead_ms: 500,
  least_sleep_ms: 1_000,
  settle_ms: 100,
}
const SLOW_CODE = `
const { createServer } = require('node:http')
const server = createServer((req, res) => setTimeout(() => res.end('slow ' + process.pid), 400))
const HEAD = 'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n\\r\\n'
server.on('upgrade', (_, socket) => socket.write(HEAD))
server.listen(process.env.PORT)
`

type Serve = { code?: string; of?: Partial<Artifact>; limits?: Partial<Limits> }
async function serve(resources: ResourceSpec, { code = makeServerCode('hello'), of = {}, limits = {} }: Serve = {}) {
  const home = makeTempFolder()
  const ref = makeRevisionRef()
  const unit = makeUnit(ref, { resources: withDefaults(resources, 'dev') })
  const { engine, lines } = await openEngine(home, { limits: { ...SOON, ...limits } })
  const artifact = { ...writeApplication(home, 'app', code), ...of }
  await engine.start(unit, artifact)
  await waitFor(async () => (await seen(engine, ref)).phase === 'healthy')
  await engine.route(unit)
  return { engine, ref, unit, artifact, home, lines, url: (await engine.observe(ref.deployment_id)).url! }
}

const seen = async (engine: ProcessEngine, { deployment_id }: RevisionRef) => {
  const { running } = await engine.observe(deployment_id)
  const [{ phase, condition }] = running as [(typeof running)[number]]
  const web = condition?.health.processes?.find(({ name }) => name === 'web')
  return { phase, state: condition!.health.state, copies: web?.copies, incidents: condition!.incidents }
}
async function observeFor(ms: number, engine: ProcessEngine, ref: RevisionRef) {
  const all: Awaited<ReturnType<typeof seen>>[] = []
  for (const end = Date.now() + ms; Date.now() < end; await delay(50)) all.push(await seen(engine, ref))
  return all
}
function openWebSocket(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const headers = { Host: hostname, Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13' }
  const request = http.get({ host: '127.0.0.1', port, headers: { ...headers, 'Sec-WebSocket-Key': 'AAAA' } })
  return new Promise((resolve, reject) => {
    request.once('upgrade', (_, socket) => resolve(socket as Socket))
    request.once('error', reject)
  })
}
const untilState = (engine: ProcessEngine, ref: RevisionRef, state: string) =>
  waitFor(async () => (await seen(engine, ref)).state === state)

test.each([
  ['stopped', 0],
  ['frozen', 3_600],
])(
  'a deployment that nobody asks sleeps %s, is no fault, and the next request wakes it',
  async (rest, frozen_seconds) => {
    // Long enough to be seen awake before it sleeps again.
    const { engine, ref, url, home, lines } = await serve({ min_scale: 0, idle_seconds: 2, frozen_seconds })
    const pids = () => copiesOf(home, ref).map(folder => identityOf(folder))
    const [first] = pids()
    await untilState(engine, ref, 'sleeping')
    const asleep = await seen(engine, ref)
    expect(asleep).toMatchObject({ phase: 'healthy', state: 'sleeping', copies: { wanted: 0 } })
    // By a signal it stops once it is scheduled.
    if (rest === 'frozen') await waitFor(() => /\) [TSD] /.test(fs.readFileSync(`/proc/${first}/stat`, 'utf8')))
    else await waitFor(() => pids().length === 0)

    // Its health checks wake nothing.
    await delay(300)
    expect((await seen(engine, ref)).state).toBe('sleeping')
    const bodies = await Promise.all([1, 2, 3].map(() => requestRouter(url, '/')))
    expect(bodies.map(({ status, body }) => [status, body])).toEqual(Array(3).fill([200, 'hello']))
    expect(await seen(engine, ref)).toMatchObject({
      phase: 'healthy',
      state: 'healthy',
      copies: { wanted: 1, running: 1 },
    })
    expect((pids()[0] === first) === (rest === 'frozen')).toBe(true)
    expect((await seen(engine, ref)).incidents).toMatchObject([{ kind: 'scaled', count: 2 }])
    expect(lines.filter(({ level }) => level === 'ERROR' || level === 'WARNING')).toEqual([])
  },
)

test.each([0, 3_600])('the next agent leaves it asleep and wakes it, %d s frozen', async frozen_seconds => {
  const { engine, ref, url, home, unit, artifact } = await serve({
    min_scale: 0,
    idle_seconds: IDLE_SECONDS,
    frozen_seconds,
  })
  await untilState(engine, ref, 'sleeping')
  await engine.close({ stop: false })
  const { engine: second } = await openEngine(home, { limits: SOON })
  expect(await seen(second, ref)).toMatchObject({ phase: 'healthy', state: 'sleeping' })
  await second.close({ stop: false })
  const early = requestRouter(url, '/')
  const { engine: next } = await openEngine(home, { limits: SOON })
  await next.start(unit, artifact)
  expect(await early).toMatchObject({ status: 200, body: 'hello' })
  await untilState(next, ref, 'sleeping')
  // A new router has the routes of what sleeps too.
  process.kill(JSON.parse(fs.readFileSync(join(home, 'router.json'), 'utf8')).identity.pid, 'SIGKILL')
  await waitFor(async () => (await requestRouter(url, '/').catch(() => undefined))?.status === 200)
})

test('a new revision of what sleeps serves, and the old one ends without waking', async () => {
  const { engine, ref, unit, url, home } = await serve({ min_scale: 0, idle_seconds: IDLE_SECONDS })
  await untilState(engine, ref, 'sleeping')
  const next = { ...unit, revision_id: makeRevisionRef().revision_id, number: 2 }
  await engine.start(next, writeApplication(home, 'next', makeServerCode('next')))
  const phaseOf = async (revision: string) =>
    (await engine.observe(ref.deployment_id)).running.find(({ revision_id }) => revision_id === revision)?.phase
  await waitFor(async () => (await phaseOf(next.revision_id)) === 'healthy')
  await engine.route(next)
  await engine.drain(ref)
  await waitFor(async () => (await phaseOf(ref.revision_id)) === 'drained')
  await engine.stop(ref)
  expect((await requestRouter(url, '/')).body).toBe('next')
  await untilState(engine, ref, 'sleeping')
  expect((await requestRouter(url, '/')).body).toBe('next')
})

test.each([0, 3_600])('once it may not sleep any more, a copy runs again, %d s frozen', async frozen_seconds => {
  const { engine, ref, unit, artifact } = await serve({ min_scale: 0, idle_seconds: IDLE_SECONDS, frozen_seconds })
  await untilState(engine, ref, 'sleeping')
  await engine.start({ ...unit, resources: withDefaults({ min_scale: 2, max_scale: 2 }, 'dev') }, artifact)
  await untilState(engine, ref, 'healthy')
  expect((await seen(engine, ref)).copies).toBeUndefined()
})

test('a request that is in flight, and a WebSocket, keep it awake', async () => {
  const { engine, ref, url } = await serve({ min_scale: 0, idle_seconds: IDLE_SECONDS }, { code: SLOW_CODE })
  expect((await requestRouter(url, '/')).status).toBe(200)
  const socket = await openWebSocket(url)
  for (const { state } of await observeFor(1_500, engine, ref)) expect(state).toBe('healthy')
  socket.destroy()
  await untilState(engine, ref, 'sleeping')
})

test('a request of a router that was replaced keeps it awake until its answer', async () => {
  const code = SLOW_CODE.replace('=> setTimeout(', "=> console.log('asked') || setTimeout(").replace('400', '2500')
  const served = await serve({ min_scale: 0, idle_seconds: IDLE_SECONDS }, { code })
  const { engine, url, home, unit, artifact, lines } = served
  const answer = requestRouter(url, '/')
  // It may sleep before, and is awake then.
  await waitFor(() => lines.some(({ message }) => message === 'asked'))
  await engine.close({ stop: false })
  const { engine: next } = await openEngine(home, { limits: SOON, trusted_proxies: ['10.0.0.1'] })
  await next.start(unit, artifact)
  expect((await answer).status).toBe(200)
})

test('a terminal and a forwarded port keep it awake, and wake it', async () => {
  const { engine, ref, url } = await serve({ min_scale: 0, idle_seconds: IDLE_SECONDS })
  await untilState(engine, ref, 'sleeping')
  const terminal = await engine.openTerminal(ref, 'one', { command: ['cat'], tty: false, columns: 80, rows: 24 })
  const { connect } = await engine.openForward(ref, {})
  for (const { state } of await observeFor(1_000, engine, ref)) expect(state).toBe('healthy')
  await terminal.close()
  await untilState(engine, ref, 'sleeping')
  const connection = await connect()
  for (const { state } of await observeFor(1_000, engine, ref)) expect(state).toBe('healthy')
  connection.destroy()
  await untilState(engine, ref, 'sleeping')
  expect((await requestRouter(url, '/')).status).toBe(200)
})

/** It answers what the file says. `wake_in`: milliseconds from each question; `once`: it may at the first one only. */
const askedCode = (file: string) => `
const { createServer } = require('node:http')
const { readFileSync } = require('node:fs')
let questions = 0
createServer((req, res) => {
  if (req.url !== '/sleep') return res.end('hello')
  const { wake_in, once, ...answer } = JSON.parse(readFileSync(${JSON.stringify(file)}, 'utf8'))
  if (once) answer.may_sleep = questions++ === 0
  if (wake_in) answer.wake_at = new Date(Date.now() + wake_in)
  res.end(JSON.stringify(answer))
}).listen(process.env.PORT)
`
function makeAsked() {
  const file = join(makeTempFolder(), 'answer')
  const answer = (value: object) => {
    fs.writeFileSync(`${file}.new`, JSON.stringify(value))
    fs.renameSync(`${file}.new`, file)
  }
  answer({ may_sleep: false })
  const worker = { name: 'queue', command: 'exec sleep 1000' }
  const of: Partial<Artifact> = { sleep_path: '/sleep', processes: [worker] }
  return { answer, code: askedCode(file), of }
}
const untilQueue = async (home: string, ref: RevisionRef) => {
  const [folder] = await waitFor(async () => {
    const started = copiesOf(home, ref, 'queue').filter(hasIdentity)
    return started.length > 0 ? started : undefined
  })
  return identityOf(folder!)
}
const rest = (seconds: number) => ({ min_scale: 0, idle_seconds: IDLE_SECONDS, frozen_seconds: seconds })

test.each([
  ['stopped', 0],
  ['frozen', 3_600],
])('one that says when it may sleep does then, %s, with its other processes', async (state, frozen_seconds) => {
  const { answer, ...asked } = makeAsked()
  const { engine, ref, url, home, lines } = await serve(rest(frozen_seconds), asked)
  const worker = await untilQueue(home, ref)
  for (const seenNow of await observeFor(700, engine, ref)) expect(seenNow.state).toBe('healthy')
  answer({ may_sleep: 'perhaps' })
  await waitFor(() => lines.some(({ level }) => level === 'WARNING'))
  answer({ may_sleep: true, wake_in: 900 })
  for (const seenNow of await observeFor(400, engine, ref)) expect(seenNow.state).toBe('healthy')
  // Work that comes between its answer and the sleep.
  answer({ once: true })
  for (const seenNow of await observeFor(400, engine, ref)) expect(seenNow.state).toBe('healthy')
  answer({ may_sleep: true, wake_at: null })
  await untilState(engine, ref, 'sleeping')
  if (state === 'frozen') await waitFor(() => /\) [TSD] /.test(fs.readFileSync(`/proc/${worker}/stat`, 'utf8')))
  else await waitFor(() => copiesOf(home, ref, 'queue').length === 0)
  answer({ may_sleep: false })
  expect((await requestRouter(url, '/')).body).toBe('hello')
  await untilState(engine, ref, 'healthy')
  const again = await untilQueue(home, ref)
  expect(again === worker).toBe(state === 'frozen')
  expect(lines.filter(({ level }) => level === 'WARNING')).toHaveLength(1)
})

test.each([0, 3_600])('it wakes by itself when it has to be awake, by the next agent, %d s frozen', async seconds => {
  const { answer, ...asked } = makeAsked()
  const { engine, ref, home, unit, artifact } = await serve(rest(seconds), asked)
  await untilQueue(home, ref)
  const before = Date.now()
  answer({ may_sleep: true, wake_in: 4_000 })
  await untilState(engine, ref, 'sleeping')
  answer({ may_sleep: false })
  await engine.close({ stop: false })
  const { engine: next } = await openEngine(home, { limits: SOON })
  await next.start(unit, artifact)
  await next.route(unit)
  const { state } = await seen(next, ref)
  // A slow machine is later than that.
  if (Date.now() < before + 3_000) expect(state).toBe('sleeping')
  await untilState(next, ref, 'healthy')
  await untilQueue(home, ref)
})

test('a frozen deployment stays so while its disk is copied, and after', async () => {
  const tick = join(makeTempFolder(), 'tick')
  const code = `require('node:fs').writeFileSync(${JSON.stringify(tick)}, '.')
${makeServerCode('hello')}
const { appendFileSync, writeFileSync } = require('node:fs')
writeFileSync(process.env.SLIPWAY_DISK_DATA + '/large', require('node:crypto').randomBytes(32 * 1024 ** 2))
setInterval(() => appendFileSync(${JSON.stringify(tick)}, '.'), 5)`
  const disk = {
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }],
    volume_mounts: [{ name: 'data', mountPath: '/data' }],
  }
  const rest = { min_scale: 0, idle_seconds: IDLE_SECONDS, frozen_seconds: 3_600 }
  const { engine, ref, url } = await serve({ ...rest, ...disk }, { code })
  const copy = () => engine.takeSnapshot(ref.deployment_id, 'disk:data', makeTempFolder(), NEVER)
  const ticks = () => fs.statSync(tick).size
  await untilState(engine, ref, 'sleeping')
  await copy()
  // A signal arrives within this time.
  await delay(200)
  const before = ticks()
  await delay(200)
  expect([ticks(), (await seen(engine, ref)).state]).toEqual([before, 'sleeping'])
  const order: (string | number)[] = []
  const ends = [copy().then(() => 'copied'), requestRouter(url, '/').then(({ status }) => status)]
  await Promise.all(ends.map(async end => order.push(await end)))
  expect(order).toEqual(['copied', 200])
  await waitFor(() => ticks() > before)
})

test.each([0, 3_600])('sleeps and wakes that race with requests lose none, %d s frozen', async frozen_seconds => {
  // Each look finds it idle, so that it falls asleep between any two requests.
  const { engine, ref, url } = await serve({ min_scale: 0, idle_seconds: 0.001, frozen_seconds })
  let isOn = true
  const statuses: number[] = []
  const clients = [1, 2, 3].map(async client => {
    for (let i = 0; isOn; i++) {
      statuses.push((await requestRouter(url, '/')).status)
      await delay((i * 7 * client) % 97)
    }
  })
  const changes = async () => (await seen(engine, ref)).incidents.find(({ kind }) => kind === 'scaled')?.count ?? 0
  await waitFor(async () => (await changes()) >= 20).finally(() => (isOn = false))
  await Promise.all(clients)
  expect(statuses.filter(status => status !== 200)).toEqual([])
})

test('copies follow the requests in flight up to the most and back, and no request is lost', async () => {
  const rule = { min_scale: 1, max_scale: 3, scale_metric: 'concurrency', scale_target: 2 } as const
  const { engine, ref, url, home, lines } = await serve(rule, { code: SLOW_CODE })
  const ask = async () => (await requestRouter(url, '/')).status
  let isOn = true
  const statuses: number[] = []
  const clients = Array.from({ length: 12 }, async () => {
    while (isOn) statuses.push(await ask())
  })
  await waitFor(async () => (await seen(engine, ref)).copies?.running === 3)
  isOn = false
  await Promise.all(clients)
  await waitFor(async () => (await seen(engine, ref)).copies?.wanted === 1)
  await waitFor(() => copiesOf(home, ref).length === 1)
  expect(statuses.filter(status => status !== 200)).toEqual([])
  expect(lines.some(({ message }) => message.includes('instead of 1'))).toBe(true)
})

test('a worker follows the tasks that wait, from no copy up to the most of the machine and back', async () => {
  const file = join(makeTempFolder(), 'depth')
  const tell = (text: string) => {
    fs.writeFileSync(`${file}.new`, text)
    fs.renameSync(`${file}.new`, file)
  }
  tell('0')
  const code = `
const { createServer } = require('node:http')
const { readFileSync } = require('node:fs')
const answer = req => (req.url === '/tasks' ? readFileSync(${JSON.stringify(file)}, 'utf8') : 'hello')
createServer((req, res) => res.end(answer(req))).listen(process.env.PORT)
`
  const worker = { min_scale: 0, max_scale: 9, scale_metric: 'queue', scale_target: 5, scale_path: '/tasks' } as const
  const of = { processes: [{ name: 'mail', command: 'exec sleep 1000' }] }
  const { engine, ref, home, lines } = await serve(
    { process_scaling: { mail: worker } },
    { code, of, limits: { copies: 4 } },
  )
  const copies = async () => {
    const { running } = await engine.observe(ref.deployment_id)
    return running[0]?.condition?.health.processes?.find(({ name }) => name === 'mail')?.copies
  }
  expect(await copies()).toEqual({ wanted: 0, running: 0 })
  tell('many')
  await waitFor(() => lines.some(({ level, message }) => level === 'WARNING' && message.includes('/tasks')))
  tell('40\n')
  await waitFor(async () => (await copies())?.running === 3)
  expect((await seen(engine, ref)).phase).toBe('healthy')
  tell('1000')
  await waitFor(() => lines.some(({ message }) => message.startsWith('3 copies instead')))
  expect(await copies()).toEqual({ wanted: 3, running: 3 })
  tell('0')
  await waitFor(async () => (await copies())?.wanted === 0)
  await waitFor(() => copiesOf(home, ref, 'mail').length === 0)
})

test('the copies of all processes together grow to the most of the machine', async () => {
  const code = `
const { createServer } = require('node:http')
createServer((req, res) => res.end(req.url === '/queue' ? '1000' : 'hello')).listen(process.env.PORT)
`
  const rule = { max_scale: 9, scale_metric: 'queue', scale_target: 5 } as const
  const names = ['mail', 'post', 'print']
  const of = { processes: names.map(name => ({ name, command: 'exec sleep 1000' })) }
  const process_scaling = Object.fromEntries(names.map(name => [name, { ...rule, min_scale: 0 }]))
  const { engine, ref } = await serve({ ...rule, min_scale: 1, process_scaling }, { code, of, limits: { copies: 6 } })
  const wanted = async () => {
    const { processes } = (await engine.observe(ref.deployment_id)).running[0]!.condition!.health
    return (processes ?? []).reduce((sum, { copies }) => sum + copies!.wanted, 0)
  }
  await waitFor(async () => (await wanted()) >= 6)
  await delay(200)
  expect(await wanted()).toBe(6)
})

test('an application of HTTP/2 tells its queue, too', async () => {
  const code = `
const { createServer } = require('node:http2')
createServer((req, res) => res.end(req.url === '/queue' ? '20' : 'hello')).listen(process.env.PORT)
`
  const process_scaling = { mail: { min_scale: 0, max_scale: 2, scale_metric: 'queue' } } as const
  const of = { protocol: 'h2c' as const, processes: [{ name: 'mail', command: 'exec sleep 1000' }] }
  const { engine, ref, home, lines } = await serve({ process_scaling }, { code, of })
  await waitFor(() => copiesOf(home, ref, 'mail').length === 2)
  expect((await seen(engine, ref)).phase).toBe('healthy')
  expect(await engine.readUsage()).toMatchObject([{ queue: 20 }])
  expect(lines.filter(({ level }) => level === 'WARNING')).toEqual([])
})

test('workers whose queues are told late keep nothing awake', async () => {
  const code = `
const { createServer } = require('node:http')
createServer((req, res) => setTimeout(() => res.end('1'), req.url === '/' ? 0 : 300)).listen(process.env.PORT)
`
  const names = ['mail', 'post', 'print']
  const rule = { min_scale: 1, max_scale: 2, scale_metric: 'queue' } as const
  const of = { processes: names.map(name => ({ name, command: 'exec sleep 1000' })) }
  const process_scaling = Object.fromEntries(names.map(name => [name, { ...rule, scale_path: `/${name}` }]))
  const asleep = { min_scale: 0, idle_seconds: IDLE_SECONDS, frozen_seconds: 3_600 }
  const { engine, ref, url } = await serve({ ...asleep, process_scaling }, { code, of })
  await untilState(engine, ref, 'sleeping')
  expect(await requestRouter(url, '/')).toMatchObject({ status: 200 })
})

const copiesOf = (home: string, { deployment_id, revision_id }: RevisionRef, type = 'web'): string[] => {
  const own = type === 'web' ? [] : ['processes', type]
  const folder = join(home, 'process', deployment_id, 'revisions', revision_id, ...own, 'copies')
  return fs.existsSync(folder) ? fs.readdirSync(folder).map(name => join(folder, name)) : []
}
const hasIdentity = (folder: string) => fs.existsSync(join(folder, 'identity.json'))
const identityOf = (folder: string): number => JSON.parse(fs.readFileSync(join(folder, 'identity.json'), 'utf8')).pid
