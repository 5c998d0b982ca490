// Looks at repositories by SSH for the control plane, which speaks none: lists their refs and learns the keys of hosts.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { tmpdir } from 'node:os'
import type { Readable } from 'node:stream'
import type { Network } from '../../protocol/address-kind.ts'
import {
  MAX_REF_NAME,
  MAX_SEEN_REFS,
  type RepositoryLook,
  type SeenRepository,
  type SshKeys,
} from '../../protocol/repository-looks.schema.ts'
import { type ControlPlaneClient, RequestRefused } from '../control-plane/client.ts'
import type { AgentKeys } from '../control-plane/envelope.ts'
import { PermanentError, TransientError } from '../engine.ts'
import { describeError } from '../redaction/error-messages.ts'
import type { LogEvent } from '../system/log-event.ts'
import { signalGroup } from '../system/processes.ts'
import { DEFAULT_PATH } from '../system/search-path.ts'
import { type AllowedAddress, remoteOf, resolveAllowedAddress } from './allowed-address.ts'
import { gitEnvironment, withLimitedMemory } from './git-environment.ts'
import { classifySshFailure, describeSshProblem } from './ssh-failures.ts'
import { openSshSession } from './ssh-session.ts'

type ListenerLease = { agent_id: string; fence: number; listener: string }
type Options = {
  control: Pick<ControlPlaneClient, 'repository'>
  keys: AgentKeys
  currentLease: () => ListenerLease | undefined
  networks: Network[]
  signal: AbortSignal
  logEvent: LogEvent
  path?: string
}
type SeenRefs = Omit<SeenRepository, 'agent_id' | 'fence' | 'id'>

/** More than the control plane gives of one workspace: see due_looks(). */
const MAX_CONCURRENT = 8
/** Two keys and the key of the host are tried within the two minutes of a look. */
const TIMEOUT_MS = 30_000
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024
const TOO_MANY = 'it has too many branches and tags.'
/** A request to the control plane has at most 1 MB. */
const MAX_REFS_LENGTH = 700_000
const MAX_MESSAGE = 300
const REF_LINE = /^([0-9a-f]{40}|[0-9a-f]{64})\t(refs\/(?:heads|tags)\/\S+)$/
const SYMREF_LINE = /^ref: refs\/heads\/(\S+)\tHEAD$/
const PEELED = '^{}'

export class RepositoryLooks {
  readonly #options: Options
  readonly #waiting: RepositoryLook[] = []
  readonly #ids = new Set<string>()
  #running = 0

  constructor(options: Options) {
    this.#options = options
  }

  /** One that is in progress is not begun again. What is not reported comes again with a later poll. */
  take(looks: RepositoryLook[]): void {
    for (const look of looks) {
      if (this.#ids.has(look.id)) continue
      this.#ids.add(look.id)
      this.#waiting.push(look)
    }
    while (this.#running < MAX_CONCURRENT && this.#waiting.length > 0) void this.#next(this.#waiting.shift()!)
  }

  async #next(look: RepositoryLook): Promise<void> {
    this.#running++
    try {
      await this.#look(look)
    } catch (error) {
      const { signal, logEvent } = this.#options
      const isExpected = signal.aborted || (error instanceof RequestRefused && error.status < 500)
      if (!isExpected) logEvent('repository not reported', { repository: look.url, error: describeError(error) })
    } finally {
      this.#running--
      this.#ids.delete(look.id)
      this.take([])
    }
  }

  async #look({ id, url, access, digest }: RepositoryLook): Promise<void> {
    const { keys, currentLease, control, networks, signal, path = DEFAULT_PATH } = this.#options
    const lease = currentLease()
    if (!lease) return
    const { listener, ...holder } = lease
    const login = keys.open<SshKeys>(access, `${listener}/looks/${id}`)
    const seen = await seeRepository(url, login, { networks, path, signal })
    if (signal.aborted) return
    const { refs, ...rest } = seen
    await control.repository({ ...holder, id, ...rest, ...(seen.digest !== digest && { refs }) }, signal)
  }
}

type Surroundings = { networks: Network[]; path: string; signal: AbortSignal }

export async function seeRepository(url: string, login: SshKeys, surroundings: Surroundings): Promise<SeenRefs> {
  try {
    const address = await resolveAllowedAddress(url, surroundings.networks)
    return await seeAt(address, login, surroundings)
  } catch (error) {
    if (error instanceof PermanentError) return { problem: problem('address_refused', error.message) }
    if (error instanceof TransientError) return { problem: problem('host_away', error.message) }
    return { problem: problem('unreadable', `The repository ${url} cannot be read: ${describeError(error)}.`) }
  }
}

const problem = (code: NonNullable<SeenRefs['problem']>['code'], message: string) => ({
  code,
  message: message.slice(0, MAX_MESSAGE).toWellFormed(),
})

