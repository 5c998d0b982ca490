// The parts that a request may need.
import type { KnownAssistants } from './assistants.ts'
import type { Auth } from './auth.ts'
import type { Background } from './background.ts'
import type { Configuration } from './configuration.ts'
import type { Database } from './database.ts'
import type { Embeddings } from './embeddings.ts'
import { HttpError } from './errors.ts'
import type { Executor } from './executor.ts'
import type { Usage } from './limits.ts'
import type { Waiters } from './streams.ts'
import type { Ttl } from './threads.ts'
import type { Worker } from './worker.ts'

export type Server = {
  configuration: Configuration
  db: Database
  waiters: Waiters
  assistants: KnownAssistants
  usage: Usage
  /** Null if the store is not searched by meaning. */
  embeddings: Embeddings | null
  /** Authentication of the application's own. */
  auth: Auth | null
  /** The socket of the routes of the application. */
  appSocket: string | null
  executors: Executor[]
  worker: Worker
  background: Background
  /** The key that callers send; without one, every caller may do everything. */
  apiKey?: string | undefined
  version: string
  environment: Record<string, string | undefined>
}

export function executorOf({ executors }: Pick<Server, 'executors'>, graphId: string): Executor {
  const executor = executors.find(one => one.options.graphs.some(graph => graph.id === graphId))
  if (!executor) throw new HttpError(404, `Graph ${graphId} is not in the configuration file.`)
  return executor
}

/** The time to live of threads that do not say one themselves. */
export function defaultTtl({ configuration }: Pick<Server, 'configuration'>): Ttl | undefined {
  const ttl = configuration.checkpointer?.ttl
  return ttl?.default_ttl ? { minutes: ttl.default_ttl, strategy: ttl.strategy ?? 'delete' } : undefined
}
