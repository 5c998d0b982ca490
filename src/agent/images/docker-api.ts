// The HTTP API of a Docker-compatible engine, over its unix socket: version, answers, streams, and what goes wrong as a sentence.
import * as http from 'node:http'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { describeError } from '../redaction/error-messages.ts'
import type { BuildMessage } from './build-lines.ts'
import { createLogDemultiplexer, LineSplitter } from './log-frames.ts'

/** The newest version that this was written for; an older engine's own is used with it. */
const NEWEST_API_VERSION = '1.47'
const REQUEST_TIMEOUT_MS = 60_000
const RETRY_MS = 100

/** The limit of processes in each container. */
export const MAX_PROCESSES = 2048

/** The name and body of a request that creates a container or a volume. */
export type CreateRequest = { name: string; body: Record<string, unknown> }
export type Query = Record<string, string | number | boolean | object | undefined>
type RequestOptions = {
  query?: Query | undefined
  body?: object | Readable | undefined
  headers?: Record<string, string>
  signal?: AbortSignal
  /** How long it may take; 0 means for as long as it takes. */
  timeoutMs?: number
}
/** One message of a pull or a build, as the engine sends them. */
type ProgressMessage = BuildMessage & { status?: string; error?: string }
type LogOptions = { follow: boolean; since: number; signal?: AbortSignal }
export type LogLine = { message: string; at: string; error: boolean }

/** What the engine answered instead of doing it. Status 0: it did not answer. */
export class DockerApiError extends Error {
  override name = 'DockerApiError'
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export class DockerApi {
  readonly #socket: string
  #version = ''

  constructor(socket: string) {
    this.#socket = socket
  }

  /** Finds out which version both speak, and says who it is. */
  async open(): Promise<{ engine: string; version: string; api: string }> {
    const { Version, ApiVersion, MinAPIVersion, Components } = await this.get<{
      Version: string
      ApiVersion: string
      MinAPIVersion?: string
      Components?: { Name: string }[]
    }>('/version')
    if (MinAPIVersion && isNewer(MinAPIVersion, NEWEST_API_VERSION))
      throw new DockerApiError(
        0,
        `The container engine wants version ${MinAPIVersion} of its API; this agent knows ${NEWEST_API_VERSION}.`,
      )
    const api = isNewer(ApiVersion, NEWEST_API_VERSION) ? NEWEST_API_VERSION : ApiVersion
    this.#version = `/v${api}`
    return { engine: Components?.[0]?.Name ?? 'Engine', version: Version, api }
  }

  get = <T>(path: string, query?: Query) => this.ask<T>('GET', path, { query })
  post = <T>(path: string, body?: object, query?: Query) => this.ask<T>('POST', path, { body, query })

  /** Undefined where there is no such thing. */
  async getIfExists<T>(path: string): Promise<T | undefined> {
    try {
      return await this.get<T>(path)
    } catch (error) {
      if (error instanceof DockerApiError && error.status === 404) return undefined
      throw error
    }
  }

  /** Whether Dockerfiles are built by BuildKit there, as Docker does from 23.0 on: the classic builder passes over what it does not know. */
  async hasBuildKit(): Promise<boolean> {
    const res = await this.#send('GET', '/_ping', { signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) })
    res.resume()
    return res.headers['builder-version'] === '2'
  }

  /** What is gone is not an error, and neither is what nothing has to be done to. */
  async requestIfExists(method: string, path: string, request: RequestOptions = {}): Promise<boolean> {
    try {
      await this.ask(method, path, request)
      return true
    } catch (error) {
      if (error instanceof DockerApiError && error.status === 404) return false
      throw error
    }
  }

  /** Removes a container with what only it had. Who is already being removed is waited for, which Docker answers with a conflict. */
  async removeContainer(id: string): Promise<void> {
    for (const until = Date.now() + REQUEST_TIMEOUT_MS; ; await delay(RETRY_MS)) {
      try {
        await this.requestIfExists('DELETE', `/containers/${id}`, { query: { force: true, v: true } })
        return
      } catch (error) {
        if (!(error instanceof DockerApiError && error.status === 409) || Date.now() > until) throw error
      }
    }
  }

  async ask<T>(
    method: string,
    path: string,
    { timeoutMs: within = REQUEST_TIMEOUT_MS, signal, ...rest }: RequestOptions = {},
  ): Promise<T> {
    const limits = [...(signal ? [signal] : []), ...(within ? [AbortSignal.timeout(within)] : [])]
    const res = await this.#send(method, path, { ...rest, signal: AbortSignal.any(limits) })
    const said = await text(res).catch(error => {
      throw this.#connectionError(error)
    })
    return (said.trim() ? JSON.parse(said) : undefined) as T
  }

  /** Runs a command in a container to its end; how it ended. */
  async exec(container: string, Cmd: string[]): Promise<number> {
    const { Id } = await this.post<{ Id: string }>(`/containers/${container}/exec`, { Cmd, AttachStdout: true })
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS)
    const res = await this.#send('POST', `/exec/${Id}/start`, { body: { Detach: false, Tty: false }, signal })
    // What it says is of no interest; that it says no more is its end.
    await text(res)
    return (await this.get<{ ExitCode: number | null }>(`/exec/${Id}/json`)).ExitCode ?? -1
  }

