// Attempts: refused requests of known keys, and audited reads. Written after the answer, many in one trip.
import { sql } from 'drizzle-orm'
import { textArray } from '../kernel/db.ts'
import type { Outcome, Services } from '../kernel/routes.ts'
import { Uuid } from '../protocol/wire.ts'
import { nameRouteOperation } from './operation-names.ts'

/** Of each key and minute. The database counts exactly; an instance stops sending more. */
const MAX_PER_MINUTE = 30
const MINUTE_MS = 60_000
const MAX_WAITING = 1000

type Attempt = Outcome & { more: number }

export function createAttemptLog({ config, database }: Pick<Services, 'config' | 'database'>) {
  const waiting: Attempt[] = []
  /** By the hash of the key: how many were sent in this minute, and the last one that waits. */
  let sent = new Map<string, { count: number; last: Attempt | undefined }>()
  let minute = 0
  let isWriting = false

  async function writeAll(): Promise<void> {
    isWriting = true
    try {
      while (waiting.length > 0) await writeAttempts(waiting.splice(0))
    } catch (error) {
      config.log({ level: 'error', error: 'attempts not recorded', message: String((error as Error).cause ?? error) })
    } finally {
      isWriting = false
    }
  }

  async function writeAttempts(attempts: Attempt[]): Promise<void> {
    for (const entry of sent.values()) entry.last = undefined
    const texts = (read: (attempt: Attempt) => string | null) => sql`${sql.param(attempts.map(read))}::text[]`
    const numbers = (read: (attempt: Attempt) => number) => sql`${sql.param(attempts.map(read))}::integer[]`
    await database([
      sql`
        select from record_attempts(
          ${textArray(attempts.map(({ keyHash }) => keyHash))},
          ${texts(({ caller }) => Uuid.safeParse(caller.tenant).data ?? null)},
          ${texts(({ operation }) => nameRouteOperation(operation.id))},
          ${numbers(({ status }) => status)},
          ${texts(({ code }) => code)},
          ${texts(({ caller }) => caller.requestId)},
          ${texts(({ caller }) => caller.request)},
          ${numbers(({ more }) => more)},
          ${`${config.clockOffset()} ms`},
          ${MAX_PER_MINUTE}
        )`,
    ])
  }

  return (outcome: Outcome): void => {
    if (!config.auditLogs || !isRecorded(outcome)) return
    const now = Math.floor(Date.now() / MINUTE_MS)
    if (now !== minute) {
      sent = new Map()
      minute = now
    }
    const ofKey = sent.get(outcome.keyHash) ?? { count: 0, last: undefined }
    sent.set(outcome.keyHash, ofKey)
    ofKey.count++
    if (ofKey.last && (ofKey.count > MAX_PER_MINUTE || waiting.length >= MAX_WAITING)) {
      ofKey.last.more++
      return
    }
    if (waiting.length >= MAX_WAITING) return
    ofKey.last = { ...outcome, more: 0 }
    waiting.push(ofKey.last)
    if (!isWriting) outcome.caller.waitUntil?.(writeAll())
  }
}

const REFUSED_KEYS = ['key_revoked', 'key_expired']

/**
 * Standby agents are refused all the time by protocol, and a rate limit bounds requests itself. A key that never
 * existed has no organization that could read its attempts.
 */
function isRecorded({ operation, status, code }: Outcome): boolean {
  if (status < 400) return operation.isAudited === true
  if (status === 401) return REFUSED_KEYS.includes(code!)
  if (status === 403) return true
  const isWrite = operation.method !== 'get' && !operation.isReadOnly
  return isWrite && status < 500 && status !== 429 && operation.verb?.permission !== 'listeners:sync'
}
