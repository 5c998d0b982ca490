// What goes wrong around a deployment: what cannot pass, or does not for long, is its revision's failure in its own words, and the old one serves.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { FakeEngine, type Verb } from '../../protocol-kit/fake-engine.ts'
import { Agent } from '../../src/agent/agent.ts'
import { controlAt } from '../../src/agent/control.ts'
import { Passing, Unworkable } from '../../src/agent/engines/engine.ts'
import { eventually } from '../support/commands.ts'
import { type ControlPlane, controlPlane } from '../support/control-plane.ts'
import { closeAgents, folder, run } from '../support/engine.ts'

const SENTENCE = 'The cluster refuses the host shop.example.com: choose another custom_url.'
let home: string
let control: ControlPlane
let engine: FakeEngine
let id: string

beforeEach(async () => {
  home = folder()
  id = randomUUID()
  control = await controlPlane()
  engine = new FakeEngine()
  const agent = new Agent({
    ...{ agent_id: 'agent-1', version: 'test', home, engine, wait: 5, lasting: 3000 },
    control: controlAt({ url: control.url, key: 'key' }),
    say: () => {},
  })
  run(agent)
})
afterEach(async () => {
  await closeAgents()
  await control.stop()
  fs.rmSync(home, { recursive: true, force: true })
})

const image = { source: 'internal_container' as const, image_uri: `registry.example.com/shop@sha256:${'a'.repeat(64)}` }
const ended = (revision: string) =>
  eventually(() => control.reports.find(one => one.revision_id === revision && /deployed|failed/.test(one.state)))
const running = async () => (await engine.observe(id)).running.map(({ revision_id }) => revision_id)

test.each<[Verb, object]>([
  ['start', {}],
  ['route', {}],
  ['provide', { needs_database: true }],
])('what cannot pass: %s', async (verb, more) => {
  const old = control.want(id, image)
  expect(await ended(old)).toMatchObject({ state: 'deployed' })
  engine.refusing[verb] = new Unworkable(SENTENCE)
  const revision = control.want(id, image, more)
  expect(await ended(revision)).toMatchObject({ state: 'failed', message: SENTENCE })
  await eventually(async () => (await running()).join() === old)
  expect((await engine.observe(id)).routed).toBe(old)
})

test.each<Verb>(['observe', 'route'])('what does not pass for long: %s', async verb => {
  const old = control.want(id, image)
  await ended(old)
  engine.refusing[verb] = new Passing('The cluster was not reached.')
  const revision = control.want(id, image)
  const report = await ended(revision)
  expect(report).toMatchObject({ state: 'failed', message: expect.stringMatching(/not reached\.$/) })
  delete engine.refusing[verb]
  expect(await ended(control.want(id, image))).toMatchObject({ state: 'deployed' })
  await eventually(async () => (await running()).length === 1)
})

test('what is let go and cannot be ended keeps nobody from deploying', async () => {
  await ended(control.want(id, image))
  engine.refusing.stop = new Unworkable(SENTENCE)
  for (const _ of [1, 2]) expect(await ended(control.want(id, image))).toMatchObject({ state: 'deployed' })
})

test.each([
  ['cannot pass', new Unworkable(SENTENCE)],
  ['does not pass', new Passing('The cluster was not reached.')],
])('what serves keeps no new revision from deploying: what is wrong with it %s', async (_, error) => {
  const old = control.want(id, image)
  await ended(old)
  const { start } = engine
  engine.start = async unit => {
    if (unit.revision_id === old) throw error
    await start.call(engine, unit)
  }
  expect(await ended(control.want(id, image))).toMatchObject({ state: 'deployed' })
  const told = () => control.logs.some(({ of, message }) => of === old && message === error.message)
  if (error instanceof Unworkable) await eventually(told)
})

test('what passes soon is no failure', async () => {
  engine.refusing.route = new Passing('The cluster was not reached.')
  const revision = control.want(id, image)
  await eventually(() => control.said(revision).includes('deploying'))
  delete engine.refusing.route
  expect(await ended(revision)).toMatchObject({ state: 'deployed' })
})

test('of what serves nothing is given up: it is told in its log', async () => {
  const revision = control.want(id, image)
  await ended(revision)
  engine.refusing.route = new Unworkable(SENTENCE)
  control.change(id, { custom_url: 'https://shop.example.com' })
  await eventually(() => control.logs.some(({ of, message }) => of === revision && message === SENTENCE))
  expect(await running()).toEqual([revision])
  expect(control.said(revision)).not.toContain('failed')
})

test('what is well again while its trouble is being told is told to be well', async () => {
  const revision = control.want(id, image)
  await ended(revision)
  const ref = { deployment_id: id, revision_id: revision }
  const healthy = () => control.reports.filter(({ state }) => state === 'serving').map(one => one.healthy)
  await eventually(() => healthy().at(-1))
  control.odd.onReport = report => {
    if (report.healthy === false) engine.becomes(ref, 'healthy')
  }
  engine.becomes(ref, 'unhealthy')
  await eventually(() => healthy().includes(false))
  await eventually(() => healthy().at(-1))
})
