// Attempts: refused requests of known keys and sessions, and audited reads. Written after the answer, many in one trip.
import { sql } from 'drizzle-orm'
import { clockOffsetText, textArray } from '../../kernel/db/db.ts'
import { createWorkAfterResponses } from '../../kernel/http/after-response.ts'
import type { DatabaseServices } from '../../kernel/http/context.ts'
import type { Outcome } from '../../kernel/http/routes.ts'
import { createExpiringMap } from '../../kernel/limits/expiring-map.ts'
import { Uuid } from '../../protocol/wire.ts'

/** The limit of each key. The database counts exactly; an instance stops sending more. */
const MAX_PER_MINUTE = 30
const MINUTE_MS = 60_000
const KEPT_MS = 60 * MINUTE_MS
const MAX_WAITING = 1000
/** Counts keys that do not exist, too: a request refused for its body is an attempt before its key is looked up. */
const MAX_KEYS = 10_000

type Attempt = Outcome & { more: number }
/** This instance's count of a key in the current minute. */
type KeyState = {
  minute: number
  count: number
  /** Counted, and neither sent nor added to an attempt that waits. */
  unsent: number
  /** Over the limit, the count is sent in ever longer steps, so that a flood costs few trips. */
  sendAfter: number
  /** The newest attempt that waits to be sent. */
  last: Attempt | undefined
}
const newKeyState = (minute: number, unsent = 0): KeyState => ({
  minute,
  count: 0,
  unsent,
  sendAfter: MAX_PER_MINUTE,
  last: undefined,
})

export function createAttemptLog({ config, platform, database }: DatabaseServices) {
  const waiting: Attempt[] = []
  /** Keys are grouped by organization, so that those of one do not evict those of another. */
  const keys = createExpiringMap<KeyState>(MAX_KEYS, platform.clock.now)
  const startWriting = createWorkAfterResponses(platform, {
    take: () => (waiting.length > 0 ? waiting.splice(0) : undefined),
    handle: writeAttempts,
    failure: 'attempts not recorded',
  })

  /** Attempts of the minute before that were counted and not sent go with the key's next one. */
  function stateOf({ credentialHash, caller }: Outcome): KeyState {
    const minute = Math.floor(platform.clock.now() / MINUTE_MS)
    const known = keys.get(credentialHash)
    if (known?.minute === minute) return known
    const { organization } = caller.requestInfo
    return keys.set(credentialHash, newKeyState(minute, known?.unsent), KEPT_MS, organization)
  }

  async function writeAttempts(attempts: Attempt[]): Promise<void> {
    for (const { credentialHash } of attempts) {
      const state = keys.get(credentialHash)
      if (state) state.last = undefined
    }
    // Read before the import: the attempts are of this moment.
    const clockOffset = clockOffsetText({ platform })
    const { nameRouteOperation } = await import('./operation-names.ts')
    const texts = (read: (attempt: Attempt) => string | null) => sql`${sql.param(attempts.map(read))}::text[]`
    const numbers = (read: (attempt: Attempt) => number) => sql`${sql.param(attempts.map(read))}::integer[]`
    await database([
      sql`
        select from record_attempts(
          ${textArray(attempts.map(({ credentialHash }) => credentialHash))},
          ${texts(({ caller }) => Uuid.safeParse(caller.tenant).data ?? null)},
          ${texts(({ operation }) => nameRouteOperation(operation.id))},
          ${numbers(({ status }) => status)},
          ${texts(({ code }) => code)},
          ${texts(({ caller }) => caller.requestId)},
          ${texts(({ caller }) => caller.request)},
          ${numbers(({ more }) => more)},
          ${clockOffset},
          ${MAX_PER_MINUTE}
        )`,
    ])
  }

  return (outcome: Outcome): void => {
    if (!config.auditLogs || !isRecorded(outcome)) return
    const state = stateOf(outcome)
    state.count++
    const isOver = state.count > MAX_PER_MINUTE
    if (state.last && (isOver || waiting.length >= MAX_WAITING)) {
      state.last.more++
      return
    }
    if ((isOver && state.unsent + 1 < state.sendAfter) || waiting.length >= MAX_WAITING) {
      state.unsent++
      return
    }
    if (isOver) state.sendAfter *= 2
    state.last = { ...outcome, more: state.unsent }
    state.unsent = 0
    waiting.push(state.last)
    startWriting(outcome.caller.waitUntil)
  }
}

const ENDED_CREDENTIALS = ['key_revoked', 'key_expired', 'session_ended']

/**
 * Standby agents are refused all the time by protocol, and a rate limit bounds requests itself. A key that never
 * existed has no organization that could read its attempts.
 */
function isRecorded({ operation, status, code }: Outcome): boolean {
  if (status < 400) return (operation.kind === 'json' || operation.kind === 'stream') && operation.isAudited === true
  if (status === 401) return ENDED_CREDENTIALS.includes(code!)
  if (status === 403) return true
  const isWrite = operation.method !== 'get' && !operation.isReadOnly
  return isWrite && status < 500 && status !== 429 && operation.verb.permission !== 'listeners:sync'
}
