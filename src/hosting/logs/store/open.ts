// Opens the log store of the installation. Its parts are loaded when they are first used.
import { loadOnce } from '../../../kernel/http/load-once.ts'
import type { LogStore } from './store.ts'

export function openLogStore(clickHouse: string | undefined, now: () => number): LogStore {
  const load = loadOnce(async () => {
    if (!clickHouse) return (await import('./postgres.ts')).postgresLogStore
    return (await import('./clickhouse.ts')).clickHouseLogStore(clickHouse, now)
  })
  return {
    append: clickHouse ? async lines => (await load()).append?.(lines) : null,
    search: async (...input) => (await load()).search(...input),
    histogram: async (...input) => (await load()).histogram(...input),
    expire: async services => (await load()).expire(services),
  }
}
