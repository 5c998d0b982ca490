// Tokens of people: a fresh one when it is asked for, and refreshed once however many ask.
import { type SQL, sql } from 'drizzle-orm'
import { statusOf } from '../kernel/codes.ts'
import { type Ctx, createKeylessCaller, withoutRateLimit } from '../kernel/context.ts'
import type { Sealer } from '../kernel/crypto.ts'
import { run, textArray } from '../kernel/db.ts'
import { Failure, fail } from '../kernel/errors.ts'
import { createGuardedClient } from '../kernel/guarded-fetch.ts'
import { commit } from '../kernel/journal.ts'
import { requireRow } from '../kernel/rows.ts'
import type { oauthTokens } from '../tables/oauth.ts'
import * as authorization from './authorization.ts'
import type * as schema from './flow.schema.ts'
import { lockProvider, openProviderSecrets } from './rows.ts'

type TokenRow = typeof oauthTokens.$inferSelect
export type TokenRequest = {
  provider: string
  scopes: string[]
  user_id?: string | null | undefined
  force_new: boolean
}

/** A flow as it would begin, if the person has to be asked. */
export type NewFlow = { id: string; state_hash: string; sealed: string }
type StartedFlow = { id: string; scopes: string[]; verifier: string }

/** What a look at a person's connection comes to. `leased` means that the one who looks refreshes it, `elsewhere` that someone does. */
export type TokenVerdict = {
  id: string
  outcome: schema.Authentication['status'] | 'leased' | 'elsewhere'
  provider: authorization.Provider
  token: TokenRow | null
  flow: StartedFlow | null
}

// ---- sealed values

type SealedToken = 'access_token' | 'refresh_token'
type TokenOwner = Pick<TokenRow, 'tenant_id' | 'provider_id' | 'user_id'>
const sealContext = (whose: TokenOwner, member: SealedToken) =>
  `oauth_tokens.${member} ${whose.provider_id} ${whose.user_id}`

export const sealToken = (sealer: Sealer, whose: TokenOwner, member: SealedToken, plain: string | null) =>
  plain === null ? null : sealer.seal(plain, whose.tenant_id, sealContext(whose, member))

/** The values of a row, for whoever may use or end them. */
export async function openToken(sealer: Sealer, row: TokenOwner & Pick<TokenRow, SealedToken>) {
  const open = (member: SealedToken, sealed: string) => sealer.open(sealed, row.tenant_id, sealContext(row, member))
  return {
    access_token: await open('access_token', row.access_token),
    refresh_token: row.refresh_token && (await open('refresh_token', row.refresh_token)),
  }
}

// ---- a fresh one

const EXPIRY_MARGIN = sql`interval '60 seconds'`
/** Longer than a refresh may take: whoever died in one is waited for no longer. */
const REFRESH_LEASE = sql`interval '30 seconds'`
const [SHORTEST_PAUSE_MS, LONGEST_PAUSE_MS, MAX_WAIT_MS] = [100, 1000, 25_000]

/**
 * A fresh token in one trip; where it has to be refreshed, in one before the server is asked and one after. Whoever finds it being
 * refreshed looks again until it is, so that a server that rotates is asked once.
 */
export async function getFreshToken(ctx: Ctx, wanted: TokenRequest, beginning: NewFlow | null): Promise<TokenVerdict> {
  const end = Date.now() + MAX_WAIT_MS
  let lost = 0
  for (let asks = ctx, pause = SHORTEST_PAUSE_MS; ; asks = withoutRateLimit(ctx)) {
    const verdict = await lookUpToken(asks, wanted, beginning, lost)
    if (verdict.outcome === 'leased') {
      const { token, refused } = await refreshLeasedToken(withoutRateLimit(ctx), wanted, verdict)
      if (token) return { ...verdict, outcome: 'completed', token }
      lost = refused ? verdict.token!.generation : 0
    } else if (verdict.outcome === 'elsewhere') {
      if (Date.now() > end) throw fail('upstream_timeout', { about: 'the token is being refreshed by another request' })
      await new Promise(resolve => setTimeout(resolve, pause))
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS)
    } else return verdict
  }
}

