// A person's way to a provider and back: it begins when a token is asked for, and ends at the callback.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Code, isCode, sentenceOf } from '../kernel/codes.ts'
import { type Caller, type Ctx, callerFor, pause, uncounted, verb } from '../kernel/context.ts'
import { type Row, run, runAsSystem, textArray } from '../kernel/db.ts'
import { sha256Hex } from '../kernel/digest.ts'
import { logged } from '../kernel/edge.ts'
import { Failure, fail } from '../kernel/errors.ts'
import { outside } from '../kernel/guarded-fetch.ts'
import { clockOf, commit, systemSettings } from '../kernel/journal.ts'
import type { Services } from '../kernel/routes.ts'
import { found } from '../kernel/rows.ts'
import type { oauthFlows } from '../tables.ts'
import { authorizationUrl, exchange, newSecrets, type Provider, providerJson, type Secrets } from './authorization.ts'
import type * as schema from './flow.schema.ts'
import { heldProvider, opened } from './rows.ts'
import { type Beginning, freshToken, openToken, persistently, sealToken, type Verdict, type Wanted } from './tokens.ts'

type FlowRow = typeof oauthFlows.$inferSelect
const PLACE = 'oauth_flows.verifier'

// ---- there

/** Whether it is needed is found out in the one trip, so it is at hand before. */
async function beginning({ sealer }: Ctx): Promise<Beginning> {
  const id = crypto.randomUUID()
  const secrets = newSecrets()
  const sealed = await sealer.seal(JSON.stringify(secrets), id, PLACE)
  return { id, state_hash: sha256Hex(secrets.state), sealed }
}

const secretsOf = async (
  { sealer }: Pick<Ctx, 'sealer'>,
  flow: { id: string; verifier: string | null },
): Promise<Secrets> => JSON.parse(await sealer.open(flow.verifier!, flow.id, PLACE))

export const authenticate = verb(
  'tokens:use',
  async (ctx, wanted: Wanted): Promise<schema.Authentication> =>
    toWire(ctx, await freshToken(ctx, wanted, await beginning(ctx))),
)

async function toWire(ctx: Ctx, { outcome, provider, token, flow }: Verdict): Promise<schema.Authentication> {
  if (outcome === 'completed') {
    return { status: outcome, token: (await openToken(ctx.sealer, token!)).access_token }
  }
  const url = await authorizationUrl(provider, await secretsOf(ctx, flow!), flow!.scopes)
  return { status: outcome as Exclude<typeof outcome, 'leased' | 'elsewhere'>, url, auth_id: flow!.id }
}

// ---- waiting

const [SHORTEST_MS, LONGEST_MS] = [250, 3000]
type Waiting = z.output<typeof schema.AuthRef> & z.output<typeof schema.AuthWaitQuery>
type Seen = [status: string, failure: string | null, expired: boolean, user: string, scopes: string, provider: string]

/** Short trips in between, and no connection held. */
export const waitForConnection = verb('tokens:use', async (ctx, { auth_id, timeout }: Waiting) => {
  const query = sql<Row>`select f.status, f.failure, f.expires_at <= clock(), f.user_id, to_json(f.scopes)::text, f.provider_id
    from oauth_flows f where f.id = ${auth_id}::uuid and f.tenant_id = current_tenant()`
  const end = Date.now() + timeout * 1000
  for (let asks = ctx, ms = SHORTEST_MS; ; asks = uncounted(ctx), ms = Math.min(ms * 2, LONGEST_MS)) {
    const [status, failure, expired, user_id, scopes, provider] = found(
      await run(asks, query),
      'flow_not_found',
    ) as Seen
    if (status === 'completed') {
      return arrived(uncounted(ctx), auth_id, { provider, user_id, scopes: JSON.parse(scopes), force_new: false })
    }
    if (status === 'failed') return ended(auth_id, failure)
    if (expired) return ended(auth_id, 'flow_expired')
    const left = end - Date.now()
    if (left <= 0 || !(await pause(ctx, Math.min(ms, left)))) return { status: 'pending' as const, auth_id }
  }
})

/** Connected, but perhaps long ago: what it has come to since is told without beginning anew. */
async function arrived(ctx: Ctx, auth_id: string, wanted: Wanted): Promise<schema.Authentication> {
  const verdict = await freshToken(ctx, wanted, null)
  if (verdict.outcome === 'completed') return { ...(await toWire(ctx, verdict)), auth_id }
  return { status: verdict.outcome === 'token_expired' ? 'token_expired' : 'connection_required', auth_id }
}

function ended(auth_id: string, failure: string | null): schema.Authentication {
  const error = isCode(failure) ? failure : 'internal'
  return { status: 'connection_required', auth_id, error, detail: sentenceOf(error) }
}

// ---- back

export type Answer = { provider_id: string; state?: string; code?: string; iss?: string; error?: string }
/** What the page tells; the name is the provider's, where it was found. */
export type Arrival = { provider: string | null; failure: Code | null }

/** As they are given out: what is not costs no trip. */
const STATE = /^[\w-]{43}$/
/** Of a provider, or its id. */
const NAME = /^[\w-]{1,63}$/

type Claimed = { flow: FlowRow; provider: Provider; unchanged: boolean }

/** A state works once: of two at once one finds it pending. That it is for another provider, used, expired or made up is all the same. */
const claim = (state_hash: string, provider_id: string): SQL<Row> => sql`
  update oauth_flows f set status = 'answered' from oauth_providers p
  where f.state_hash = ${state_hash} and f.status = 'pending' and f.expires_at > clock()
    and p.id = f.provider_id and (p.provider_id = ${provider_id} or p.id::text = ${provider_id})
  returning json_build_object('flow', to_json(f), 'provider', ${providerJson('p')},
    'unchanged', f.bound_to = oauth_binding(p))::text`

