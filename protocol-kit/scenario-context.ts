// What a scenario stands on: a workspace, its listener, the agent as a process, and an application that any agent can run.
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

/** Each look is a few requests of the control plane. */
const LOOK_INTERVAL_MS = 200
const getTimeoutMs = () => Number(process.env.KIT_PATIENCE_MS ?? 60_000)
/** What it runs ends with it, on a machine that may be busy. */
const STOP_TIMEOUT_MS = 20_000
/** Whoever takes the lease away from the agent, played by the kit. */
export const RIVAL_AGENT_ID = 'kit-rival'
export const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

const APPLICATION = {
  'package.json': JSON.stringify({ name: 'kit', private: true, scripts: { start: 'node server.js' } }),
  'server.js': `const { createHash } = require('node:crypto')
console.log('kit-secret ' + createHash('sha256').update(process.env.TOKEN ?? '').digest('hex'))
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

/** Names under `localhost` are this machine, which not every resolver knows. */
const isAnswering = (address: string) =>
  new Promise<boolean>(resolve => {
    const { hostname, host, port, pathname, protocol } = new URL(address)
    const here = /(^|\.)localhost$/.test(hostname) ? '127.0.0.1' : hostname
    const get = protocol === 'https:' ? https.get : http.get
    get({ host: here, port: port || undefined, path: pathname, headers: { host }, timeout: 5000 }, answer => {
      answer.resume()
      resolve(answer.statusCode === 200)
    })
      .on('timeout', () => resolve(false))
      .on('error', () => resolve(false))
  })

/** `output` is what becomes of what the agent itself says. */
export async function createScenarioContext(plane: ControlPlane, command: string[], output: 'inherit' | 'ignore') {
  const { call, listener_id, listener_key } = await plane.newWorkspace()
  const folder = await mkdtemp(join(tmpdir(), 'slipway-kit-agent-'))
  const running = new Set<ChildProcess>()
  const dismissed = new Set<ChildProcess>()
  /** How the command ended although nobody had asked it to: nothing more is to be waited for. */
  let earlyExit: string | null = null

  // Files of the command are meant where the kit was started.
  const [program, ...args] = command.map(word => (existsSync(word) ? resolve(word) : word))

  /** Waits until something is so, and says what was not when it never is. */
  async function waitFor<T>(
    what: string,
    look: () => Promise<T | false | undefined> | T | false | undefined,
  ): Promise<T> {
    for (const end = Date.now() + getTimeoutMs(); ; ) {
      const found = await look()
      if (found) return found
      if (earlyExit) throw new Error(`${earlyExit} Until then it had not come about that ${what}.`)
      if (Date.now() > end) throw new Error(`Within ${getTimeoutMs() / 1000} s it did not come about that ${what}.`)
      await delay(LOOK_INTERVAL_MS)
    }
  }

  /** In a folder that it finds again when it is started again, unless it is to be another agent. */
  async function start(place = 'agent') {
    const cwd = join(folder, place)
    await mkdir(cwd, { recursive: true })
    const ours = { SLIPWAY_URL: plane.url, SLIPWAY_LISTENER_KEY: listener_key, SLIPWAY_AGENT_HOME: cwd }
    const env = { ...process.env, ...ours }
    const child = spawn(program!, args, { cwd, env, stdio: ['ignore', output, 'inherit'] })
    running.add(child)
    child.once('error', ({ message }) => {
      running.delete(child)
      earlyExit = `The command cannot be started: ${message}.`
    })
    child.once('exit', (code, signal) => {
      running.delete(child)
      if (!dismissed.has(child)) earlyExit = `The command ended by itself, with ${signal ?? `code ${code}`}.`
    })
    return { kill: () => ended(child, 'SIGKILL'), end: () => ended(child, 'SIGTERM') }
  }
  const ended = async (child: ChildProcess, signal: NodeJS.Signals) => {
    dismissed.add(child)
    const gone = new Promise(resolve => child.once('exit', resolve))
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill(signal)
    const impatient = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
    await gone
    clearTimeout(impatient)
  }

  const exchanges = (path = ''): Exchange[] =>
    plane.exchanges.filter(one => one.path.endsWith(path) && one.request.agent_id !== RIVAL_AGENT_ID)

  async function upload(id: string): Promise<string> {
    const { body } = await call('POST', `/v2/deployments/${id}/upload-url`)
    const headers = { 'Content-Type': 'application/gzip' }
    await fetch(body.upload_url, { method: 'PUT', headers, body: await packApplication() })
    return body.object_path
  }

  async function deploy(token = randomUUID()) {
    const name = `kit-${randomUUID()}`
    const secrets = [{ name: 'TOKEN', value: token }]
    const source = { source: 'internal_source', source_config: { listener_id }, source_revision_config: {}, secrets }
    const { body, status } = await call('POST', '/v2/deployments', { name, ...source })
    if (status !== 201) throw new Error(`A deployment could not be made: ${JSON.stringify(body)}`)
    const id: string = body.id
    await patch(id, { source_revision_config: { source_tarball_path: await upload(id) } })
    return { id, token }
  }
  async function patch(id: string, body: object) {
    const answer = await call('PATCH', `/v2/deployments/${id}`, body)
    if (answer.status !== 200) throw new Error(`A patch was refused: ${JSON.stringify(answer.body)}`)
    return answer.body
  }
  const read = async (id: string) => (await call('GET', `/v2/deployments/${id}`)).body
  const revisions = async (id: string) =>
    (await call('GET', `/v2/deployments/${id}/revisions?limit=100`)).body.resources
  const reconciled = async (id: string) =>
    (await call('GET', `/v2/deployments?deployment_ids=${id}&remote_reconciled=true`)).body.resources.length === 1

  /** The newest revision serves, the agent has acknowledged it, and where it says where, something answers there. */
  async function served(id: string) {
    const body = await waitFor('the newest revision serves', async () => {
      const one = await read(id)
      if (one.active_revision_id === one.latest_revision_id) return (await reconciled(id)) && one
      const [newest] = await revisions(id)
      if (newest.status.endsWith('_FAILED'))
        throw new Error(`Revision ${newest.number} is ${newest.status}: ${newest.status_message}`)
      return false
    })
    // Where another agent took it over, it may say another address a little later.
    if (body.url)
      await waitFor(`${body.url}, or where it is since, answers`, async () => isAnswering((await read(id)).url))
    return body
  }

  return {
    ...{ plane, call, listener_key, waitFor, start, exchanges, deploy, patch, read, revisions, reconciled, served },
    async clear() {
      await Promise.all([...running].map(child => ended(child, 'SIGTERM')))
      await rm(folder, { recursive: true, force: true, maxRetries: 9 })
    },
  }
}
