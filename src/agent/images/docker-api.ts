// A client for the HTTP API of a Docker-compatible engine over its unix socket: requests, streams and errors.
import * as http from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { describeError } from '../redaction/error-messages.ts'
import { LineSplitter } from '../system/lines.ts'
import type { BuildMessage } from './build-lines.ts'
import { createLogDemultiplexer } from './log-frames.ts'

/** The newest API version that this client supports. With an older engine, the engine's version is used. */
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
  /** 0 means no limit. */
  timeoutMs?: number
}
/** A progress message of a pull, a push or a build. */
type ProgressMessage = BuildMessage & { status?: string; error?: string }
export type ExecRequest = { Cmd: string[]; Tty: boolean; Env: string[]; User?: string }
export type AttachedExec = { id: string; socket: Duplex }
type LogOptions = { follow: boolean; since: number; signal?: AbortSignal }
export type LogLine = { message: string; at: string; error: boolean }

/** Status 0: the engine did not answer. */
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

  /** Negotiates the API version. */
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
        `The container engine requires API version ${MinAPIVersion}, but this agent supports ` +
          `${NEWEST_API_VERSION}. Upgrade the agent.`,
      )
    const api = isNewer(ApiVersion, NEWEST_API_VERSION) ? NEWEST_API_VERSION : ApiVersion
    this.#version = `/v${api}`
    return { engine: Components?.[0]?.Name ?? 'Engine', version: Version, api }
  }

  get = <T>(path: string, query?: Query) => this.ask<T>('GET', path, { query })
  post = <T>(path: string, body?: object, query?: Query) => this.ask<T>('POST', path, { body, query })

  /** Undefined if it does not exist. */
  async getIfExists<T>(path: string): Promise<T | undefined> {
    try {
      return await this.get<T>(path)
    } catch (error) {
      if (error instanceof DockerApiError && error.status === 404) return undefined
      throw error
    }
  }

  /** Docker builds with BuildKit since 23.0. The classic builder ignores `version`. */
  async hasBuildKit(): Promise<boolean> {
    const res = await this.#send('GET', '/_ping', { signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) })
    res.resume()
    return res.headers['builder-version'] === '2'
  }

  /** False if it does not exist. */
  async requestIfExists(method: string, path: string, request: RequestOptions = {}): Promise<boolean> {
    try {
      await this.ask(method, path, request)
      return true
    } catch (error) {
      if (error instanceof DockerApiError && error.status === 404) return false
      throw error
    }
  }

  /** Some engines refuse to create a volume that another request creates now. */
  async ensureVolume(body: Record<string, unknown>): Promise<void> {
    try {
      await this.post('/volumes/create', body)
    } catch (error) {
      if (!(await this.getIfExists(`/volumes/${body.Name}`))) throw error
    }
  }

  /** Podman stops none that is paused, so that one goes on first. False if it does not exist. */
  async stopContainer(id: string, seconds: number): Promise<boolean> {
    // The engine answers only after these seconds and the kill.
    const request = { query: { t: seconds }, timeoutMs: seconds * 1000 + 30_000 }
    const stop = () => this.requestIfExists('POST', `/containers/${id}/stop`, request)
    try {
      return await stop()
    } catch (error) {
      if (!(error instanceof DockerApiError && /paused/.test(error.message))) throw error
      await this.requestIfExists('POST', `/containers/${id}/unpause`)
      return stop()
    }
  }

  /** Removes a container and its anonymous volumes. Waits for a removal in progress, which Docker answers with 409. */
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
    { timeoutMs = REQUEST_TIMEOUT_MS, signal, ...rest }: RequestOptions = {},
  ): Promise<T> {
    const limits = [...(signal ? [signal] : []), ...(timeoutMs ? [AbortSignal.timeout(timeoutMs)] : [])]
    const res = await this.#send(method, path, { ...rest, signal: AbortSignal.any(limits) })
    const body = await text(res).catch(error => {
      throw this.#connectionError(error)
    })
    return (body.trim() ? JSON.parse(body) : undefined) as T
  }

  /** The files of a container, as a tar. */
  readFiles = (container: string, path: string, signal: AbortSignal): Promise<Readable> =>
    this.#send('GET', `/containers/${container}/archive`, { query: { path }, signal })

  /** Unpacks a tar into a folder of a container. */
  writeFiles = (container: string, path: string, tar: Readable, signal: AbortSignal): Promise<void> =>
    this.ask('PUT', `/containers/${container}/archive`, {
      query: { path },
      body: tar,
      headers: { 'Content-Type': 'application/x-tar' },
      timeoutMs: 0,
      signal,
    })

  /** Runs a command in a container and returns its exit code. */
  async exec(container: string, Cmd: string[]): Promise<number> {
    const { Id } = await this.post<{ Id: string }>(`/containers/${container}/exec`, { Cmd, AttachStdout: true })
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS)
    const res = await this.#send('POST', `/exec/${Id}/start`, { body: { Detach: false, Tty: false }, signal })
    // The output ends when the command exits.
    await text(res)
    return (await this.get<{ ExitCode: number | null }>(`/exec/${Id}/json`)).ExitCode ?? -1
  }

  /** Runs a command in a container, and takes over the connection: both directions are streams of bytes. */
  async attachExec(container: string, request: ExecRequest): Promise<AttachedExec> {
    const body = { ...request, AttachStdin: true, AttachStdout: true, AttachStderr: true }
    const { Id } = await this.post<{ Id: string }>(`/containers/${container}/exec`, body)
    const socket = await new Promise<Duplex>((resolve, reject) => {
      const req = http.request({
        socketPath: this.#socket,
        method: 'POST',
        path: `${this.#version}/exec/${Id}/start`,
        agent: false,
        headers: { Host: 'engine', 'Content-Type': 'application/json', Connection: 'Upgrade', Upgrade: 'tcp' },
        signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      })
      req.once('upgrade', (_, connection, head) => {
        if (head.length > 0) connection.unshift(head)
        resolve(connection)
      })
      req.once('response', res => {
        const refuse = (message: string) => reject(new DockerApiError(res.statusCode!, message))
        text(res).then(answer => refuse(parseErrorMessage(answer)), reject)
      })
      req.once('error', reject)
      req.end(JSON.stringify({ Detach: false, Tty: request.Tty }))
    }).catch(error => {
      throw error instanceof DockerApiError ? error : this.#connectionError(error)
    })
    return { id: Id, socket }
  }

  /** Throws if a message reports an error. Aborting the signal ends the operation. */
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

  /** Reads a container's log from the second `since` on; with `follow`, until the container exits. */
  async streamLog(id: string, { follow, since, signal }: LogOptions, onLine: (line: LogLine) => void): Promise<void> {
    const query = { follow, stdout: true, stderr: true, timestamps: true, since }
    const limits = [...(signal ? [signal] : []), ...(follow ? [] : [AbortSignal.timeout(REQUEST_TIMEOUT_MS)])]
    const res = await this.#send('GET', `/containers/${id}/logs`, { query, signal: AbortSignal.any(limits) })
    const frames = createLogDemultiplexer((line, error) => {
      const space = line.indexOf(' ')
      onLine({ at: line.slice(0, space), message: line.slice(space + 1), error })
    })
    try {
      for await (const chunk of res) frames.push(chunk)
      frames.end()
    } catch {
      // Aborted, or the engine is unreachable. `followLog` inspects the container next and reads a cut line again.
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
        socketPath: this.#socket,
        method,
        path: this.#version + path + queryString(query),
        agent: false,
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
    throw new DockerApiError(
      res.statusCode!,
      parseErrorMessage(await text(res)) || `The container engine answered ${res.statusCode} to ${method} ${path}.`,
    )
  }

  #connectionError(error: unknown): DockerApiError {
    const { code, name } = error as NodeJS.ErrnoException
    const cause =
      code === 'EACCES'
        ? 'the agent’s user has no permission for its socket: add the user to its group'
        : code === 'ENOENT' || code === 'ECONNREFUSED'
          ? 'nothing listens on its socket: start the engine, or set CONTAINER_SOCKET to its socket'
          : name === 'TimeoutError'
            ? 'it does not answer in time'
            : describeError(error)
    return new DockerApiError(0, `The container engine is unreachable: ${cause}.`)
  }
}

function parseProgress(line: string): ProgressMessage {
  const message = JSON.parse(line) as ProgressMessage
  if (message.error) throw new DockerApiError(500, message.error)
  return message
}

function parseErrorMessage(body: string): string {
  try {
    return (JSON.parse(body) as { message?: string }).message ?? ''
  } catch {
    return body.trim()
  }
}

function queryString(query: Query = {}): string {
  const params = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    if (value !== undefined) params.set(name, typeof value === 'object' ? JSON.stringify(value) : String(value))
  return params.size ? `?${params}` : ''
}

function isNewer(one: string, other: string): boolean {
  const [[major = 0, minor = 0], [otherMajor = 0, otherMinor = 0]] = [one, other].map(v =>
    v.split('.').map(Number),
  ) as [number[], number[]]
  return major !== otherMajor ? major > otherMajor : minor > otherMinor
}
