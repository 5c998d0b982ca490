// One copy: the database, an executor for each language, the worker, and HTTP unless it only works.
import { existsSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { serve } from '@hono/node-server'
import { createAssistant, KnownAssistants } from './assistants.ts'
import { Auth } from './auth.ts'
import { Background } from './background.ts'
import type { Configuration, GraphSpec, Language } from './configuration.ts'
import { startDueCrons } from './crons.ts'
import { type Database, listen, migrate, openDatabase } from './database.ts'
import { type Embeddings, openEmbeddings } from './embeddings.ts'
import { StartError } from './errors.ts'
import { Executor, type ExecutorOptions } from './executor.ts'
import { createApp } from './http/app.ts'
import { DEFAULT_LIMITS, type Limits, Usage } from './limits.ts'
import type { Server } from './server.ts'
import { QUIET_MS } from './sleep.ts'
import { runStoreOperation } from './store.ts'
import { endOf, Waiters } from './streams.ts'
import { sweep } from './sweeps.ts'
import { assistantIdOf } from './values.ts'
import { sendWebhook } from './webhooks.ts'
import { Worker } from './worker.ts'

export type StartOptions = {
  configuration: Configuration
  databaseUrl: string
  /** The command of the executor of each language. */
  commands: Record<Language, () => string[]>
  environment: Record<string, string | undefined>
  host: string
  port: number
  slots: number
  limits?: Partial<Limits> | undefined
  /** The longest wait for an answer of an executor, in place of a minute. */
  answerMs?: number | undefined
  apiKey?: string | undefined
  /** Runs are claimed, but nothing listens. */
  isWorkerOnly?: boolean
  version: string
}
export type Running = { server: Server; url: string; stop(graceMs?: number): Promise<void> }

const SWEEP_MS = 60_000
const SECOND_MS = 1000

/** Command of the runtimes in a folder, as the agent installs them. */
export const commandsIn = (
  runtimes: string,
  { folder, python }: { folder: string; python?: string | undefined },
): Record<Language, () => string[]> => ({
  javascript() {
    const tsx = join(runtimes, 'javascript/node_modules/tsx/dist/loader.mjs')
    if (!existsSync(tsx))
      throw new StartError(`${runtimes}/javascript has no packages. Run npm ci there, or set GRAPHS_RUNTIME.`)
    return [process.execPath, '--import', tsx, join(runtimes, 'javascript/executor.mjs')]
  },
  python() {
    const own = resolve(folder, '.venv/bin/python')
    const interpreter = python ?? (existsSync(own) ? own : undefined)
    if (!interpreter)
      throw new StartError(`Python graphs need a virtual environment: ${own}, or its interpreter in GRAPHS_PYTHON.`)
    return [interpreter, '-P', join(runtimes, 'python/executor.py')]
  },
})

const toServedApp = ({ app, http }: Configuration, socket: string) => ({
  path: app!.path,
  name: app!.name,
  prefix: http?.mount_prefix ?? '',
  socket,
})

type Hooks = Pick<ExecutorOptions, 'onReady' | 'answerRequest'>
type Connections = { db: Database; socket: string | null }
async function startExecutors(options: StartOptions, { db, socket }: Connections, hooks: Hooks): Promise<Executor[]> {
  const { configuration, databaseUrl, commands, environment, answerMs } = options
  const byLanguage = Map.groupBy(configuration.graphs, ({ language }: GraphSpec) => language)
  const { auth, index, app } = configuration
  const embed = index && 'path' in index.embed ? index.embed : undefined
  for (const code of [auth, embed, app]) if (code && !byLanguage.has(code.language)) byLanguage.set(code.language, [])
  const executors = [...byLanguage].map(
    ([language, graphs]) =>
      new Executor({
        language,
        graphs,
        auth: auth?.language === language ? auth : undefined,
        embed: embed?.language === language ? embed : undefined,
        app: app?.language === language && socket !== null ? toServedApp(configuration, socket) : undefined,
        ...(language === 'python' && { serde: configuration.checkpointer?.serde ?? undefined }),
        command: commands[language](),
        folder: configuration.folder,
        environment,
        databaseUrl,
        answerMs,
        ...hooks,
      }),
  )
  try {
    await Promise.all(executors.map(executor => executor.start()))
    // Two copies that create the tables of a saver at once would be in each other's way.
    for (const executor of executors)
      await db.inLock(`checkpoints ${executor.options.language}`, () => executor.ask('setup', {}))
  } catch (error) {
    await Promise.all(executors.map(executor => executor.stop()))
    throw error
  }
  return executors
}

/** Each graph has an assistant with an id that follows from its name. */
async function createGraphAssistants(db: Database, graphs: GraphSpec[]): Promise<void> {
  for (const { id, description } of graphs)
    await createAssistant(db, assistantIdOf(id), {
      graph_id: id,
      name: id,
      description: description ?? null,
      config: {},
      context: {},
      metadata: { created_by: 'system' },
    })
}

/** Node 22 knows no `await using`. */
type Closer = () => Promise<unknown>
async function closeAll(opened: Closer[]): Promise<void> {
  for (const close of opened.splice(0).reverse()) await close()
}

export async function start(options: StartOptions): Promise<Running> {
  const opened: Closer[] = []
  try {
    return await open(options, opened)
  } catch (error) {
    await closeAll(opened)
    throw error
  }
}

async function open(options: StartOptions, opened: Closer[]): Promise<Running> {
  const { configuration, databaseUrl, apiKey, version, environment } = options
  await migrate(databaseUrl)
  const db = openDatabase(databaseUrl)
  opened.push(() => db.close())
  const usage = new Usage({ ...DEFAULT_LIMITS, ...options.limits })
  let embeddings: Embeddings | null = null
  // The worker needs the executors, and they ask it while they run graphs.
  let working: Worker | undefined
  // In a folder that no other user enters: whoever reaches the socket is a caller that was checked.
  const folder = configuration.app && !options.isWorkerOnly ? mkdtempSync(join(tmpdir(), 'graphs-')) : null
  if (folder) opened.push(() => rm(folder, { recursive: true, force: true }))
  const appSocket = folder && join(folder, 'app')
  const executors = await startExecutors(
    options,
    { db, socket: appSocket },
    {
      onReady: () => working?.wake(),
      async answerRequest(request) {
        if (request.op === 'flush') return working?.flush(request.run)
        if (request.op === 'put' && request.value !== null) usage.admitBytes()
        return runStoreOperation({ db, embeddings, configuration }, request)
      },
    },
  )
  opened.push(() => Promise.all(executors.map(executor => executor.stop())))
  await createGraphAssistants(db, configuration.graphs)

  embeddings = openEmbeddings(configuration, executors, environment)
  const authExecutor = executors.find(executor => executor.options.auth)
  const auth = authExecutor ? new Auth(configuration.auth!, authExecutor) : null
  const waiters = new Waiters()
  let url = ''
  const worker = new Worker({
    db,
    executors,
    slots: options.slots,
    eventMegabytes: usage.limits.eventMegabytes,
    onEnd(ended) {
      waiters.wake(endOf(ended.run.run_id), ended.end)
      if (ended.run.kwargs.webhook)
        void sendWebhook(ended, { policy: configuration.webhooks, environment, ownUrl: url, hasAuth: auth !== null })
    },
  })
  working = worker
  const background = new Background()
  const listener = listen(databaseUrl, (channel, payload) => {
    if (channel === 'graphs_runs') worker.wake()
    else if (channel === 'graphs_quiet') background.pause(QUIET_MS)
    else if (channel === 'graphs_events') {
      const [run, thread, isEvent] = payload.split(' ')
      waiters.wake(run!)
      if (thread) waiters.wake(thread)
      if (!isEvent) waiters.wake(endOf(run!))
    } else if (worker.isRunning(payload)) void worker.heartbeat()
  })
  opened.push(() => listener.close())
  await listener.ready

  const assistants = new KnownAssistants()
  const parts = { db, waiters, executors, worker, background, assistants, usage, auth, appSocket, embeddings }
  const server: Server = { configuration, ...parts, apiKey, version, environment }
  await usage.measure(db)
  const http = options.isWorkerOnly ? undefined : await openHttp(server, options)
  if (http) url = `http://127.0.0.1:${http.port}`
  worker.start()
  background.repeat(() => sweep(server), SWEEP_MS)
  background.repeat(() => lookEachSecond(server), SECOND_MS)
  async function stop(graceMs = 3000): Promise<void> {
    const done = background.stop()
    http?.stopListening()
    await worker.stop(graceMs)
    http?.closeConnections()
    await done
    await closeAll(opened)
  }
  return { server, url, stop }
}

async function lookEachSecond(server: Server): Promise<void> {
  await server.usage.countQueue(server.db).catch(error => console.error(`count failed: ${(error as Error).message}`))
  await startDueCrons(server).catch(error => console.error(`crons failed: ${(error as Error).message}`))
}

async function openHttp(server: Server, { host, port }: StartOptions) {
  const app = createApp(server)
  const { promise, resolve, reject } = Promise.withResolvers<AddressInfo>()
  const listening = serve({ fetch: app.fetch, hostname: host, port }, resolve)
  listening.once('error', reject)
  const address = await promise
  return {
    port: address.port,
    stopListening: () => void listening.close(),
    closeConnections: () => 'closeAllConnections' in listening && listening.closeAllConnections(),
  }
}
