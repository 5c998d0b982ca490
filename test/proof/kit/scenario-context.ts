// A scenario works with a workspace, its listener, the agent as a process, and an application to deploy.
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import http from 'node:http'
import https from 'node:https'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { packTar } from 'modern-tar'
import type { ControlPlane, Exchange } from './control-plane.ts'

const CHECK_INTERVAL_MS = 200
const getTimeoutMs = () => Number(process.env.KIT_TIMEOUT_MS ?? 60_000)
/** An agent first stops its applications, on a machine that may be busy. */
const STOP_TIMEOUT_MS = 20_000
/** The kit itself, when it takes the lease from the agent. */
export const RIVAL_AGENT_ID = 'kit-rival'
export const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

const APPLICATION = {
  'package.json': JSON.stringify({ name: 'kit', private: true, scripts: { start: 'node server.js' } }),
  // npm takes half a second of CPU at each start.
  'slipway.json': JSON.stringify({ start_command: 'node server.js' }),
  'server.js': `const { createHash } = require('node:crypto')
console.log('kit-secret ' + createHash('sha256').update(process.env.TOKEN ?? '').digest('hex'))
console.log('kit-tracing ' + createHash('sha256').update(process.env.LANGSMITH_API_KEY ?? '').digest('hex'))
// The owner that its token names, once it has one.
const readOwner = () => {
  try {
    const token = require('node:fs').readFileSync(process.env.SLIPWAY_MODEL_TOKEN_FILE, 'utf8')
    console.log('kit-models ' + JSON.parse(Buffer.from(token.split('.')[1], 'base64url')).sub)
  } catch {
    setTimeout(readOwner, 200).unref()
  }
}
if (process.env.SLIPWAY_MODELS_URL) readOwner()
require('node:http').createServer((_, response) => response.end('kit')).listen(Number(process.env.PORT))
`,
}

async function packApplication(): Promise<Uint8Array<ArrayBuffer>> {
  const entries = Object.entries(APPLICATION).map(([name, body]) => ({
    header: { name, size: Buffer.byteLength(body) },
    body,
  }))
  return Uint8Array.from(gzipSync(await packTar(entries)))
}

export type ScenarioContext = Awaited<ReturnType<typeof createScenarioContext>>

/** Not every resolver knows that names under `localhost` are this machine. */
const isAnswering = (address: string) =>
  new Promise<boolean>(resolve => {
    const { hostname, host, port, pathname, protocol } = new URL(address)
    const ip = /(^|\.)localhost$/.test(hostname) ? '127.0.0.1' : hostname
    const get = protocol === 'https:' ? https.get : http.get
    get({ host: ip, port: port || undefined, path: pathname, headers: { host }, timeout: 5000 }, answer => {
      answer.resume()
      resolve(answer.statusCode === 200)
    })
      .on('timeout', () => resolve(false))
      .on('error', () => resolve(false))
  })

