// Two revisions of a deployment serve at once on processes, each with its share of the requests.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { RevisionSpec } from '../../src/agent/engine.ts'
import type { ProcessEngine } from '../../src/agent/engines/process.ts'
import type { WorkTraffic } from '../../src/protocol/traffic.schema.ts'
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

let home: string
let engine: ProcessEngine
let url: string
let old: RevisionSpec
let canary: RevisionSpec

const mayListen = () => join(home, 'may-listen')
const phaseOf = async ({ deployment_id, revision_id }: RevisionSpec) => {
  const { running } = await engine.observe(deployment_id)
  return running.find(one => one.revision_id === revision_id)?.phase
}
async function start(spec: RevisionSpec, code: string) {
  await engine.start(spec, writeApplication(home, spec.revision_id, code))
  await waitFor(async () => (await phaseOf(spec)) === 'healthy')
}
const split = (share: number, sticky: WorkTraffic['sticky'] = null) =>
  engine.split(old.deployment_id, { revision_id: canary.revision_id, share, sticky })
const seen = async () => (await engine.observe(old.deployment_id)).split
const ask = (headers: Record<string, string> = {}) => requestRouter(url, '/', { headers })
const countNew = async (requests: number, headers?: Record<string, string>) => {
  const answers = await Promise.all(Array.from({ length: requests }, () => ask(headers)))
  expect(answers.map(({ status }) => status)).toEqual(Array(requests).fill(200))
  return answers.filter(({ body }) => body === 'new').length
}

/** It echoes its cookies, ends when it is told to, and listens while the file is there. */
const makeCanaryCode = (file: string) => `
const { existsSync } = require('node:fs')
const { createServer } = require('node:http')
const server = createServer((req, res) => {
  if (req.url === '/end') return process.exit(1)
  res.end(req.url === '/cookies' ? String(req.headers.cookie) : 'new')
})
const listen = () => (existsSync(${JSON.stringify(file)}) ? server.listen(process.env.PORT) : setTimeout(listen, 20))
listen()
`

beforeEach(async () => {
  home = fs.realpathSync(makeTempFolder())
  const opened = await openEngine(home)
  engine = opened.engine
  const ref = makeRevisionRef()
  const revision_id = randomUUID()
  old = makeUnit(ref, {
    host_labels: [
      { label: 'shop', revision_id: null },
      { label: 'green--shop', revision_id },
    ],
  })
  canary = { ...old, revision_id, number: 2 }
  await start(old, makeServerCode('old'))
  await engine.route(old)
  url = (await engine.observe(ref.deployment_id)).url!
  fs.writeFileSync(mayListen(), '')
  await start(canary, makeCanaryCode(mayListen()))
})
afterEach(async () => {
  await closeEngines()
  fs.rmSync(home, { recursive: true, force: true, maxRetries: 9 })
})

test('each gets its share, by name also without one, and the next agent keeps it', async () => {
  expect([await countNew(20), await seen()]).toEqual([0, undefined])
  await split(0)
  expect(await countNew(20)).toBe(0)
  expect((await ask({ host: 'green--shop.localhost' })).body).toBe('new')
  await split(50)
  expect(await seen()).toMatchObject({ revision_id: canary.revision_id, share: 50 })
  const half = await countNew(200)
  expect(half).toBeGreaterThan(50)
  expect(half).toBeLessThan(150)
  const usage = await engine.readUsage()
  const answersOf = ({ revision_id }: RevisionSpec) =>
    usage
      .find(one => one.revision_id === revision_id)!
      .copies.reduce((sum, { requests }) => sum + requests!.statuses.reduce((all, one) => all + one), 0)
  expect([answersOf(canary), answersOf(old)]).toEqual([half + 1, 240 - half])

  await engine.close({ stop: false })
  engine = (await openEngine(home)).engine
  await waitFor(async () => (await seen()) !== undefined)
  expect(await countNew(40)).toBeGreaterThan(0)

  await split(100)
  expect(await countNew(20)).toBe(20)
  await engine.route(canary)
  await engine.split(old.deployment_id, null)
  expect(await countNew(20)).toBe(20)
})

test('a client stays with its revision by a cookie, which the application does not see, or by a header', async () => {
  await split(50, { by: 'cookie' })
  const first = await Promise.all(Array.from({ length: 20 }, () => ask()))
  const cookies = first.map(({ headers }) => headers['set-cookie']![0]!.split(';')[0]!)
  expect(new Set(cookies).size).toBe(20)
  expect(new Set(first.map(({ body }) => body)).size).toBe(2)
  for (const [i, { body }] of first.entries()) {
    const again = await ask({ cookie: `a=1; ${cookies[i]}` })
    expect([again.body, again.headers['set-cookie']]).toEqual([body, undefined])
  }
  const isNew = first.findIndex(({ body }) => body === 'new')
  const echo = await requestRouter(url, '/cookies', { headers: { cookie: `a=1; ${cookies[isNew]}` } })
  expect(echo.body).toBe('a=1')
  await split(50, { by: 'header', header: 'x-user' })
  for (const user of ['ann', 'bob', 'cy', 'dee']) expect([0, 5]).toContain(await countNew(5, { 'x-user': user }))
})

test('a revision whose copies are gone leaves its share to the routed one, and takes it again', async () => {
  await split(100)
  expect(await countNew(5)).toBe(5)
  fs.rmSync(mayListen())
  await requestRouter(url, '/end').catch(() => {})
  // A request may still reach the copy that ends.
  await waitFor(async () => (await ask()).body === 'old')
  expect(await countNew(20)).toBe(0)
  fs.writeFileSync(mayListen(), '')
  await waitFor(async () => (await ask()).body === 'new')
  expect(await countNew(20)).toBe(20)
  // Sent back at once, while it still runs.
  await engine.split(old.deployment_id, null)
  expect(await countNew(20)).toBe(0)
})