/** By its name in addresses, or by its id. */
const isProviderNamed = (provider: string): SQL =>
  sql`p.organization_id = current_organization() and (p.provider_id = ${provider} or p.id::text = ${provider})`
const userIdOf = ({ user_id }: Pick<TokenRequest, 'user_id'>): SQL =>
  sql`coalesce(${user_id ?? null}, current_actor()::text)`

/** A look and what follows from it. `lost` is the generation whose refresh token the server has just refused. */
async function lookUpToken(
  ctx: Ctx,
  wanted: TokenRequest,
  beginning: NewFlow | null,
  lost: number,
): Promise<TokenVerdict> {
  const scopes = textArray(wanted.scopes)
  // The provider first, whether there is a token or not; then the token.
  const lock = sql`select from (${lockProvider(isProviderNamed(wanted.provider))}) p left join lateral (
    select from oauth_tokens t where t.provider_id = p.id and t.tenant_id = current_tenant() and t.user_id = ${userIdOf(wanted)}
    for update) t on true`
  const provider = sql`provider as (select p.* from oauth_providers p where ${isProviderNamed(wanted.provider)} limit 1)`
  const stored = sql`stored as (
    select t.* from oauth_tokens t join provider p on p.id = t.provider_id
    where t.tenant_id = current_tenant() and t.user_id = ${userIdOf(wanted)})`
  const verdict = sql`verdict as (
    select p.id as provider_id, t.id as token_id, case
      when ${wanted.force_new} or t.id is null or not t.scopes @> ${scopes} then 'pending'
      when t.revoked_at is not null or t.generation = ${lost} or t.bound_to <> oauth_binding(p) then 'connection_required'
      when t.expires_at is null or t.expires_at > clock() + ${EXPIRY_MARGIN} then 'completed'
      when t.refresh_token is null then 'token_expired'
      when t.leased_until > clock() then 'elsewhere'
      else 'leased' end as outcome
    from provider p left join stored t on true)`
  const leased = sql`leased as (
    update oauth_tokens t set leased_until = clock() + ${REFRESH_LEASE} from verdict v where v.outcome = 'leased' and t.id = v.token_id)`
  const gone = sql`gone as (
    update oauth_tokens t set revoked_at = clock(), leased_until = null from verdict v
    where t.id = v.token_id and t.generation = ${lost} and t.revoked_at is null)`
  const begun = sql`begun as (
    insert into oauth_flows (id, organization_id, tenant_id, provider_id, user_id, scopes, state_hash, verifier, bound_to, expires_at)
    select ${beginning?.id ?? null}::uuid, current_organization(), current_tenant(), p.id, ${userIdOf(wanted)}, ${requestedScopes(scopes)},
      ${beginning?.state_hash ?? null}, ${beginning?.sealed ?? null}, oauth_binding(p), clock() + interval '10 minutes'
    from verdict v join provider p on true left join stored t on true
    where ${beginning !== null} and v.outcome in ('pending', 'connection_required', 'token_expired') returning *)`
  const change = sql<TokenVerdict>`
    select coalesce(f.id, v.token_id, v.provider_id) as id, v.outcome, ${authorization.providerJson('p')} as provider,
      to_json(t) as token, to_json(f) as flow,
      case when f.id is not null then 'oauth_flow.started' when v.outcome = 'completed' then 'oauth_token.used' end as event
    from verdict v join provider p on true left join stored t on true left join begun f on true`
  const { provider: name, user_id, scopes: wish } = wanted
  const data = { provider: name, user_id: user_id ?? null, scopes: wish }
  const rows = await commit(ctx, sql`changed.event`, change, data, {
    ...{ lock, first: [provider, stored, verdict, leased, gone, begun] },
    // A token is never told again from memory: by then it may have run out.
    remember: sql`changed.flow is not null`,
  })
  return requireRow(rows, 'provider_not_found')
}

