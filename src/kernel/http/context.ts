// The context of a verb: the actor, the conditions of the request, and the database. Never Hono's context.
import type { Config } from '../../env.ts'
import type { Budget, Platform } from '../../platform.ts'
import type { MetricPoint } from '../../protocol/metrics.schema.ts'
import type { PathParameters } from '../access-scopes.ts'
import type { Sealer } from '../crypto/crypto.ts'
import type { Database } from '../db/statement.ts'
import type { Watcher, Watches } from '../db/watch.ts'
import type { Answer } from '../limits/answer-bytes.ts'
import type { ShareGroups } from '../limits/share-groups.ts'
import { type Permission, permissions } from '../permissions.ts'

/** Metrics that have come, `from` whom. `isEarly`: their minute is not over, so they are not stored. */
export type AlertPoints = { points: MetricPoint[]; isEarly: boolean; from: string }

/**
 * Services for requests and the schedule. Slices add theirs by `declare module`: `tracing/store/store.ts`.
 * @public
 */
export interface Ports {
  /** Sends the events of a workspace to its webhooks, and to channels that tell of deployments. */
  deliverEvents?: (tenant: string) => Promise<void>
  /** Sends the notices of a workspace that are due to its channels. */
  deliverNotices?: (tenant: string) => Promise<void>
  /** Looks at what alert rules wait for, soon. With points: at the metrics of these deployments. */
  lookAtAlerts?: (points?: AlertPoints) => Promise<void>
  /** Tells git hosts how the latest commits of these deployments get on. */
  notifyGitHosts?: (deployment_ids: string[]) => Promise<void>
  /** Compares the repository of a deployment with what is deployed from it. */
  compareRepository?: (deployment_id: string) => Promise<void>
  /** Compares the repositories of an integration with what is deployed, those that are due. */
  compareRepositories?: (integration_id: string) => Promise<void>
}

/**
 * Until the database has looked it up, only the hash of the key or of the session's token is known. A trace key or a
 * model token is known by what it says, its deployment and version, once its signature is verified.
 */
export type CredentialActor = { kind: 'key' | 'session' | 'deployment'; hash: string }
/** Acts without a key, after an earlier trip authorized it: a person on a page, the schedule, a git host. */
export type KeylessActor = {
  kind: 'session' | 'cron' | 'push' | 'visitor'
  id: string | null
  name?: string | null
  organization: string
  tenant: string | null
}
type Actor = CredentialActor | KeylessActor

export const hasCredential = (actor: Actor): actor is CredentialActor => 'hash' in actor

/** An application with its own credential: everything it sends belongs to the project of its deployment. */
export const isConfined = ({ actor }: Pick<Ctx, 'actor'>): boolean => actor.kind === 'deployment'

export type HostServices = { config: Config; platform: Platform }
export type DatabaseServices = HostServices & { database: Database }
export type SealingServices = HostServices & { sealer: Sealer }
/** The services of the app for one caller, without its request. */
export type CallerServices = Ports &
  DatabaseServices &
  SealingServices & {
    shareGroups: ShareGroups
    waitUntil?: (work: Promise<unknown>) => void
    /** Undefined for background work. */
    answer?: Answer | undefined
  }

export type Ctx = CallerServices & {
  actor: Actor
  /** The address of the client, for requests to the API. */
  clientAddress?: string | undefined
  /** The workspace that the request names. A workspace key need not name its own. */
  tenant: string | null
  origin: string
  requestId: string
  /** A `RequestRecord` as JSON, for the journal. Null where no request to the API is the cause. */
  request: string | null
  permission: Permission | null
  path?: PathParameters
  /** The verb shows and changes only what access policies admit, so an allow policy is enough to call it. */
  byPolicy?: boolean
  /** The verb acts in a workspace, although its permission is one of the organization. */
  inWorkspace?: boolean
  /** One of these versions must be the current one; null accepts any. */
  ifMatch: number[] | null
  withoutIfMatch: boolean
  idempotency: { key: string; fingerprint: string } | null
  /** The plan that the write applies. It fails if the plan is stale. */
  planDigest: string | null
  /** Aborted when the client disconnects, if the host notices. A function, because few verbs read it. */
  disconnectSignal?: () => AbortSignal
  /** Sent by a client that resumes a stream. */
  lastEventId?: string | undefined
  /** The request as it came, for a route that takes over its connection. */
  rawRequest?: () => Request
  /** The media types that the client takes, for an answer that has several. */
  accept?: string | undefined
  watches?: Watches
  /** The header `Slipway-Warnings`: members that are ignored, and answers that look at a part only. */
  warnings: string[]
  onKeyAccepted?: (organization: string, budget: string) => void
  /** Counts what a long answer reads as a further request, or refuses it. Undefined for background work. */
  countAgain?: () => void
  /** Set by the response, if the verb succeeds. */
  cookies?: string[]
  /** A page of another site sent the request. */
  isCrossSite?: boolean
  /** Stored bytes count towards the day's changes. */
  bodyBytes?: number
  requestInfo: RequestInfo
}

