// The trace store on ClickHouse. Postgres checks permissions, and stores projects, upgrades, feedback and links. The
// parts are loaded when they are first used.
import { loadOnce } from '../../../kernel/http/load-once.ts'
import type { TraceStore } from '../store.ts'

export function clickHouseTraceStore(url: string): TraceStore {
  const connect = loadOnce(async () => (await import('../../../kernel/clickhouse/client.ts')).connectClickHouse(url))
  return {
    append: async (...input) => (await import('./append.ts')).append(await connect(), ...input),
    query: async (...input) => (await import('./query.ts')).query(await connect(), ...input),
    stats: async (...input) => (await import('./stats.ts')).stats(await connect(), ...input),
    listThreads: async (...input) => (await import('./threads.ts')).listThreads(await connect(), ...input),
    listMetadata: async (...input) => (await import('./run-metadata.ts')).listMetadata(await connect(), ...input),
    findRuns: async (...input) => (await import('./find-runs.ts')).findRuns(await connect(), ...input),
    findThread: async (...input) => (await import('./threads.ts')).findThread(await connect(), ...input),
    countRuns: async (...input) => (await import('./count-runs.ts')).countRuns(await connect(), ...input),
    upgrade: async (...input) => (await import('./tiers.ts')).upgrade(await connect(), ...input),
    remove: async (...input) => (await import('./removal.ts')).remove(await connect(), ...input),
    expire: async services => (await import('./sweep.ts')).expire(await connect(), services),
    attachFeedback: async services => (await import('./sweep.ts')).attachFeedback(await connect(), services),
  }
}
