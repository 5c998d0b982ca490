// What a verb knows: who asks, what they asked for besides the input, and the database. Never Hono's context.
import type { Config } from '../env.ts'
import type { Sealer } from './crypto.ts'
import { type Permission, permissions } from './permissions.ts'
import type { Database } from './statement.ts'

/** A key is known by its hash until enter() has found it. */
export type KeyActor = { kind: 'key'; hash: string }
/** Who acts without a key, where an earlier trip found that it may: a person at a page, the schedule, a git host. */
export type KeylessActor = {
  kind: 'session' | 'cron' | 'push'
  id: string | null
  /** Whom another system knows by a name only. */
  name?: string | null
  organization: string
  tenant: string | null
}
/** Whoever asks. */
type Actor = KeyActor | KeylessActor

export type Ctx = {
  config: Config
  database: Database
  sealer: Sealer
  actor: Actor
  /** The workspace asked for, if any: a workspace key need not name its own. */
  tenant: string | null
  /** Where this installation was asked, for the addresses that it gives. */
  origin: string
  requestId: string
  permission: Permission
  /** Versions of which one must still be the current one; null accepts any. */
  ifMatch: number[] | null
  /** A conditional write that came without its condition. */
  withoutIfMatch: boolean
  idempotency: { key: string; fingerprint: string } | null
  /** The plan that a write applies, and no other. */
  planDigest: string | null
  /** Aborted when whoever asked is gone, where the host notices; made for those who look at it. */
  disconnectSignal?: () => AbortSignal
  /** Work that goes on after the answer; without it, whoever acts waits. */
  waitUntil?: (work: Promise<unknown>) => void
  /** Called as soon as the database has let the key in. */
  onKeyAccepted?: () => void
  /** Of the request; what it stores counts towards the day's changes. */
  bodyBytes?: number
  /** What is learnt on the way, for the answer's headers and the log. */
  requestInfo: RequestInfo
}

export type RequestInfo = {
  /** The database was asked to let the key in. */
  keyLookedUp?: boolean
  organization?: string
  tenant?: string | null
  actor?: string
  replayed?: boolean
  rate?: { remaining: number; reset: number }
  code?: string
}

/** What the edge hands to a verb; the verb adds its permission. */
export type Caller = Omit<Ctx, 'permission'>

/** Whoever acts without a key calls the same verbs, with nothing asked besides. */
export const createKeylessCaller = (
  services: Pick<Ctx, 'config' | 'database' | 'sealer'>,
  actor: KeylessActor,
  requestId: string,
  origin: string,
): Caller => ({
  ...services,
  ...{ actor, tenant: actor.tenant, origin, requestId },
  ...{ ifMatch: null, withoutIfMatch: false, idempotency: null, planDigest: null, requestInfo: {} },
})

/** Between two looks of a request that waits: false when nobody waits for its answer any more. */
export async function pauseWhileConnected(ctx: Ctx, ms: number): Promise<boolean> {
  const gone = ctx.disconnectSignal?.()
  if (gone?.aborted) return false
  await new Promise<void>(resolve => {
    const over = () => {
      clearTimeout(timer)
      gone?.removeEventListener('abort', over)
      resolve()
    }
    const timer = setTimeout(over, ms)
    gone?.addEventListener('abort', over)
  })
  return !gone?.aborted
}

/** For the trips of a request after its first: it is one request, and counts once towards the rate. */
export const withoutRateLimit = (ctx: Ctx): Ctx => ({ ...ctx, config: { ...ctx.config, rateLimit: 0 } })

export type Verb<Input, Output> = ((caller: Caller, input: Input) => Promise<Output>) & { permission: Permission }

/** One thing a caller can do. It states its permission, so that it cannot forget it. */
export function verb<Input, Output>(
  permission: Permission,
  act: (ctx: Ctx, input: Input) => Promise<Output>,
): Verb<Input, Output> {
  return Object.assign((caller: Caller, input: Input) => act({ ...caller, permission }, input), { permission })
}

export const isWorkspaceScoped = ({ permission }: { permission: Permission }): boolean =>
  permissions[permission] === 'workspace'
