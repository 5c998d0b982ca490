// Watchers of the same subject share their looks at the database. They share data only, never promises or timers: on
// Workers these belong to one request, and end with it.
import { sql } from 'drizzle-orm'
import { limitingPermissions } from '../access-scopes.ts'
import type { Code } from '../http/codes.ts'
import { type DatabaseServices, pauseUntilAborted } from '../http/context.ts'
import { type Failure, fail, isDatabaseUnavailable } from '../http/errors.ts'
import { type Row, runAsSystem, textArray } from './db.ts'
import { setClock } from './journal.ts'
import type { Numbered, Watch, Watcher, Watches, WatchSource } from './watch.ts'

/** A feed keeps so much for watchers that are a little behind. Others read for themselves. */
const MAX_ITEMS = 1000
const MAX_BYTES = 1024 * 1024
const MAX_AGE_MS = 15_000
/** Longer than a trip may take. A host may drop the request that holds the claim; then another one claims. */
const CLAIM_MS = 5000
/** A watcher that was not seen for this long has gone, even if no host said so. */
const GONE_MS = 30_000
const DELAY_GROWTH = 1.3
/** A part of the delay, so that the first to wake up looks and the others find what it saw. */
const JITTER = 0.2
const CLAIMED_RETRY_MS = 50
const MAX_KEYS_PER_CHECK = 1000
const MAX_KEYS = 10_000
/** While the database cannot be reached, a stream goes on for this long without a check of its key or session. */
const MAX_UNCHECKED_MS = 60_000

/** `isLimited`: since it began, an access policy hides some items from it. */
type KeyState = {
  watcher: Watcher
  seenAt: number
  checkedAt: number
  refusal?: Code | undefined
  isLimited?: boolean
}

/** `items` are all items with a number over `from`, up to `to`. */
type Feed = {
  items: { item: Numbered; seenAt: number }[]
  bytes: number
  from: number
  to: number
  dueAt: number
  delay: number
  claim: { until: number } | undefined
  touchedAt: number
  keys: Map<string, KeyState>
}