/** Tries one key after the other, so that it is known which the host accepts. */
async function seeAt(address: AllowedAddress, { keys, host_keys }: SshKeys, around: Surroundings): Promise<SeenRefs> {
  const url = remoteOf(address.url)
  let refused: SeenRefs = { problem: problem('unreadable', `The repository ${url} has no deploy key.`) }
  let host_key: string | null = null
  for (const key of keys) {
    using session = await openSshSession(address, {
      keys: [key],
      host_keys: host_key === null ? host_keys : [host_key],
    })
    const { output, failure } = await listRefs(url, address, session, around)
    if (host_keys.length === 0) host_key ??= session.seenHostKey()
    const found = host_key === null ? {} : { host_key }
    if (failure === null) return { ...describeRefs(output), ...found, key_fingerprint: key.fingerprint }
    const code = classifySshFailure(failure)
    if (code === 'host_key_changed')
      return { problem: problem(code, describeSshProblem(code, url)), ...(await showKey(address, around)) }
    if (code === null || code === 'unreadable' || code === 'address_refused')
      return { problem: problem('unreadable', `The repository ${url} cannot be read: ${failure}`), ...found }
    refused = { problem: problem(code, describeSshProblem(code, url)), ...found }
    if (code === 'host_away') break
  }
  return refused
}

async function listRefs(
  url: string,
  address: AllowedAddress,
  ssh: Awaited<ReturnType<typeof openSshSession>>,
  { path, signal }: Surroundings,
): Promise<{ output: string; failure: string | null }> {
  const args = ['ls-remote', '--symref', '--', url, 'HEAD', 'refs/heads/*', 'refs/tags/*']
  const env = gitEnvironment(tmpdir(), address, { credential: null, ssh }, path)
  return runBounded('git', args, env, signal)
}

/** The key that the host shows now. No key of ours is offered. */
async function showKey(address: AllowedAddress, { path, signal }: Surroundings): Promise<Pick<SeenRefs, 'host_key'>> {
  using session = await openSshSession(address, { keys: [], host_keys: [] })
  const { username, hostname, port } = address.url
  const args = ['-F', session.config, '-p', port || '22', '--', `${username}@${hostname}`, 'true']
  await runBounded('ssh', args, { PATH: path }, signal)
  const host_key = session.seenHostKey()
  return host_key === null ? {} : { host_key }
}

/** A host that keeps a connection open leaves no `ssh` behind, and one that never stops listing fills no memory. */
async function runBounded(program: string, args: string[], env: Record<string, string>, signal: AbortSignal) {
  if (signal.aborted) return { output: '', failure: 'It was interrupted.' }
  const [shell, ...words] = withLimitedMemory([program, ...args], 'refs')
  const child = spawn(shell, words, {
    env,
    cwd: tmpdir(),
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let reason: string | undefined
  const end = (why?: string) => {
    reason ??= why
    if (child.pid !== undefined) signalGroup(child.pid, 'SIGKILL')
  }
  const interrupt = () => end('It was interrupted.')
  const collect = (stream: Readable, chunks: Buffer[] = []) => {
    let bytes = 0
    stream.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > MAX_OUTPUT_BYTES) end(TOO_MANY)
      else chunks.push(chunk)
    })
    return () => Buffer.concat(chunks).toString()
  }
  const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)]
  const late = setTimeout(() => end('Connection timed out.'), TIMEOUT_MS)
  signal.addEventListener('abort', interrupt)
  // A program that has outlived it would keep its output open.
  child.once('exit', () => end())
  const failure = await new Promise<string | null>(resolve => {
    child.once('error', error => resolve(describeError(error)))
    child.once('close', code => resolve(reason ?? (code === 0 ? null : describeFailure(stderr(), code))))
  })
  clearTimeout(late)
  signal.removeEventListener('abort', interrupt)
  return { output: failure === null ? stdout() : '', failure }
}

function describeFailure(stderr: string, code: number | null): string {
  if (/out of memory/i.test(stderr)) return TOO_MANY
  const lines = stderr.split('\n').filter(line => line.trim() !== '')
  return lines.slice(-6).join(' ') || `git ended with code ${code}`
}

/** Branches come before tags. A list that is too long is cut. */
function describeRefs(output: string): Pick<SeenRefs, 'digest' | 'default_branch' | 'refs' | 'is_cut'> {
  const found = new Map<string, string>()
  let default_branch: string | null = null
  for (const line of output.split('\n')) {
    default_branch ??= SYMREF_LINE.exec(line)?.[1] ?? null
    const [, sha, name] = REF_LINE.exec(line) ?? []
    if (sha === undefined || name === undefined || name.includes('\ufffd')) continue
    // The commit of a tag that has a message.
    found.set(name.endsWith(PEELED) ? name.slice(0, -PEELED.length) : name, sha)
  }
  const refs: string[] = []
  let [length, isCut] = [0, false]
  for (const [name, sha] of found) {
    if (name.length > MAX_REF_NAME) continue
    length += name.length + sha.length + 4
    isCut = refs.length >= MAX_SEEN_REFS || length > MAX_REFS_LENGTH
    if (isCut) break
    refs.push(`${sha} ${name}`)
  }
  if (default_branch !== null && default_branch.length > MAX_REF_NAME) default_branch = null
  const digest = createHash('sha256')
    .update([default_branch ?? '', ...refs].join('\n'))
    .digest('hex')
  return { digest, default_branch, refs, ...(isCut && { is_cut: true }) }
}
