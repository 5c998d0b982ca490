// Access tokens of people: returns a valid one, and refreshes an expired one once for all concurrent requests.
import { type SQL, sql } from 'drizzle-orm'
import type { Sealer } from '../../kernel/crypto/crypto.ts'
import { run, textArray } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { statusOf } from '../../kernel/http/codes.ts'
import { type Ctx, createKeylessCaller } from '../../kernel/http/context.ts'
import { Failure, fail, isDatabaseUnavailable } from '../../kernel/http/errors.ts'
import { createGuardedClient } from '../../kernel/http/guarded-fetch.ts'
import * as authorization from './authorization.ts'
import type * as schema from './flow.schema.ts'
import { lockProvider, openProviderSecrets } from './rows.ts'
import { oauthTokens } from './tables.ts'

type TokenRow = typeof oauthTokens.$inferSelect
export type TokenRequest = {
  provider: string
  scopes: string[]
  user_id?: string | null | undefined
  force_new: boolean
}

export type NewFlow = { id: string; state_hash: string; sealed: string }
type StartedFlow = { id: string; scopes: string[]; verifier: string }

/** `leased`: this request refreshes the token. `refreshing`: another request does. */
export type TokenVerdict = {
  id: string
  outcome: schema.Authentication['status'] | 'leased' | 'refreshing'
  provider: authorization.Provider
  token: TokenRow | null
  flow: StartedFlow | null
}

export const TOKEN_RECORD = recordColumns(oauthTokens, ['provider_id', 'user_id', 'scopes', 'expires_at', 'revoked_at'])

/** Locks the provider first: see lockProvider(). */
export const lockToken = ({ tenant_id, provider_id, user_id }: TokenOwner): SQL[] => [
  lockProvider(sql`p.id = ${provider_id}::uuid`),
  sql`
    select from oauth_tokens t
    where t.tenant_id = ${tenant_id}::uuid and t.provider_id = ${provider_id}::uuid and t.user_id = ${user_id}
    for update`,
]

// ---- sealed values

export type SealedToken = 'access_token' | 'refresh_token'
export type TokenOwner = Pick<TokenRow, 'tenant_id' | 'provider_id' | 'user_id'>
export const sealContext = (owner: TokenOwner, member: SealedToken) =>
  `oauth_tokens.${member} ${owner.provider_id} ${owner.user_id}`

export const sealToken = (sealer: Sealer, owner: TokenOwner, member: SealedToken, plain: string | null) =>
  plain === null ? null : sealer.seal(plain, owner.tenant_id, sealContext(owner, member))

export async function openToken(sealer: Sealer, row: TokenOwner & Pick<TokenRow, SealedToken>) {
  const open = (member: SealedToken, sealed: string) => sealer.open(sealed, row.tenant_id, sealContext(row, member))
  return {
    access_token: await open('access_token', row.access_token),
    refresh_token: row.refresh_token && (await open('refresh_token', row.refresh_token)),
  }
}

// ---- fresh tokens

const EXPIRY_MARGIN = sql`interval '60 seconds'`
/** Longer than a refresh takes: after it, another request takes over from one that died. */
const REFRESH_LEASE = sql`interval '30 seconds'`
const [MIN_PAUSE_MS, MAX_PAUSE_MS, MAX_WAIT_MS] = [100, 1000, 25_000]

/**
 * One round trip for a valid token, two for a refresh: one before and one after the request to the server. A request
 * that finds a refresh in progress polls for its result, because a server that rotates refresh tokens takes each once.
 */
export async function getFreshToken(ctx: Ctx, request: TokenRequest, newFlow: NewFlow | null): Promise<TokenVerdict> {
  const deadline = Date.now() + MAX_WAIT_MS
  let refusedGeneration = 0
  for (let pause = MIN_PAUSE_MS; ; ) {
    const verdict = await lookUpToken(ctx, request, newFlow, refusedGeneration)
    if (verdict.outcome === 'leased') {
      const { token, isRefused } = await refreshLeasedToken(ctx, request, verdict)
      if (token) return { ...verdict, outcome: 'completed', token }
      refusedGeneration = isRefused ? verdict.token!.generation : 0
    } else if (verdict.outcome === 'refreshing') {
      if (Date.now() > deadline) throw fail('upstream_timeout', { about: 'another request is refreshing the token' })
      await new Promise(resolve => setTimeout(resolve, pause))
      pause = Math.min(pause * 2, MAX_PAUSE_MS)
    } else return verdict
  }
}

