// A child process that runs the graphs of one language. It and the server exchange JSON lines over descriptor 3.
import { type ChildProcess, spawn } from 'node:child_process'
import type { Duplex } from 'node:stream'
import type { GraphSpec, Language } from './configuration.ts'
import { HttpError, StartError } from './errors.ts'
import type { ClaimedRun } from './queue.ts'
import type { StoreOperation } from './store-operations.ts'
import { toStorable } from './values.ts'

/** Before a checkpoint is written, the events that led there are: `flush` waits for them. */
export type ExecutorRequest = StoreOperation | { op: 'flush'; run: string }
export type ExecutorOptions = {
  language: Language
  command: string[]
  folder: string
  graphs: GraphSpec[]
  /** The authentication of the application, if it is in this language. */
  auth?: { path: string; name: string } | undefined
  /** The function that makes embeddings. */
  embed?: { path: string; name: string } | undefined
  /** The routes of the application, which it serves on a socket. */
  app?: { path: string; name: string; socket: string; prefix: string } | undefined
  /** Settings of the saver: the classes that checkpoints may bring back. */
  serde?: object | undefined
  environment: Record<string, string | undefined>
  databaseUrl: string
  /** The longest wait for an answer, in place of a minute. */
  answerMs?: number | undefined
  answerRequest(request: ExecutorRequest): Promise<unknown>
  onReady(): void
}
/** The end of a run, by the executor. Values are JSON. */
export type RunResult = {
  /** `lost`: its checkpoints could not be read or written, which says nothing about the graph. */
  status: 'success' | 'error' | 'interrupted' | 'lost'
  error: { error: string; message: string } | null
  output: string | null
  state: { values: string | null; next: string[]; interrupts: Record<string, unknown[]> } | null
}
export type RunListener = (event: string, data: string) => void

type Message =
  | { type: 'ready'; routes?: string[] }
  | { type: 'failed'; detail: string }
  | { type: 'event'; run: string; event: string; data: string }
  | { type: 'answer'; id: number; result: string }
  | { type: 'answer'; id: number; error: { message: string; status?: number } }
  | { type: 'request'; id: number; request: ExecutorRequest }

/** The executor ended before it answered. Its runs go back to the queue. */
export class ExecutorEnded extends Error {}

const LONGEST_WAIT_MS = 30_000
/** A graph that blocks its process answers nothing. Runs end in their own time, and migrations in theirs. */
const LONGEST_ANSWER_MS = 60_000
const LONGEST_REST_MS = 200
const UNLIMITED = ['run', 'setup']

export class Executor {
  readonly options: ExecutorOptions
  #child: ChildProcess | undefined
  #pipe: Duplex | undefined
  #lastId = 0
  readonly #asked = new Map<number, { resolve(result: string): void; reject(error: Error): void }>()
  readonly #listeners = new Map<string, RunListener>()
  #ready = Promise.withResolvers<void>()
  isReady = false
  /** The routes of the application, as `GET /path`. */
  routes: string[] = []
  #isStopped = false
  #failures = 0

  constructor(options: ExecutorOptions) {
    this.options = options
  }

  /** Resolves once all graphs are loaded, or throws the reason why one is not. */
  start(): Promise<void> {
    const { command, folder, environment } = this.options
    const [program, ...args] = command
    const child = spawn(program!, args, {
      cwd: folder,
      env: environment as NodeJS.ProcessEnv,
      stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
    })
    this.#child = child
    const pipe = child.stdio[3] as unknown as Duplex
    this.#pipe = pipe
    pipe.on('error', () => {})
    readLines(pipe, line => this.#take(JSON.parse(line) as Message))
    child.once('error', error => this.#end(`${program} could not be started: ${error.message}`))
    child.once('exit', (code, signal) => {
      const end = () => {
        if (this.#child === child) this.#end(signal ? `ended by ${signal}` : `ended with status ${code}`)
      }
      // Messages that it has sent come first. A process that a graph started may hold the pipe open.
      pipe.once('close', end)
      setTimeout(end, LONGEST_REST_MS)
    })
    const { graphs, auth = null, embed = null, app = null, serde = null, databaseUrl } = this.options
    this.#send({ type: 'start', folder, graphs, auth, embed, app, serde, database: databaseUrl })
    return this.#ready.promise
  }

  #take(message: Message): void {
    if (message.type === 'event') this.#listeners.get(message.run)?.(message.event, message.data)
    else if (message.type === 'answer') {
      const asked = this.#asked.get(message.id)
      this.#asked.delete(message.id)
      if ('error' in message) asked?.reject(new HttpError(toErrorStatus(message.error.status), message.error.message))
      else asked?.resolve(message.result)
    } else if (message.type === 'request') this.#answerRequest(message.id, message.request)
    else if (message.type === 'ready') {
      this.#failures = 0
      this.isReady = true
      this.routes = message.routes ?? []
      this.#ready.resolve()
      this.options.onReady()
    } else this.#ready.reject(new StartError(message.detail))
  }

  #answerRequest(id: number, request: ExecutorRequest): void {
    this.options.answerRequest(request).then(
      (result = null) => this.#send({ type: 'request', id, result: JSON.stringify(result) }),
      error => this.#send({ type: 'request', id, error: (error as Error).message }),
    )
  }

  /** Without what Postgres refuses: a checkpoint that has it fails each time, and its run comes back. */
  #send(message: object): void {
    this.#pipe?.write(`${toStorable(JSON.stringify(message))}\n`)
  }