/** `output` is the agent's own standard output. */
export async function createScenarioContext(plane: ControlPlane, command: string[], output: 'inherit' | 'ignore') {
  const { call, listener_id, listener_key } = await plane.newWorkspace()
  const folder = await mkdtemp(join(tmpdir(), 'slipway-kit-agent-'))
  const running = new Set<ChildProcess>()
  const stopped = new Set<ChildProcess>()
  /** Set if the command ended before it was stopped. */
  let earlyExit: string | null = null

  // The agent runs in another folder, so paths in the command are made absolute.
  const [program, ...args] = command.map(word => (existsSync(word) ? resolve(word) : word))

  async function waitFor<T>(
    what: string,
    check: () => Promise<T | false | undefined> | T | false | undefined,
  ): Promise<T> {
    for (const end = Date.now() + getTimeoutMs(); ; ) {
      const result = await check()
      if (result) return result
      if (earlyExit) throw new Error(`${earlyExit} The kit was waiting until ${what}.`)
      if (Date.now() > end) throw new Error(`Timed out after ${getTimeoutMs() / 1000} s, waiting until ${what}.`)
      await delay(CHECK_INTERVAL_MS)
    }
  }

  /** An agent that is started again under its name runs in the same folder. */
  async function start(name = 'agent') {
    const cwd = join(folder, name)
    await mkdir(cwd, { recursive: true })
    const settings = { SLIPWAY_URL: plane.url, SLIPWAY_LISTENER_KEY: listener_key, SLIPWAY_AGENT_HOME: cwd }
    const env = { ...process.env, ...settings }
    const child = spawn(program!, args, { cwd, env, stdio: ['ignore', output, 'inherit'] })
    running.add(child)
    child.once('error', ({ message }) => {
      running.delete(child)
      earlyExit = `The command cannot be started: ${message}.`
    })
    child.once('exit', (code, signal) => {
      running.delete(child)
      if (!stopped.has(child)) earlyExit = `The command ended by itself, with ${signal ?? `code ${code}`}.`
    })
    return { kill: () => stop(child, 'SIGKILL'), end: () => stop(child, 'SIGTERM') }
  }
  const stop = async (child: ChildProcess, signal: NodeJS.Signals) => {
    stopped.add(child)
    const exited = new Promise(resolve => child.once('exit', resolve))
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill(signal)
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
    await exited
    clearTimeout(timer)
  }

  const exchanges = (path = ''): Exchange[] =>
    plane.exchanges.filter(
      one => one.key === listener_key && one.path.endsWith(path) && one.request.agent_id !== RIVAL_AGENT_ID,
    )

  async function upload(id: string): Promise<string> {
    const { body } = await call('POST', `/v2/deployments/${id}/upload-url`)
    const headers = { 'Content-Type': 'application/gzip' }
    const { ok, status } = await fetch(body.upload_url, { method: 'PUT', headers, body: await packApplication() })
    if (!ok) throw new Error(`The upload was refused with ${status}.`)
    return body.object_path
  }

  async function deploy(token = randomUUID()) {
    const name = `kit-${randomUUID()}`
    const secrets = [{ name: 'TOKEN', value: token }]
    const source = { source: 'internal_source', source_config: { listener_id }, source_revision_config: {}, secrets }
    const { body, status } = await call('POST', '/v2/deployments', { name, ...source })
    if (status !== 201) throw new Error(`The deployment was refused: ${JSON.stringify(body)}`)
    const id: string = body.id
    await patch(id, { source_revision_config: { source_tarball_path: await upload(id) } })
    return { id, token }
  }
  async function patch(id: string, body: object) {
    const answer = await call('PATCH', `/v2/deployments/${id}`, body)
    if (answer.status !== 200) throw new Error(`The patch was refused: ${JSON.stringify(answer.body)}`)
    return answer.body
  }
  const read = async (id: string) => (await call('GET', `/v2/deployments/${id}`)).body
  const revisions = async (id: string) =>
    (await call('GET', `/v2/deployments/${id}/revisions?limit=100`)).body.resources
  const isReconciled = async (id: string) =>
    (await call('GET', `/v2/deployments?deployment_ids=${id}&remote_reconciled=true`)).body.resources.length === 1

  /** The newest revision serves, the agent has acknowledged it, and its address, if it has one, answers. */
  async function waitUntilServing(id: string) {
    const body = await waitFor('the newest revision serves', async () => {
      const one = await read(id)
      if (one.active_revision_id === one.latest_revision_id) return (await isReconciled(id)) && one
      const [newest] = await revisions(id)
      if (newest.status.endsWith('_FAILED'))
        throw new Error(`Revision ${newest.number} is ${newest.status}: ${newest.status_message}`)
      return false
    })
    // Another agent that took it over may report another address a little later.
    if (body.url)
      await waitFor(`${body.url}, or its current address, answers`, async () => isAnswering((await read(id)).url))
    return body
  }

  return {
    plane,
    call,
    listener_id,
    listener_key,
    waitFor,
    start,
    exchanges,
    deploy,
    patch,
    read,
    revisions,
    isReconciled,
    waitUntilServing,
    async cleanUp() {
      await Promise.all([...running].map(child => stop(child, 'SIGTERM')))
      await rm(folder, { recursive: true, force: true, maxRetries: 9 })
    },
  }
}
