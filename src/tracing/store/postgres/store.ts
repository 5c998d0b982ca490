// The trace store on Postgres. Its parts are loaded when they are first used.
import type { TraceStore } from '../store.ts'

export const postgresTraceStore: TraceStore = {
  append: async (...input) => (await import('./append.ts')).append(...input),
  query: async (...input) => (await import('./query.ts')).query(...input),
  stats: async (...input) => (await import('./stats.ts')).stats(...input),
  listThreads: async (...input) => (await import('./threads.ts')).listThreads(...input),
  listMetadata: async (...input) => (await import('./run-metadata.ts')).listMetadata(...input),
  findRuns: async () => (await import('./relations.ts')).RUNS,
  findThread: async (_, ...input) => (await import('./relations.ts')).hasThread(...input),
  countRuns: async () => (await import('./relations.ts')).SESSION_MINUTES,
  upgrade: async (...input) => (await import('./tiers.ts')).upgrade(...input),
  remove: async (...input) => (await import('./removal.ts')).remove(...input),
  expire: async services => (await import('./sweep.ts')).expire(services),
  attachFeedback: async services => (await import('./sweep.ts')).attachFeedback(services),
}