  /** The messages of what takes its time. One of them may say that it failed; aborting the signal ends it. */
  async *streamProgress(path: string, ask: RequestOptions): AsyncGenerator<ProgressMessage> {
    const res = await this.#send('POST', path, ask)
    const lines = new LineSplitter()
    try {
      for await (const chunk of res) for (const line of lines.push(chunk)) yield parseProgress(line)
      for (const line of lines.end()) yield parseProgress(line)
    } catch (error) {
      ask.signal?.throwIfAborted()
      throw error instanceof DockerApiError ? error : this.#connectionError(error)
    } finally {
      res.destroy()
    }
  }

  /** The lines of a container's log from that second on: those that there are, or all until it ends. Returns when there are no more. */
  async streamLog(id: string, { follow, since, signal }: LogOptions, told: (line: LogLine) => void): Promise<void> {
    const query = { follow, stdout: true, stderr: true, timestamps: true, since }
    const limits = [...(signal ? [signal] : []), ...(follow ? [] : [AbortSignal.timeout(REQUEST_TIMEOUT_MS)])]
    const res = await this.#send('GET', `/containers/${id}/logs`, { query, signal: AbortSignal.any(limits) })
    const frames = createLogDemultiplexer((line, error) => {
      const space = line.indexOf(' ')
      told({ at: line.slice(0, space), message: line.slice(space + 1), error })
    })
    try {
      for await (const chunk of res) frames.push(chunk)
      frames.end()
    } catch {
      // It was let go, or the engine went away: whoever follows looks at the container next, and reads the line that was cut again.
    }
  }

  async #send(
    method: string,
    path: string,
    { query, body, headers, signal }: RequestOptions,
  ): Promise<http.IncomingMessage> {
    const stream = body && 'pipe' in body ? (body as Readable) : undefined
    const json = body && !stream ? JSON.stringify(body) : undefined
    const res = await new Promise<http.IncomingMessage>((resolve, reject) => {
      const req = http.request({
        ...{ socketPath: this.#socket, method, path: this.#version + path + queryString(query), agent: false },
        headers: { Host: 'engine', ...(json !== undefined && { 'Content-Type': 'application/json' }), ...headers },
        signal,
      })
      req.once('response', resolve).once('error', reject)
      if (!stream) return void req.end(json)
      stream.once('error', error => req.destroy(error))
      stream.pipe(req)
    }).catch(error => {
      stream?.destroy()
      const { aborted, reason } = signal ?? { aborted: false }
      if (aborted && reason?.name !== 'TimeoutError') throw reason
      throw this.#connectionError(aborted ? reason : error)
    })
    if (res.statusCode! < 400) return res
    const said = await text(res)
    throw new DockerApiError(
      res.statusCode!,
      parseErrorMessage(said) || `It answers ${res.statusCode} to ${method} ${path}.`,
    )
  }

  #connectionError(error: unknown): DockerApiError {
    const { code, name } = error as NodeJS.ErrnoException
    const why =
      code === 'EACCES'
        ? 'this user may not use it: add the user to its group'
        : code === 'ENOENT' || code === 'ECONNREFUSED'
          ? 'nothing listens there: start the engine, or name its socket in CONTAINER_SOCKET'
          : name === 'TimeoutError'
            ? 'it does not answer in time'
            : describeError(error)
    return new DockerApiError(0, `The container engine cannot be asked: ${why}.`)
  }
}

function parseProgress(line: string): ProgressMessage {
  const said = JSON.parse(line) as ProgressMessage
  if (said.error) throw new DockerApiError(500, said.error)
  return said
}

function parseErrorMessage(said: string): string {
  try {
    return (JSON.parse(said) as { message?: string }).message ?? ''
  } catch {
    return said.trim()
  }
}

function queryString(query: Query = {}): string {
  const words = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    if (value !== undefined) words.set(name, typeof value === 'object' ? JSON.stringify(value) : String(value))
  return words.size ? `?${words}` : ''
}

function isNewer(one: string, other: string): boolean {
  const [[major = 0, minor = 0], [otherMajor = 0, otherMinor = 0]] = [one, other].map(v =>
    v.split('.').map(Number),
  ) as [number[], number[]]
  return major !== otherMajor ? major > otherMajor : minor > otherMinor
}