const isProviderNamed = (provider: string): SQL =>
  sql`p.organization_id = current_organization() and (p.provider_id = ${provider} or p.id::text = ${provider})`
const userIdOf = ({ user_id }: Pick<TokenRequest, 'user_id'>): SQL =>
  sql`coalesce(${user_id ?? null}, current_actor()::text)`

/** `refusedGeneration`: the generation whose refresh token the server has just refused, or 0. */
async function lookUpToken(
  ctx: Ctx,
  request: TokenRequest,
  newFlow: NewFlow | null,
  refusedGeneration: number,
): Promise<TokenVerdict> {
  // Locks the provider before the token, even if there is no token: see lockProvider().
  const lock = sql`
    select from (${lockProvider(isProviderNamed(request.provider))}) p
    left join lateral (
      select from oauth_tokens t
      where t.provider_id = p.id and t.tenant_id = current_tenant() and t.user_id = ${userIdOf(request)}
      for update) t on true`
  const provider = sql`provider as (
    select p.*
    from oauth_providers p
    where ${isProviderNamed(request.provider)}
    limit 1)`
  const stored = sql`stored as (
    select t.*
    from oauth_tokens t
    join provider p on p.id = t.provider_id
    where t.tenant_id = current_tenant() and t.user_id = ${userIdOf(request)})`
  const verdict = sql`verdict as (
    select p.id as provider_id, t.id as token_id, case
      when ${request.force_new} or t.id is null or not t.scopes @> ${textArray(request.scopes)} then 'pending'
      when t.revoked_at is not null
        or t.generation = ${refusedGeneration}
        or t.bound_to <> oauth_binding(p) then 'connection_required'
      when t.expires_at is null or t.expires_at > clock() + ${EXPIRY_MARGIN} then 'completed'
      when t.refresh_token is null then 'token_expired'
      when t.leased_until > clock() then 'refreshing'
      else 'leased' end as outcome
    from provider p
    left join stored t on true)`
  const leased = sql`leased as (
    update oauth_tokens t
    set leased_until = clock() + ${REFRESH_LEASE}
    from verdict v
    where v.outcome = 'leased' and t.id = v.token_id)`
  const revoked = sql`revoked as (
    update oauth_tokens t
    set revoked_at = clock(), leased_until = null
    from verdict v
    where t.id = v.token_id and t.generation = ${refusedGeneration} and t.revoked_at is null
    returning t.id)`
  const change = sql<TokenVerdict>`
    select coalesce(f.id, v.token_id, v.provider_id) as id,
      v.outcome,
      ${authorization.providerJson('p')} as provider,
      to_json(t) as token,
      to_json(f) as flow,
      case
        when f.id is not null then 'oauth_flow.started'
        when v.outcome = 'completed' then 'oauth_token.used'
      end as event
    from verdict v
    join provider p on true
    left join stored t on true
    left join started_flow f on true`
  const data = { provider: request.provider, user_id: request.user_id ?? null, scopes: request.scopes }
  const rows = await commit(ctx, sql`changed.event`, change, data, {
    lock,
    ctesBefore: [provider, stored, verdict, leased, revoked, startFlow(request, newFlow)],
    // A token is not stored for replays under an idempotency key: by then it may have expired.
    answerCondition: sql`changed.flow is not null`,
    otherEvents: sql`
      select 'oauth_token.refused', r.id, ${JSON.stringify(data)}::json, null::json
      from revoked r`,
  })
  return requireRow(rows, 'provider_not_found')
}

/** Unless a token is valid or can be refreshed. */
const startFlow = (request: TokenRequest, newFlow: NewFlow | null): SQL => sql`started_flow as (
    insert into oauth_flows (
      id, organization_id, tenant_id, provider_id, user_id, scopes,
      state_hash, verifier, bound_to, expires_at)
    select ${newFlow?.id ?? null}::uuid, current_organization(), current_tenant(), p.id, ${userIdOf(request)},
      ${requestedScopes(textArray(request.scopes))}, ${newFlow?.state_hash ?? null}, ${newFlow?.sealed ?? null},
      oauth_binding(p), clock() + interval '10 minutes'
    from verdict v
    join provider p on true
    left join stored t on true
    where ${newFlow !== null} and v.outcome in ('pending', 'connection_required', 'token_expired')
    returning *)`