export function createWatches({ config, platform, database }: DatabaseServices): Watches {
  const { lookMs, perKey, seconds, trips: maxTrips, keyCheckMs } = platform.liveStreams
  const [minDelay, maxDelay] = lookMs
  const feeds = new Map<string, Feed>()
  /** The latest end of each stream, by key or session: Workers may drop a request without a signal. */
  const streamEnds = new Map<string, number[]>()

  function admit(hash: string): () => void {
    const now = Date.now()
    if (streamEnds.size >= MAX_KEYS)
      for (const [old, ends] of streamEnds) if (ends.every(end => end <= now)) streamEnds.delete(old)
    const open = (streamEnds.get(hash) ?? []).filter(end => end > now)
    if (open.length >= perKey) throw fail('too_many_streams', { headers: { 'Retry-After': '10' } })
    const end = now + seconds * 1000 + GONE_MS
    streamEnds.set(hash, [...open, end])
    return () => {
      const rest = streamEnds.get(hash) ?? []
      const at = rest.indexOf(end)
      if (at >= 0) rest.splice(at, 1)
      if (rest.length === 0) streamEnds.delete(hash)
    }
  }

  function openFeed(subject: string, cursor: number): Feed {
    const now = Date.now()
    const known = feeds.get(subject)
    if (known && now - known.touchedAt < GONE_MS) {
      known.touchedAt = now
      return known
    }
    for (const [name, { touchedAt }] of feeds) if (now - touchedAt >= GONE_MS) feeds.delete(name)
    const feed: Feed = {
      items: [],
      bytes: 0,
      from: cursor,
      to: cursor,
      keys: new Map(),
      dueAt: now + minDelay,
      delay: minDelay,
      claim: undefined,
      touchedAt: now,
    }
    feeds.set(subject, feed)
    return feed
  }

  function addItems(feed: Feed, items: Numbered[], isLast: boolean): void {
    const now = Date.now()
    for (const item of items) {
      feed.items.push({ item, seenAt: now })
      feed.bytes += item.bytes
      feed.to = item.number
    }
    feed.delay = items.length > 0 ? minDelay : Math.min(feed.delay * DELAY_GROWTH, maxDelay)
    feed.dueAt = isLast ? now + feed.delay : now
    const isTooMuch = ({ seenAt }: Feed['items'][number], i: number) =>
      feed.items.length - i > MAX_ITEMS || feed.bytes > MAX_BYTES || now - seenAt > MAX_AGE_MS
    let dropped = 0
    for (let first = feed.items[0]; first && isTooMuch(first, dropped); first = feed.items[++dropped]) {
      feed.bytes -= first.item.bytes
      feed.from = first.item.number
    }
    feed.items.splice(0, dropped)
  }

  /** Checks callers that no look has checked lately, as `enter_by_key()` does. Returns its trips. */
  async function checkKeys(feed: Feed): Promise<number> {
    const now = Date.now()
    for (const [hash, { seenAt }] of feed.keys) if (now - seenAt > GONE_MS) feed.keys.delete(hash)
    const stale = [...feed.keys]
      .filter(([, { checkedAt }]) => now - checkedAt > keyCheckMs)
      .slice(0, MAX_KEYS_PER_CHECK)
    if (stale.length === 0) return 0
    const { workspace, permission } = stale[0]![1].watcher
    const callers = stale.map(([, { watcher }]) => watcher)
    const limiting = config.abac ? limitingPermissions(permission) : []
    const query = selectRefusals(callers, workspace, permission, limiting)
    const [, rows] = await runAsSystem(database, setClock(platform), query)
    const refusals = new Map(rows as [string, Code | 'limited'][])
    for (const [hash, state] of stale) {
      const refusal = refusals.get(hash)
      state.checkedAt = now
      state.isLimited = refusal === 'limited'
      state.refusal = refusal === 'limited' ? undefined : refusal
    }
    return 1
  }

  function watch<Item extends Numbered>(
    watcher: Watcher,
    source: WatchSource<Item>,
    start: { after: number; isLast: boolean; trips?: number },
  ): Watch<Item> {
    const { hash, isLimited } = watcher
    // Access policies hide items from a limited watcher, so it cannot share the looks of others.
    const subject = isLimited ? `${source.subject} ${hash}` : source.subject
    // The key was accepted just now. That replaces an earlier check.
    let checkedAt = Date.now()
    feeds.get(subject)?.keys.set(hash, { watcher, seenAt: checkedAt, checkedAt })
    let cursor = start.after
    let isCaughtUp = start.isLast
    let trips = start.trips ?? 1
    /** A policy limits it since it began. It may not use or make shared looks any more: the client comes back. */
    let isNewlyLimited = false

    /** The key of a slow reader, and that it was refused: only a trip of its own can tell. */
    const isForgotten = (feed: Feed) => !feed.keys.has(hash) && Date.now() - checkedAt > GONE_MS

    function requireAccess(feed: Feed): void {
      const now = Date.now()
      const known: KeyState = { watcher, seenAt: now, checkedAt }
      const state = feed.keys.get(hash) ?? known
      feed.keys.set(hash, state)
      state.seenAt = now
      if (state.refusal) throw refusalOf(state.refusal, watcher)
      if (now - state.checkedAt > MAX_UNCHECKED_MS) throw fail('database_unavailable')
      isNewlyLimited ||= state.isLimited === true
    }

    async function readOwn(until: number, signal: AbortSignal | undefined): Promise<Item[]> {
      trips++
      try {
        const { items, isLast, ...read } = await source.read(cursor, false)
        isNewlyLimited ||= read.isLimited === true && !isLimited
        checkedAt = Date.now()
        cursor = items.at(-1)?.number ?? cursor
        isCaughtUp = isLast
        return items
      } catch (error) {
        const wait = retryAfterMs(error)
        if (wait === undefined) throw error
        await pauseUntilAborted(Math.min(wait, until - Date.now()), signal)
        return []
      }
    }

    async function look(feed: Feed): Promise<void> {
      const claim = { until: Date.now() + CLAIM_MS }
      feed.claim = claim
      const { to } = feed
      trips++
      try {
        const { items, isLast, ...read } = await source.read(to, true)
        isNewlyLimited ||= read.isLimited === true && !isLimited
        if (isNewlyLimited) return
        // Another watcher took the claim over, and was faster.
        if (feed.to === to) addItems(feed, items, isLast)
        feed.keys.get(hash)!.checkedAt = Date.now()
        if (feed.claim === claim) trips += await checkKeys(feed)
      } catch (error) {
        if (!isDatabaseUnavailable(error)) throw error
        feed.dueAt = Date.now() + maxDelay
      } finally {
        if (feed.claim === claim) feed.claim = undefined
      }
    }

    async function next(until: number, signal?: AbortSignal): Promise<Item[]> {
      while (!signal?.aborted && !isNewlyLimited && trips < maxTrips && Date.now() < until) {
        const feed = isCaughtUp ? openFeed(subject, cursor) : undefined
        if (!feed || cursor < feed.from || isForgotten(feed)) {
          const items = await readOwn(until, signal)
          if (items.length > 0) return items
          continue
        }
        requireAccess(feed)
        if (isNewlyLimited) return []
        if (feed.to > cursor) {
          const items = feed.items.filter(({ item }) => item.number > cursor).map(({ item }) => item as Item)
          cursor = feed.to
          return items
        }
        const now = Date.now()
        const isClaimed = feed.claim !== undefined && now < feed.claim.until
        if (now >= feed.dueAt && !isClaimed) {
          await look(feed)
          continue
        }
        const wait = Math.max(feed.dueAt - now, isClaimed ? CLAIMED_RETRY_MS : 0) + Math.random() * JITTER * feed.delay
        await pauseUntilAborted(Math.min(wait, until - now), signal)
      }
      return []
    }

    return {
      get cursor() {
        return cursor
      },
      next,
    }
  }

  return { admit, watch }
}

