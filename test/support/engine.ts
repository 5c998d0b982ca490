// A process engine in a folder of its own, with small numbers, and what tests ask of it.
import * as fs from 'node:fs'
import * as http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Agent } from '../../src/agent/agent.ts'
import { type Artifact, type Level, type Ref, UNHEARD, type Unit } from '../../src/agent/engines/engine.ts'
import type { Limits } from '../../src/agent/engines/local/limits.ts'
import { ProcessEngine } from '../../src/agent/engines/process.ts'
import { networksIn } from '../../src/agent/reach.ts'
import { withDefaults } from '../../src/deployments/resources.schema.ts'

export const QUICK: Partial<Limits> = {
  ready_ms: 20_000,
  backoff_ms: 20,
  starting_probe_ms: 25,
  probe_ms: 100,
  tick_ms: 25,
  memory_ms: 50,
  disk_ms: 100,
  drain_ms: 5_000,
  stop_ms: 10_000,
}

export const folder = () => fs.mkdtempSync(join(tmpdir(), 'slipway-agent-'))

export function unit(ref: Ref, more: Partial<Unit> = {}): Unit {
  return {
    ...ref,
    name: 'shop',
    tenant_id: 'a7b9c1d2-0000-4000-8000-000000000001',
    number: 1,
    source: 'githost',
    image_uri: null,
    namespace: null,
    custom_url: null,
    needs_database: false,
    resources: withDefaults({}, 'dev'),
    parts: [],
    secrets: {},
    secret_references: [],
    ...more,
  }
}

/** An application of one file. */
export function application(root: string, name: string, code: string, more: Partial<Artifact> = {}): Artifact {
  const location = join(root, 'apps', name)
  fs.mkdirSync(location, { recursive: true })
  fs.writeFileSync(join(location, 'main.mjs'), code)
  return { location, start_command: 'node main.mjs', health_path: null, env: {}, commit: null, ...more }
}

export const saying = (text: string) => `
import { createServer } from 'node:http'
createServer((req, res) => res.end(${JSON.stringify(text)})).listen(process.env.PORT)
`

const agents: { agent: Agent; ended: Promise<void> }[] = []

/** The servers of tests. */
export const LOOPBACK = networksIn('127.0.0.0/8, ::1/128')

/** In the background; whatever ends it too soon is told by `closeAgents`. */
export function run(agent: Agent): Agent {
  const ended = agent.run()
  ended.catch(() => {})
  agents.push({ agent, ended })
  return agent
}

/** For afterEach, before what they talk to. */
export async function closeAgents(): Promise<void> {
  const closing = agents.splice(0).map(async ({ agent, ended }) => {
    await agent.close({ stop: true })
    await ended
  })
  for (const one of await Promise.allSettled(closing)) if (one.status === 'rejected') throw one.reason
}

export async function engineIn(home: string, limits: Partial<Limits> = {}) {
  const engine = new ProcessEngine({ home, port: 0, limits: { ...QUICK, ...limits } })
  const lines: { of: Ref; message: string; level: Level }[] = []
  const changes: string[] = []
  await engine.open({
    ...UNHEARD,
    changed: id => void changes.push(id),
    log: (of, message, level) => void lines.push({ of, message, level }),
  })
  return { engine, lines, changes }
}

export type Answer = { status: number; headers: http.IncomingHttpHeaders; body: string }
/** Names below localhost need not resolve everywhere: the router is asked by its address. */
export function ask(url: string, path = '/', options: http.RequestOptions & { body?: string } = {}): Promise<Answer> {
  const { port, host } = new URL(url)
  const { body, headers, ...more } = options
  return new Promise((resolve, reject) => {
    const asked = http.request({ port, host: '127.0.0.1', path, headers: { host, ...headers }, ...more }, res => {
      let text = ''
      res.setEncoding('utf8').on('data', chunk => (text += chunk))
      res.once('end', () => resolve({ status: res.statusCode!, headers: res.headers, body: text }))
      res.once('error', reject)
    })
    asked.once('error', reject).end(body)
  })
}
