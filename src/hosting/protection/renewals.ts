// Renews grants: the person's session is asked again, with all that decides what it may read. What the grant says of
// the session is sealed, so neither the browser nor the agent can use it.
import { sql } from 'drizzle-orm'
import { run } from '../../kernel/db/db.ts'
import { type Ctx, hasCredential } from '../../kernel/http/context.ts'
import { Failure } from '../../kernel/http/errors.ts'
import type { AccessRenewal } from '../../protocol/access-renewals.schema.ts'
import { isDeployment } from '../deployments/service.ts'
import { deployments } from '../deployments/tables.ts'
import { servesHost } from './served-hosts.ts'

/** After this long a person signs in again, by a navigation. */
const MAX_RENEWED_MS = 12 * 3_600_000
const SEAL_CONTEXT = 'access renewal'

type SealedSession = { hash: string; tenant: string; until: number }

/** Undefined for a key: only the session of a person in a browser is asked again. */
export async function sealRenewal(ctx: Ctx, deployment_id: string): Promise<string | undefined> {
  const { actor, requestInfo, sealer, platform } = ctx
  if (!hasCredential(actor) || actor.kind !== 'session' || requestInfo.tenant == null) return undefined
  const until = platform.clock.now() + MAX_RENEWED_MS
  const session: SealedSession = { hash: actor.hash, tenant: requestInfo.tenant, until }
  return sealer.seal(JSON.stringify(session), deployment_id, SEAL_CONTEXT)
}

/** For the listener that serves the deployment: no other agent learns whether a session holds. Null: not known now. */
export async function mayRenew(
  agent: Ctx,
  listener_id: string,
  { deployment_id, host, renewal }: AccessRenewal,
): Promise<boolean | null> {
  const session = await openSession(agent, deployment_id, renewal)
  if (session === null || session.until <= agent.platform.clock.now()) return false
  const { onKeyAccepted: _, countAgain: __, ...services } = agent
  const ctx: Ctx = {
    ...services,
    actor: { kind: 'session', hash: session.hash },
    tenant: session.tenant,
    permission: 'deployments:read',
    path: { deployment_id },
    idempotency: null,
    ifMatch: null,
    requestInfo: {},
  }
  try {
    const query = sql<[boolean]>`
      select ${servesHost(host)}
      from ${deployments}
      where ${isDeployment(deployment_id)}
        and ${deployments.listener_id} = ${listener_id}::uuid
        and ${deployments.deleting_at} is null`
    const [row] = await run(ctx, query)
    return row?.[0] === true
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return REFUSALS.has(error.code) ? false : null
  }
}

/** Anything else, as a database that is away, says nothing of the person. */
const REFUSALS = new Set<string>([
  'session_ended',
  'key_invalid',
  'permission_missing',
  'workspace_forbidden',
  'workspace_required',
  'deployment_not_found',
])

async function openSession({ sealer }: Ctx, deployment_id: string, renewal: string): Promise<SealedSession | null> {
  try {
    return JSON.parse(await sealer.open(renewal, deployment_id, SEAL_CONTEXT)) as SealedSession
  } catch {
    return null
  }
}