/** Events keep this of the request that caused them. The path is without its query, which may hold a secret. */
export type RequestRecord = {
  operation: string
  method: string
  path: string
  /** The status of the answer where the request succeeds. */
  status?: number
  client_address?: string
  user_agent?: string
}

/** A request to a route that takes no key. `request` is a `RequestRecord` as JSON. */
export type OpenRequest = { requestId: string; origin: string; request: string | null }

export type RequestInfo = {
  /** The id of the operation that the path names. */
  operation?: string
  /** True once the database has looked the key up, even if there is none. */
  keyLookedUp?: boolean
  organization?: string
  tenant?: string | null
  actor?: string
  /** Access policies decide which resources the caller sees. */
  isLimited?: boolean
  replayed?: boolean
  budget?: Budget
  rate?: { remaining: number; reset: number }
  code?: string
  /** The route answers failures as OAuth does. */
  oauthErrors?: boolean
  /** The route passes requests on. SDKs of other servers show the member `error` of a failure. */
  passThrough?: boolean
}

/** A context before the verb adds its permission. */
export type Caller = Omit<Ctx, 'permission' | 'byPolicy' | 'inWorkspace'>

export const createKeylessCaller = (
  services: CallerServices,
  actor: KeylessActor,
  requestId: string,
  origin: string,
  request: string | null = null,
): Caller => ({
  ...services,
  actor,
  tenant: actor.tenant,
  origin,
  requestId,
  request,
  ifMatch: null,
  withoutIfMatch: false,
  idempotency: null,
  planDigest: null,
  warnings: [],
  requestInfo: {},
})

/** Waits between two polls of a long request. Returns false once the client has disconnected. */
export async function pauseWhileConnected(ctx: Ctx, ms: number): Promise<boolean> {
  return pauseUntilAborted(ms, ctx.disconnectSignal?.())
}

/** Returns false once the signal has aborted. */
export async function pauseUntilAborted(ms: number, signal?: AbortSignal): Promise<boolean> {
  if (signal?.aborted) return false
  await new Promise<void>(resolve => {
    const finish = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', finish)
      resolve()
    }
    const timer = setTimeout(finish, ms)
    signal?.addEventListener('abort', finish)
  })
  return !signal?.aborted
}

/** Waiting needs a key or session, which is checked again meanwhile. The first trip has told the workspace. */
export const toWatcher = (ctx: Ctx): Watcher => ({
  ...credentialOf(ctx),
  workspace: ctx.requestInfo.tenant!,
  permission: ctx.permission!,
  isLimited: ctx.requestInfo.isLimited,
})
export const credentialOf = ({ actor }: Pick<Ctx, 'actor'>): CredentialActor => actor as CredentialActor

/** People with a session send hardly any runs, so theirs count towards their only budget. */
export function budgetOf({ kind }: CredentialActor, permission: Permission | null | undefined): Budget {
  if (kind === 'deployment') return 'deployment'
  return kind === 'key' && permission === 'runs:create' ? 'ingestion' : 'key'
}

export type Verb<Input, Output> = ((caller: Caller, input: Input) => Promise<Output>) & {
  permission: Permission | null
  byPolicy: boolean
  inWorkspace: boolean
}

/**
 * One operation of the API. It cannot exist without its permission. A null permission is for what every caller may do
 * to its own sessions. A verb that names no resource in its path declares `byPolicy` if it reaches tagged resources
 * only: without it, callers whose roles lack the permission are refused, whatever access policies allow.
 */
export function verb<Input, Output>(
  permission: Permission | null,
  act: (ctx: Ctx, input: Input) => Promise<Output>,
  { byPolicy = false, inWorkspace = false } = {},
): Verb<Input, Output> {
  const run = (caller: Caller, input: Input) => act({ ...caller, permission, byPolicy, inWorkspace }, input)
  return Object.assign(run, { permission, byPolicy, inWorkspace })
}

export const isWorkspaceScoped = ({ permission, inWorkspace }: Pick<Ctx, 'permission' | 'inWorkspace'>): boolean =>
  permission !== null && (inWorkspace === true || permissions[permission] === 'workspace')