/** What there was stays, and what lets a token be refreshed comes along. */
const requestedScopes = (scopes: SQL): SQL => sql`array(
  select one from unnest(case when cardinality(${scopes}) = 0 then p.scopes else ${scopes} end || coalesce(t.scopes, '{}')
    || case when 'offline_access' = any(p.scopes) or p.provider_type = 'microsoft' then array['offline_access'] else '{}' end)
    with ordinality u(one, place) group by one order by min(place))`

/**
 * The one who holds the lease asks the server, and writes what it says if the token is still the one that was sent. No token means:
 * someone whose lease came after ours was faster, or the connection was ended meanwhile.
 */
async function refreshLeasedToken(
  ctx: Ctx,
  wanted: TokenRequest,
  verdict: TokenVerdict,
): Promise<{ token?: TokenRow; refused?: boolean }> {
  const token = verdict.token!
  try {
    const provider = await openProviderSecrets(ctx.sealer, verdict.provider)
    const { refresh_token } = await openToken(ctx.sealer, token)
    const tokens = await authorization.requestRefresh(
      createGuardedClient(ctx.config, ctx.origin),
      provider,
      refresh_token!,
    )
    return await storeRefreshedToken(ctx, wanted, token, tokens)
  } catch (error) {
    if (error instanceof Failure && error.code === 'grant_refused') return { refused: true }
    // Not journaled: a lease is no change that anyone made.
    await run(
      ctx,
      sql`update oauth_tokens t set leased_until = null
      where t.id = ${token.id}::uuid and t.generation = ${token.generation} and t.tenant_id = current_tenant()`,
    )
    throw error
  }
}

const MAX_TRIES = 3

/** What a server gives once is not lost because the database was away for a moment. */
export async function retryWrite<T>(write: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await write()
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== 'database_unavailable' || tries === MAX_TRIES) throw error
    }
  }
}

/** What a server that rotates has given is its only token: it is kept even if whoever asked may no longer see it. */
async function storeRefreshedToken(
  ctx: Ctx,
  { provider, user_id }: TokenRequest,
  token: TokenRow,
  tokens: authorization.Tokens,
) {
  const change = sql<TokenRow>`update oauth_tokens t set ${await accessTokenValues(ctx.sealer, token, tokens)},
      refresh_token = coalesce(${await sealToken(ctx.sealer, token, 'refresh_token', tokens.refresh_token)}, t.refresh_token),
      generation = t.generation + 1, leased_until = null, updated_at = clock()
    where t.id = ${token.id}::uuid and t.generation = ${token.generation} and t.tenant_id = current_tenant() returning t.*`
  const lock = lockProvider(sql`p.id = ${token.provider_id}::uuid`)
  const write = (as: Ctx) =>
    retryWrite(() =>
      commit({ ...as, idempotency: null }, 'oauth_token.refreshed', change, { provider, user_id }, { lock }),
    )
  try {
    const [token] = await write(ctx)
    return token ? { token } : {}
  } catch (error) {
    if (!(error instanceof Failure) || ![401, 403].includes(statusOf(error.code))) throw error
    const { requestInfo: seen, permission, requestId, origin } = ctx
    const actor = { kind: 'cron', id: null, organization: seen.organization!, tenant: seen.tenant! } as const
    await write({ ...createKeylessCaller(ctx, actor, requestId, origin), permission })
    throw error
  }
}

/** What a grant brings, but for its refresh token. */
export const accessTokenValues = async (
  sealer: Sealer,
  of: TokenOwner,
  { access_token, expires_in }: authorization.Tokens,
): Promise<SQL> =>
  sql`access_token = ${await sealToken(sealer, of, 'access_token', access_token)},
    expires_at = clock() + make_interval(secs => ${expires_in}::double precision)`
