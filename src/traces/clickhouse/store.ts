// The trace store on ClickHouse. Postgres decides what a caller may do, and keeps what is small: projects, upgrades,
// feedback and links. The parts are loaded when they are first used.
import type { TraceStore } from '../store.ts'
import { connectClickHouse } from './client.ts'

export function clickHouseTraceStore(url: string): TraceStore {
  const clickHouse = connectClickHouse(url)
  return {
    append: async (...input) => (await import('./append.ts')).append(clickHouse, ...input),
    query: async (...input) => (await import('./query.ts')).query(clickHouse, ...input),
    stats: async (...input) => (await import('./stats.ts')).stats(clickHouse, ...input),
    listThreads: async (...input) => (await import('./threads.ts')).listThreads(clickHouse, ...input),
    listMetadata: async (...input) => (await import('./run-metadata.ts')).listMetadata(clickHouse, ...input),
    findRuns: async (...input) => (await import('./find-runs.ts')).findRuns(clickHouse, ...input),
    countRuns: async (...input) => (await import('./count-runs.ts')).countRuns(clickHouse, ...input),
    upgrade: async (...input) => (await import('./tiers.ts')).upgrade(clickHouse, ...input),
    remove: async (...input) => (await import('./removal.ts')).remove(clickHouse, ...input),
    expire: async services => {
      await (await import('./expiry.ts')).expire(clickHouse, services)
      await (await import('../postgres/span-expiry.ts')).expireSpans(services)
    },
    attachFeedback: async services => (await import('./expiry.ts')).attachFeedback(clickHouse, services),
  }
}
