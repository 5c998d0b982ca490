// The authorization code flow of one person: it starts with a token request and ends at the callback.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Row, run, runAsSystem, textArray } from '../../kernel/db/db.ts'
import { commit, setSystemSettings, type WriteParts } from '../../kernel/db/journal.ts'
import { changedMembers } from '../../kernel/db/recorded-changes.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Code, detailOf, isCode } from '../../kernel/http/codes.ts'
import {
  type Caller,
  type Ctx,
  createKeylessCaller,
  type OpenRequest,
  pauseWhileConnected,
  verb,
} from '../../kernel/http/context.ts'
import { Failure, fail } from '../../kernel/http/errors.ts'
import { createGuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { logFailureCause } from '../../kernel/http/middleware.ts'
import type { Services } from '../../kernel/http/routes.ts'
import {
  authorizationUrl,
  createFlowSecrets,
  exchangeCode,
  type FlowSecrets,
  type Provider,
  providerJson,
} from './authorization.ts'
import type * as schema from './flow.schema.ts'
import { lockProvider, openProviderSecrets } from './rows.ts'
import { type oauthFlows, oauthTokens } from './tables.ts'
import {
  getFreshToken,
  lockToken,
  type NewFlow,
  openToken,
  retryWrite,
  sealToken,
  TOKEN_RECORD,
  type TokenRequest,
  type TokenVerdict,
} from './tokens.ts'

type FlowRow = typeof oauthFlows.$inferSelect
export const VERIFIER_SEAL_CONTEXT = 'oauth_flows.verifier'

/** Prepared before the database says whether a flow is needed, so that one round trip is enough. */
async function prepareFlow({ sealer }: Ctx): Promise<NewFlow> {
  const id = crypto.randomUUID()
  const secrets = createFlowSecrets()
  const sealed = await sealer.seal(JSON.stringify(secrets), id, VERIFIER_SEAL_CONTEXT)
  return { id, state_hash: sha256Hex(secrets.state), sealed }
}

const openFlowSecrets = async (
  { sealer }: Pick<Ctx, 'sealer'>,
  flow: { id: string; verifier: string | null },
): Promise<FlowSecrets> => JSON.parse(await sealer.open(flow.verifier!, flow.id, VERIFIER_SEAL_CONTEXT))

export const authenticate = verb(
  'tokens:use',
  async (ctx, request: TokenRequest): Promise<schema.Authentication> =>
    toWire(ctx, await getFreshToken(ctx, request, await prepareFlow(ctx))),
)

async function toWire(ctx: Ctx, { outcome, provider, token, flow }: TokenVerdict): Promise<schema.Authentication> {
  if (outcome === 'completed') {
    return { status: outcome, token: (await openToken(ctx.sealer, token!)).access_token }
  }
  const url = await authorizationUrl(provider, await openFlowSecrets(ctx, flow!), flow!.scopes)
  return { status: outcome as Exclude<typeof outcome, 'leased' | 'refreshing'>, url, auth_id: flow!.id }
}

const [MIN_PAUSE_MS, MAX_PAUSE_MS] = [250, 3000]
type WaitInput = z.output<typeof schema.AuthRef> & z.output<typeof schema.AuthWaitQuery>
type FlowStatus = [
  status: string,
  failure: string | null,
  isExpired: boolean,
  user_id: string,
  scopes: string,
  provider: string,
]

/** Polls with a backoff: a request that waits holds no database connection. */
export const waitForConnection = verb('tokens:use', async (ctx, { auth_id, timeout }: WaitInput) => {
  const query = sql<Row>`
    select f.status, f.failure, f.expires_at <= clock(), f.user_id, to_json(f.scopes)::text, f.provider_id
    from oauth_flows f
    where f.id = ${auth_id}::uuid and f.tenant_id = current_tenant()`
  const deadline = Date.now() + timeout * 1000
  for (let pause = MIN_PAUSE_MS; ; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
    const row = requireRow(await run(ctx, query), 'flow_not_found')
    const [status, failure, isExpired, user_id, scopes, provider] = row as FlowStatus
    if (status === 'completed') {
      return readCompletedFlow(ctx, auth_id, {
        provider,
        user_id,
        scopes: JSON.parse(scopes),
        force_new: false,
      })
    }
    if (status === 'failed') return failedReply(auth_id, failure)
    if (isExpired) return failedReply(auth_id, 'flow_expired')
    const remaining = deadline - Date.now()
    if (remaining <= 0 || !(await pauseWhileConnected(ctx, Math.min(pause, remaining))))
      return { status: 'pending' as const, auth_id }
  }
})

/** The flow may have completed long ago: reports the state of its token now, and starts no new flow. */
async function readCompletedFlow(ctx: Ctx, auth_id: string, request: TokenRequest): Promise<schema.Authentication> {
  const verdict = await getFreshToken(ctx, request, null)
  if (verdict.outcome === 'completed') return { ...(await toWire(ctx, verdict)), auth_id }
  return { status: verdict.outcome === 'token_expired' ? 'token_expired' : 'connection_required', auth_id }
}

function failedReply(auth_id: string, failure: string | null): schema.Authentication {
  const error = isCode(failure) ? failure : 'internal'
  return { status: 'connection_required', auth_id, error, detail: detailOf(error) }
}

export type CallbackParameters = { provider_id: string; state?: string; code?: string; iss?: string; error?: string }
/** `provider` is the name that the page shows, or null if the state led to no provider. */
export type CallbackResult = { provider: string | null; failure: Code | null }

/** The form of the states that we issue: any other text is refused without a query. */
const STATE_PATTERN = /^[\w-]{43}$/
/** A `provider_id` or an `id`. */
const PROVIDER_PATTERN = /^[\w-]{1,63}$/

type ClaimedFlow = { flow: FlowRow; provider: Provider; isUnchanged: boolean }

/** A state works once. One that is used, expired, unknown or of another provider is refused alike. */
const claimFlow = (state_hash: string, provider_id: string): SQL<Row> => sql`
  update oauth_flows f
  set status = 'answered'
  from oauth_providers p
  where f.state_hash = ${state_hash}
    and f.status = 'pending'
    and f.expires_at > clock()
    and p.id = f.provider_id
    and (p.provider_id = ${provider_id} or p.id::text = ${provider_id})
  returning json_build_object(
    'flow', to_json(f),
    'provider', ${providerJson('p')},
    'isUnchanged', f.bound_to = oauth_binding(p))::text`

/** One round trip claims the state, another stores the outcome. The token request runs between them. */
export async function completeCallback(
  services: Services,
  { requestId, origin, request }: OpenRequest,
  parameters: CallbackParameters,
): Promise<CallbackResult> {
  const { platform, database } = services
  if (!STATE_PATTERN.test(parameters.state ?? '') || !PROVIDER_PATTERN.test(parameters.provider_id))
    return { provider: null, failure: 'state_invalid' }
  const claim = claimFlow(sha256Hex(parameters.state!), parameters.provider_id)
  const [, [row]] = (await runAsSystem(database, setSystemSettings(platform, requestId, request), claim)) as [
    unknown,
    Row[],
  ]
  if (!row) return { provider: null, failure: 'state_invalid' }
  const claimed = JSON.parse(row[0] as string) as ClaimedFlow
  const { flow, provider } = claimed
  const { organization_id: organization, tenant_id: tenant, user_id: name } = flow
  const actor = { kind: 'session', id: null, name, organization, tenant } as const
  const caller = createKeylessCaller(services, actor, requestId, origin, request)
  try {
    await connectPerson(caller, claimed, parameters)
    return { provider: provider.name, failure: null }
  } catch (error) {
    const failure = error instanceof Failure ? error.code : 'internal'
    if (error instanceof Failure) logFailureCause(error, requestId, platform)
    await failFlow(caller, flow, failure)
    if (failure === 'internal') throw error
    return { provider: provider.name, failure }
  }
}

const withAuthenticatePermission = (caller: Caller): Ctx => ({ ...caller, permission: authenticate.permission })
const connectionEventData = ({ user_id, provider_id }: FlowRow, provider: Provider) => ({
  provider: provider.provider_id,
  provider_id,
  user_id,
})

async function connectPerson(
  caller: Caller,
  { flow, provider, isUnchanged }: ClaimedFlow,
  parameters: CallbackParameters,
): Promise<void> {
  const code = requireCode(parameters, provider)
  if (!isUnchanged) throw fail('provider_changed')
  const { sealer, config, platform, origin } = caller
  const { verifier } = await openFlowSecrets(caller, flow)
  const http = createGuardedClient({ config, platform }, origin)
  const tokens = await exchangeCode(http, await openProviderSecrets(sealer, provider), code, verifier)
  const grantedScopes = textArray([...new Set([...flow.scopes, ...(tokens.scopes ?? [])])])
  const change = sql<{ id: string }>`
    insert into oauth_tokens as t (
      organization_id, tenant_id, provider_id, user_id, scopes,
      access_token, refresh_token, token_type, bound_to, expires_at)
    select f.organization_id, f.tenant_id, f.provider_id, f.user_id, ${grantedScopes},
      ${await sealToken(sealer, flow, 'access_token', tokens.access_token)},
      ${await sealToken(sealer, flow, 'refresh_token', tokens.refresh_token)}, 'Bearer', f.bound_to,
      clock() + make_interval(secs => ${tokens.expires_in}::double precision)
    from oauth_flows f
    where f.id = ${flow.id}::uuid and f.tenant_id = current_tenant() and f.status = 'answered'
    on conflict on constraint oauth_tokens_one do update set
      scopes = excluded.scopes,
      access_token = excluded.access_token,
      refresh_token = excluded.refresh_token,
      bound_to = excluded.bound_to,
      expires_at = excluded.expires_at,
      generation = t.generation + 1,
      leased_until = null,
      revoked_at = null,
      updated_at = clock()
    returning t.id, t.provider_id, t.user_id, t.scopes, t.expires_at, t.revoked_at`
  const completed = sql`completed as (
    update oauth_flows f
    set status = 'completed'
    from changed
    where f.id = ${flow.id}::uuid and f.tenant_id = current_tenant())`
  const parts: WriteParts = {
    ctesAfter: [completed],
    lock: lockToken(flow),
    changes: changedMembers(oauthTokens, TOKEN_RECORD),
  }
  const ctx = withAuthenticatePermission(caller)
  const rows = await retryWrite(() =>
    commit(ctx, 'oauth_token.connected', change, connectionEventData(flow, provider), parts),
  )
  // No row also means that an earlier attempt wrote it, and only its reply was lost.
  if (rows.length === 0) requireRow(await run(ctx, selectCompletedFlow(flow)), 'state_invalid')
}

const selectCompletedFlow = ({ id }: FlowRow): SQL<Row> => sql`
  select from oauth_flows f
  where f.id = ${id}::uuid and f.tenant_id = current_tenant() and f.status = 'completed'`

/** Checks the issuer first, so that an error from another server is not believed (RFC 9207). */
function requireCode({ iss, error, code }: CallbackParameters, { issuer, issuer_in_answers }: Provider): string {
  if (issuer !== null && (iss === undefined ? issuer_in_answers : iss !== issuer)) throw fail('answer_issuer_mismatch')
  if (error === 'access_denied') throw fail('authorization_denied')
  if (error !== undefined || !code) throw fail('authorization_refused')
  return code
}

async function failFlow(caller: Caller, flow: FlowRow, failure: Code): Promise<void> {
  const change = sql<{ id: string }>`
    update oauth_flows f
    set status = 'failed', failure = ${failure}
    where f.id = ${flow.id}::uuid and f.tenant_id = current_tenant() and f.status = 'answered'
    returning f.id`
  const lock = lockProvider(sql`p.id = ${flow.provider_id}::uuid`)
  await commit(
    withAuthenticatePermission(caller),
    'oauth_flow.failed',
    change,
    { user_id: flow.user_id, failure },
    { lock },
  )
}