/** One trip to claim the state, one to write what came of it; the server is asked in between. */
export async function callback(
  services: Services,
  requestId: string,
  origin: string,
  answer: Answer,
): Promise<Arrival> {
  const { config, database } = services
  if (!STATE.test(answer.state ?? '') || !NAME.test(answer.provider_id))
    return { provider: null, failure: 'state_invalid' }
  const claiming = claim(sha256Hex(answer.state!), answer.provider_id)
  const [, [row]] = (await runAsSystem(database, systemSettings(config, requestId), claiming)) as [unknown, Row[]]
  if (!row) return { provider: null, failure: 'state_invalid' }
  const claimed = JSON.parse(row[0] as string) as Claimed
  const { flow, provider } = claimed
  const actor = { kind: 'session', id: null, organization: flow.organization_id, tenant: flow.tenant_id } as const
  const caller = callerFor(services, actor, requestId, origin)
  try {
    await connect(caller, claimed, answer)
    return { provider: provider.name, failure: null }
  } catch (error) {
    const failure = error instanceof Failure ? error.code : 'internal'
    if (error instanceof Failure) logged(error, requestId, config)
    await failed(caller, flow, failure)
    if (failure === 'internal') throw error
    return { provider: provider.name, failure }
  }
}

const inWorkspace = (caller: Caller): Ctx => ({ ...caller, permission: authenticate.permission })
const about = ({ user_id, provider_id }: FlowRow, provider: Provider) => ({
  provider: provider.provider_id,
  provider_id,
  user_id,
})

async function connect(caller: Caller, { flow, provider, unchanged }: Claimed, answer: Answer): Promise<void> {
  const code = codeOf(answer, provider)
  if (!unchanged) throw fail('provider_changed')
  const { sealer, config, origin } = caller
  const { verifier } = await secretsOf(caller, flow)
  const way = outside(config, origin)
  const tokens = await exchange(way, await opened(sealer, provider), code, verifier)
  const granted = textArray([...new Set([...flow.scopes, ...(tokens.scopes ?? [])])])
  const change = sql<{ id: string }>`
    insert into oauth_tokens as t (organization_id, tenant_id, provider_id, user_id, scopes, access_token, refresh_token, token_type,
      bound_to, expires_at)
    select f.organization_id, f.tenant_id, f.provider_id, f.user_id, ${granted},
      ${await sealToken(sealer, flow, 'access_token', tokens.access_token)},
      ${await sealToken(sealer, flow, 'refresh_token', tokens.refresh_token)}, 'Bearer', f.bound_to,
      clock() + make_interval(secs => ${tokens.expires_in}::double precision)
    from oauth_flows f where f.id = ${flow.id}::uuid and f.tenant_id = current_tenant() and f.status = 'answered'
    on conflict on constraint oauth_tokens_one do update set scopes = excluded.scopes, access_token = excluded.access_token,
      refresh_token = excluded.refresh_token, bound_to = excluded.bound_to, expires_at = excluded.expires_at,
      generation = t.generation + 1, leased_until = null, revoked_at = null, updated_at = clock()
    returning t.id`
  const completed = sql`completed as (
    update oauth_flows f set status = 'completed' from changed where f.id = ${flow.id}::uuid and f.tenant_id = current_tenant())`
  const parts = { also: [completed], lock: heldProvider(sql`p.id = ${flow.provider_id}::uuid`) }
  const ctx = inWorkspace(caller)
  const rows = await persistently(() => commit(ctx, 'oauth_token.connected', change, about(flow, provider), parts))
  // Nothing to write is what a repeat finds, too, when only the reply of the first was lost.
  if (rows.length === 0) found(await run(ctx, written(flow)), 'state_invalid')
}

const written = ({ id }: FlowRow): SQL<Row> => sql`
  select from oauth_flows f where f.id = ${id}::uuid and f.tenant_id = current_tenant() and f.status = 'completed'`

/** Who answers comes first: what a server that is not the one asked says of errors is not listened to (RFC 9207). */
function codeOf({ iss, error, code }: Answer, { issuer, issuer_in_answers }: Provider): string {
  if (issuer !== null && (iss === undefined ? issuer_in_answers : iss !== issuer)) throw fail('answer_issuer_mismatch')
  if (error === 'access_denied') throw fail('authorization_denied')
  if (error !== undefined || !code) throw fail('authorization_refused')
  return code
}

async function failed(caller: Caller, flow: FlowRow, failure: Code): Promise<void> {
  const change = sql<{ id: string }>`update oauth_flows f set status = 'failed', failure = ${failure}
    where f.id = ${flow.id}::uuid and f.tenant_id = current_tenant() and f.status = 'answered' returning f.id`
  const lock = heldProvider(sql`p.id = ${flow.provider_id}::uuid`)
  await commit(inWorkspace(caller), 'oauth_flow.failed', change, { user_id: flow.user_id, failure }, { lock })
}

/** A day after its end nobody waits for it. What is going with its provider just now is left to that. */
const OLD = sql`delete from oauth_flows where id in (
  select id from oauth_flows where expires_at < clock() - interval '1 day' for update skip locked)`

export async function sweepFlows({ config, database }: Pick<Services, 'config' | 'database'>): Promise<void> {
  await runAsSystem(database, clockOf(config), OLD)
}
