// Measures how long tables are locked against reads or writes, and how long anything waits for such a lock.
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'

const EVERY_MS = 20
export type Longest = { ms: number; what: string }

/** Locks of the tables that exist now: no one else uses yet those that a migration creates. */
export async function watchLocks(url: string): Promise<{ stop(): Promise<{ lock: Longest; wait: Longest }> }> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query(`
    select array_agg(oid::integer) as tables
    from pg_class
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')`)
  const held = new Map<string, { since: number; what: string }>()
  const lock: Longest = { ms: 0, what: 'none' }
  const wait: Longest = { ms: 0, what: 'none' }
  let isStopping = false
  const raise = (longest: Longest, ms: number, what: string) => {
    if (ms > longest.ms) Object.assign(longest, { ms, what })
  }
  const watching = (async () => {
    while (!isStopping) {
      const { rows: locks } = await client.query(LOCKS, [rows[0].tables])
      const now = performance.now()
      const current = new Set<string>()
      for (const { pid, mode, table, granted, waited_ms, query } of locks) {
        const what = `${mode} of ${table} by: ${query}`
        if (!granted) raise(wait, waited_ms, what)
        else if (!['ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'].includes(mode))
          continue
        const key = `${pid} ${mode} ${table} ${granted}`
        if (!granted) continue
        current.add(key)
        if (!held.has(key)) held.set(key, { since: now, what })
      }
      for (const [key, { since, what }] of held) {
        // Up to now at most: it was still held at the look before.
        raise(lock, now - since, what)
        if (!current.has(key)) held.delete(key)
      }
      await delay(EVERY_MS)
    }
  })()
  return {
    stop: async () => {
      isStopping = true
      await watching
      await client.end()
      return { lock, wait }
    },
  }
}

const LOCKS = `
  select l.pid, l.mode, l.relation::regclass::text as table, l.granted,
    coalesce(extract(epoch from clock_timestamp() - l.waitstart) * 1000, 0)::float as waited_ms,
    left(regexp_replace(a.query, '\\s+', ' ', 'g'), 80) as query
  from pg_locks l
  join pg_stat_activity a using (pid)
  where l.locktype = 'relation'
    and l.relation = any($1::oid[])
    and l.database = (select oid from pg_database where datname = current_database())
    and (not l.granted or l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))`
