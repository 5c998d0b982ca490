// A process engine with short intervals in a temporary folder, agents, applications, and clients of the router.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import * as http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Agent } from '../../src/agent/agent.ts'
import { parseNetworks } from '../../src/agent/builds/allowed-address.ts'
import {
  type Artifact,
  type EngineEvents,
  type LogLevel,
  type LogSource,
  NO_EVENTS,
  type RevisionRef,
  type RevisionSpec,
} from '../../src/agent/engine.ts'
import type { Limits } from '../../src/agent/engines/local/limits.ts'
import { ProcessEngine, type ProcessOptions } from '../../src/agent/engines/process.ts'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { withDefaults } from '../../src/protocol/resources.schema.ts'

export const FAST_LIMITS: Partial<Limits> = {
  ready_ms: 20_000,
  backoff_ms: 20,
  starting_probe_ms: 25,
  probe_ms: 100,
  tick_ms: 25,
  // Without cgroups, each check reads all of /proc.
  memory_ms: 500,
  disk_ms: 500,
  drain_ms: 5_000,
  stop_ms: 10_000,
}

export const makeTempFolder = () => fs.mkdtempSync(join(tmpdir(), 'slipway-agent-'))

export function makeUnit(ref: RevisionRef, more: Partial<RevisionSpec> = {}): RevisionSpec {
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
    tracing: null,
    models_url: null,
    ...more,
  }
}

/** Code that uses `require` starts in a third of the CPU time of code that uses `import`. */
export function writeApplication(root: string, name: string, code: string, more: Partial<Artifact> = {}): Artifact {
  // The same depth as the outputs of builds: the engine sets the mode of the folder that is three above it.
  const location = join(root, 'builds', 'deployment', 'revision', name)
  fs.mkdirSync(location, { recursive: true })
  fs.writeFileSync(join(location, 'main.js'), code)
  return { location, start_command: 'node main.js', health_path: null, env: {}, commit: null, ...more }
}

export const makeServerCode = (text: string) => `
const { createServer } = require('node:http')
createServer((req, res) => res.end(${JSON.stringify(text)})).listen(process.env.PORT)
`

const runningAgents: { agent: Agent; ended: Promise<void> }[] = []

/** The networks of the git and archive servers of tests. */
export const LOOPBACK_NETWORKS = parseNetworks('127.0.0.0/8, ::1/128')

/** Runs it in the background. `closeAgents` throws the error that ended it too early. */
export function runAgent(agent: Agent): Agent {
  const ended = agent.run()
  ended.catch(() => {})
  runningAgents.push({ agent, ended })
  return agent
}

/** Call it in afterEach, before the control plane stops. */
export async function closeAgents(): Promise<void> {
  const closing = runningAgents.splice(0).map(async ({ agent, ended }) => {
    await agent.close({ stop: true })
    await ended
  })
  for (const one of await Promise.allSettled(closing)) if (one.status === 'rejected') throw one.reason
}

export const makeRevisionRef = (): RevisionRef => ({ deployment_id: randomUUID(), revision_id: randomUUID() })

const openEngines: ProcessEngine[] = []

export async function openEngine(
  home: string,
  { limits, ...options }: Partial<ProcessOptions> = {},
  events: Partial<EngineEvents> = {},
) {
  // It stays free while its router is started again.
  const port = await findFreePort()
  const engine = new ProcessEngine({ home, port, limits: { ...FAST_LIMITS, ...limits }, ...options })
  openEngines.push(engine)
  const lines: { of: LogSource; message: string; level: LogLevel }[] = []
  const changes: string[] = []
  await engine.open({
    ...NO_EVENTS,
    changed: id => void changes.push(id),
    log: (of, message, level, shownLength) => void lines.push({ of, message: message.slice(shownLength), level }),
    settledLength: (_, text) => text.length,
    ...events,
  })
  return { engine, lines, changes }
}

/** Call it in afterEach. */
export async function closeEngines(): Promise<void> {
  for (const engine of openEngines.splice(0)) await engine.close({ stop: true })
}

/** Shorter than the time in which a revision takes over, and longer than the CPU time of a request. */
const POLL_PAUSE_MS = 10

/** A client that sends one request after the other, and counts the responses and errors. Stop it in any case. */
export function startPolling(url: string, { path = '/', pause_ms = POLL_PAUSE_MS } = {}) {
  const counts = new Map<string, number>()
  let isOn = true
  const poll = async () => {
    while (isOn) {
      const response = await requestRouter(url, path).then(
        ({ status, body }) => `${status} ${body}`,
        error => `failed: ${error.message}`,
      )
      counts.set(response, (counts.get(response) ?? 0) + 1)
      await delay(pause_ms)
    }
  }
  const stopped = poll()
  return {
    count: (response: string) => counts.get(response) ?? 0,
    /** The different responses so far, in the order of their first occurrence. */
    responses: () => [...counts.keys()],
    async stop(): Promise<void> {
      isOn = false
      await stopped
    },
  }
}

export type RouterResponse = { status: number; headers: http.IncomingHttpHeaders; body: string }
/** Connects to the router’s address, because names below localhost do not resolve everywhere. */
export function requestRouter(
  url: string,
  path = '/',
  options: http.RequestOptions & { body?: string } = {},
): Promise<RouterResponse> {
  const { port, host } = new URL(url)
  const { body, headers, ...more } = options
  return new Promise((resolve, reject) => {
    const request = http.request({ port, host: '127.0.0.1', path, headers: { host, ...headers }, ...more }, res => {
      let text = ''
      res.setEncoding('utf8').on('data', chunk => (text += chunk))
      res.once('end', () => resolve({ status: res.statusCode!, headers: res.headers, body: text }))
      res.once('error', reject)
    })
    request.once('error', reject).end(body)
  })
}