/** For a failure that passes, how long to wait. */
function retryAfterMs(error: unknown): number | undefined {
  const { code, extra } = error as Partial<Failure>
  if (code !== 'rate_limited' && !isDatabaseUnavailable(error)) return undefined
  return Number(extra?.headers?.['Retry-After'] ?? 1) * 1000
}

const refusalOf = (code: Code, { permission }: Watcher): Failure =>
  fail(code, code === 'permission_missing' ? { about: permission } : {})

const selectRefusals = (callers: Watcher[], workspace: string, permission: string, limiting: string[]) => sql<Row>`
  select hash, coalesce(refusal, 'limited')
  from (
    select
      given.hash,
      case
        when s.id is null and given.kind = 'session' or not is_alive(s) then 'session_ended'
        when m.id is not null then case
          when w.id is null then 'workspace_forbidden'
          when ${permission} = any(member_permissions(m.id, w.id)) then null
          else 'permission_missing'
        end
        when a.id is null then 'key_unknown'
        when a.revoked_at is not null then 'key_revoked'
        when a.expires_at <= clock() then 'key_expired'
        when a.member_id is not null and b.permissions is null then 'key_revoked'
        when w.id is null or a.tenant_id <> w.id then 'workspace_forbidden'
        when not ${permission} = any(b.permissions) then 'permission_missing'
        when not ${permission} = any(r.permissions) or not ${permission} = any(a.permissions) then 'permission_missing'
      end as refusal,
      exists (
        select from access_rules x
        where x.organization_id = w.organization_id
          and x.effect = 'deny'
          and x.permission = any(${textArray(limiting)})
          and x.role_id = any(policy_roles(a.id, m.id, w.id))
      ) as is_limited
    from unnest(${textArray(callers.map(({ kind }) => kind))}, ${textArray(callers.map(({ hash }) => hash))})
      given(kind, hash)
    left join sessions s on given.kind = 'session' and s.token_hash = given.hash
    left join members m on m.id = s.member_id
    left join api_keys k on given.kind = 'key' and k.key_hash = given.hash
    left join api_keys a on a.id = coalesce(s.key_id, k.id)
    left join roles r on r.id = a.role_id
    left join lateral (
      select bound_key_permissions(a.id) as permissions
      where a.member_id is not null
    ) b on true
    left join workspaces w
      on w.id = ${workspace}::uuid and w.organization_id = coalesce(m.organization_id, a.organization_id)
  ) checked
  where refusal is not null or is_limited`