/** The requested scopes, those granted before, and the one that earns a refresh token; each once, in this order. */
const requestedScopes = (scopes: SQL): SQL => sql`array(
  select scope
  from unnest(
    case when cardinality(${scopes}) = 0 then p.scopes else ${scopes} end
    || coalesce(t.scopes, '{}')
    || case
      when 'offline_access' = any(p.scopes) or p.provider_type = 'microsoft' then array['offline_access']
      else '{}'
    end) with ordinality u(scope, position)
  group by scope
  order by min(position))`

/** Returns no token if the row changed meanwhile: a later lease refreshed it first, or the connection was deleted. */
async function refreshLeasedToken(
  ctx: Ctx,
  request: TokenRequest,
  verdict: TokenVerdict,
): Promise<{ token?: TokenRow; isRefused?: boolean }> {
  const token = verdict.token!
  try {
    const provider = await openProviderSecrets(ctx.sealer, verdict.provider)
    const { refresh_token } = await openToken(ctx.sealer, token)
    const tokens = await authorization.requestRefresh(createGuardedClient(ctx, ctx.origin), provider, refresh_token!)
    return await storeRefreshedToken(ctx, request, token, tokens)
  } catch (error) {
    if (error instanceof Failure && error.code === 'grant_refused') return { isRefused: true }
    // The journal does not record it: returning a lease is not a change by a caller.
    await run(
      ctx,
      sql`
        update oauth_tokens t
        set leased_until = null
        where t.id = ${token.id}::uuid and t.generation = ${token.generation} and t.tenant_id = current_tenant()`,
    )
    throw error
  }
}

const MAX_ATTEMPTS = 3

/** Retries while the database is unavailable, because a server issues these tokens only once. */
export async function retryWrite<T>(write: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await write()
    } catch (error) {
      if (!isDatabaseUnavailable(error) || attempt === MAX_ATTEMPTS) throw error
    }
  }
}

/** Stores the token even if the caller lost its permission meanwhile: a server that rotates tokens issued no other. */
async function storeRefreshedToken(
  ctx: Ctx,
  { provider, user_id }: TokenRequest,
  token: TokenRow,
  tokens: authorization.Tokens,
) {
  const newRefreshToken = await sealToken(ctx.sealer, token, 'refresh_token', tokens.refresh_token)
  const change = sql<TokenRow>`
    update oauth_tokens t
    set ${await accessTokenValues(ctx.sealer, token, tokens)},
      refresh_token = coalesce(${newRefreshToken}, t.refresh_token),
      generation = t.generation + 1,
      leased_until = null,
      updated_at = clock()
    where t.id = ${token.id}::uuid and t.generation = ${token.generation} and t.tenant_id = current_tenant()
    returning t.*`
  const data = { provider, user_id }
  const parts = { lock: lockToken(token), changes: changedMembers(oauthTokens, TOKEN_RECORD) }
  const write = (writer: Ctx) =>
    retryWrite(() => commit({ ...writer, idempotency: null }, 'oauth_token.refreshed', change, data, parts))
  try {
    const [stored] = await write(ctx)
    return stored ? { token: stored } : {}
  } catch (error) {
    if (!(error instanceof Failure) || ![401, 403].includes(statusOf(error.code))) throw error
    const { requestInfo, permission, requestId, origin, request } = ctx
    const actor = {
      kind: 'cron',
      id: null,
      organization: requestInfo.organization!,
      tenant: requestInfo.tenant!,
    } as const
    await write({ ...createKeylessCaller(ctx, actor, requestId, origin, request), permission })
    throw error
  }
}

const accessTokenValues = async (
  sealer: Sealer,
  owner: TokenOwner,
  { access_token, expires_in }: authorization.Tokens,
): Promise<SQL> =>
  sql`access_token = ${await sealToken(sealer, owner, 'access_token', access_token)},
    expires_at = clock() + make_interval(secs => ${expires_in}::double precision)`