  #end(reason: string): void {
    if (this.#child === undefined) return
    this.#child = undefined
    const wasReady = this.isReady
    this.isReady = false
    const error = new ExecutorEnded(`The executor of ${this.options.language} ${reason}.`)
    for (const { reject } of this.#asked.values()) reject(error)
    this.#asked.clear()
    this.#ready.reject(error)
    if (this.#isStopped) return
    this.#ready = Promise.withResolvers()
    // Without a listener, a rejection would end the server.
    this.#ready.promise.catch(() => {})
    // A graph that does not load at the start of the server is a failed deployment, which `start` reports.
    if (!wasReady && this.#failures === 0) return
    const wait = Math.min(500 * 2 ** this.#failures++, 10_000)
    console.error(`${error.message} starting again in ${wait} ms`)
    setTimeout(() => {
      if (!this.#isStopped) this.start().catch(() => {})
    }, wait)
  }

  /** Asks something, and returns the JSON of the answer. */
  async ask(question: string, details: object): Promise<string> {
    if (!this.isReady) await this.#waitUntilReady()
    const id = ++this.#lastId
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    this.#asked.set(id, { resolve, reject })
    this.#send({ type: 'ask', id, question, ...details })
    if (UNLIMITED.includes(question)) return promise
    const limit = this.options.answerMs ?? LONGEST_ANSWER_MS
    const timer = setTimeout(() => {
      this.#asked.delete(id)
      reject(
        new HttpError(
          504,
          `The graphs did not answer within ${limit / 1000} s. A node that blocks its process may be why.`,
        ),
      )
    }, limit)
    return promise.finally(() => clearTimeout(timer))
  }

  async #waitUntilReady(): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<never>((_, reject) => {
      const error = new HttpError(503, `The executor of ${this.options.language} is starting. Try again in a moment.`)
      timer = setTimeout(() => reject(error), LONGEST_WAIT_MS)
    })
    await Promise.race([this.#ready.promise, timeout]).finally(() => clearTimeout(timer))
  }

  async run(run: ClaimedRun, listener: RunListener): Promise<RunResult> {
    this.#listeners.set(run.run_id, listener)
    try {
      return JSON.parse(await this.ask('run', { run })) as RunResult
    } finally {
      this.#listeners.delete(run.run_id)
    }
  }

  /** Stops a run where it is. The answer of `run` follows, with the status `interrupted`. */
  cancel(runId: string): void {
    this.#send({ type: 'cancel', run: runId })
  }

  /** While the database is slow, events wait in the process that makes them, and not in the memory of this one. */
  pause(isPaused: boolean): void {
    if (isPaused) this.#pipe?.pause()
    else this.#pipe?.resume()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise(resolve => child.once('exit', resolve))
    child.kill('SIGKILL')
    await ended
  }
}

/** A graph may throw errors with a status of another meaning. */
const toErrorStatus = (status: unknown): number =>
  Number.isInteger(status) && Number(status) >= 400 && Number(status) < 600 ? Number(status) : 500

/** Splits at line feeds only: `readline` would also split at separators that JSON has inside of strings. */
function readLines(stream: Duplex, onLine: (line: string) => void): void {
  let parts: Buffer[] = []
  stream.on('data', (chunk: Buffer) => {
    let start = 0
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      parts.push(chunk.subarray(start, end))
      onLine(Buffer.concat(parts).toString('utf8'))
      parts = []
      start = end + 1
    }
    if (start < chunk.length) parts.push(chunk.subarray(start))
  })
}
