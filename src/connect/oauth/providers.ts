// OAuth providers of an organization: list, read, create by hand and change.
import { and, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { bumpVersion, db, inOrganization, run, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers } from '../../kernel/db/recorded-changes.ts'
import { requireRow, withoutNulls } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { requireAllowedUrl } from '../../kernel/http/guarded-fetch.ts'
import { hasOwner, newestFirst } from '../../kernel/http/paging.ts'
import { redirectUri } from './client-document.ts'
import {
  isProvider,
  lockProviderToChange,
  PROVIDER_RECORD,
  type ProviderRow,
  scopesArray,
  sealMember,
  toDetails,
  toWire,
  wireColumns,
  withEndedConnections,
} from './rows.ts'
import type * as schema from './schema.ts'
import { oauthProviders } from './tables.ts'

type Ref = z.output<typeof schema.ProviderRef>

type ProviderQuery = z.output<typeof schema.ProviderQuery>
const listStatement = prepareStatement((query: Placeholders<ProviderQuery>) =>
  db
    .select(wireColumns)
    .from(oauthProviders)
    .where(and(inOrganization(oauthProviders), hasOwner(oauthProviders.owner, query)))
    .orderBy(...newestFirst(oauthProviders)),
)

export const listProviders = verb('deployments:read', async (ctx, query: ProviderQuery) =>
  (await run(ctx, listStatement(query))).map(row => toWire(row as ProviderRow)),
)

const providerStatement = prepareStatement(({ provider_id }: Placeholders<Ref>) =>
  db.select(wireColumns).from(oauthProviders).where(isProvider(provider_id)),
)

export const readProvider = verb('deployments:read', async (ctx, { provider_id }: Ref) => {
  const rows = await run(ctx, providerStatement({ provider_id }))
  return toDetails(requireRow(rows as ProviderRow[], 'provider_not_found'))
})

export const isNameUnreserved = (provider_id: string): SQL => sql`not exists (
  select from oauth_reservations r
  where r.organization_id = current_organization() and r.provider_id = ${provider_id} and r.expires_at > clock())`

/** Evaluates to the name if the condition holds; refuses with `provider_id_conflict` otherwise. */
export const requireFreeName = (provider_id: string, condition: SQL): SQL =>
  sql`case when ${condition} then ${provider_id} else refuse('provider_id_conflict', ${provider_id})::text end`

/** Taken before a name is reserved or used, so that no other caller gets it between a reservation and its insert. */
export const lockProviderName = (provider_id: string): SQL => sql`
  select pg_advisory_xact_lock(hashtextextended(current_organization() || ' provider ' || ${provider_id}, 0))`

type EndpointUrls = Partial<Pick<schema.ProviderPatch, 'auth_url' | 'token_url' | 'revocation_url'>>
function checkEndpointUrls({ config, origin }: Ctx, { auth_url, token_url, revocation_url }: EndpointUrls): void {
  for (const url of [auth_url, token_url, revocation_url]) if (url != null) requireAllowedUrl(config, origin, url)
}

export const createProvider = verb('deployments:create', async (ctx, input: schema.NewProvider) => {
  checkEndpointUrls(ctx, input)
  const { provider_id, name, client_secret, uses_pkce } = input
  const change = db
    .insert(oauthProviders)
    .values({
      organization_id: sql`current_organization()`,
      made_by_workspace: sql`current_tenant()`,
      provider_id: requireFreeName(provider_id, isNameUnreserved(provider_id)),
      name,
      client_id: input.client_id,
      client_secret: await sealMember(ctx.sealer, provider_id, 'client_secret', client_secret),
      auth_url: input.auth_url,
      token_url: input.token_url,
      revocation_url: input.revocation_url ?? null,
      uses_pkce,
      code_challenge_method: uses_pkce ? 'S256' : null,
      provider_type: input.provider_type ?? null,
      token_endpoint_auth_method:
        input.token_endpoint_auth_method ?? (client_secret == null ? 'none' : 'client_secret_post'),
      registration: 'given',
      // Ends in the name, not the id: a person registers the client before the row exists.
      redirect_uri: redirectUri(ctx.origin, provider_id),
      scopes: scopesArray(input.scopes),
      owner: input.owner ?? null,
    })
    .returning(wireColumns)
  const parts = { lock: lockProviderName(provider_id), changes: createdMembers(PROVIDER_RECORD) }
  const rows = (await commit(ctx, 'oauth_provider.created', change, {}, parts)) as ProviderRow[]
  return toWire(requireRow(rows, 'organization_not_found'))
})

// ---- changing

const MASK = '********'

/** True if the condition holds; refuses with `member_immutable` otherwise. */
const immutableUnless = (member: string, condition: SQL): SQL =>
  sql`case when ${condition} then true else refuse('member_immutable', ${member}) end`

const IS_NOT_DISCOVERED = sql`${oauthProviders.provider_type} is distinct from 'mcp'`
const HAS_GIVEN_CLIENT = sql`${oauthProviders.registration} = 'given'`

/** The members that may change depend on how the provider was created. Sending the stored value is not a change. */
function immutabilityGuards({ renamed, ...patch }: schema.ProviderPatch): SQL[] {
  const rules = {
    auth_url: IS_NOT_DISCOVERED,
    token_url: IS_NOT_DISCOVERED,
    revocation_url: IS_NOT_DISCOVERED,
    uses_pkce: IS_NOT_DISCOVERED,
    client_id: HAS_GIVEN_CLIENT,
    token_endpoint_auth_method: HAS_GIVEN_CLIENT,
    provider_type: sql`false`,
    mcp_server_url: sql`false`,
  } as const
  const members = Object.keys(rules) as (keyof typeof rules)[]
  const guarded = members
    .filter(member => patch[member] != null)
    .map(member =>
      immutableUnless(member, sql`${oauthProviders[member]} is not distinct from ${patch[member]} or ${rules[member]}`),
    )
  if (renamed != null) guarded.push(immutableUnless('provider_id', sql`${oauthProviders.provider_id} = ${renamed}`))
  if (patch.client_secret != null) guarded.push(immutableUnless('client_secret', HAS_GIVEN_CLIENT))
  return guarded
}

const ENDPOINTS = ['auth_url', 'token_url', 'revocation_url'] as const

/** Refuses a new endpoint for a stored secret: the caller sends the secret again, or removes it with `none`. */
function requireSecretForEndpoints(patch: schema.ProviderPatch): SQL | undefined {
  const sent = ENDPOINTS.filter(member => patch[member] != null)
  if (sent.length === 0 || patch.client_secret != null || patch.token_endpoint_auth_method === 'none') return undefined
  const unchanged = sent.map(member => sql`${oauthProviders[member]} is not distinct from ${patch[member]}`)
  return sql`case
    when ${oauthProviders.client_secret} is null or (${sql.join(unchanged, sql` and `)}) then true
    else refuse('secret_required', 'client_secret')
  end`
}

/** A new secret replaces the method `none`; the method `none` removes the secret. */
async function secretChanges(ctx: Ctx, provider_id: string, patch: schema.ProviderPatch) {
  const { client_secret, token_endpoint_auth_method: method } = patch
  const { token_endpoint_auth_method: stored } = oauthProviders
  if (client_secret != null)
    return {
      client_secret: await sealMember(ctx.sealer, provider_id, 'client_secret', client_secret),
      token_endpoint_auth_method:
        method ?? sql`case when ${stored} = 'none' then 'client_secret_post' else ${stored} end`,
    }
  return method === 'none' ? { client_secret: null, token_endpoint_auth_method: method } : {}
}

export const changeProvider = verb(
  'deployments:update',
  async (ctx, { provider_id, ...patch }: Ref & schema.ProviderPatch) => {
    checkEndpointUrls(ctx, patch)
    const { name, client_id, auth_url, token_url, revocation_url, uses_pkce, scopes, owner } = patch
    const changes = withoutNulls({ name, client_id, auth_url, token_url, revocation_url, uses_pkce })
    const change = db
      .update(oauthProviders)
      .set({
        ...changes,
        ...(uses_pkce != null && { code_challenge_method: uses_pkce ? 'S256' : null }),
        ...(scopes && { scopes: scopesArray(scopes) }),
        ...(owner != null && { owner: owner || null }),
        ...(await secretChanges(ctx, provider_id, patch)),
        ...bumpVersion(oauthProviders),
      })
      .where(
        and(
          isProvider(provider_id),
          versionMatches(ctx, oauthProviders),
          ...immutabilityGuards(patch),
          requireSecretForEndpoints(patch),
        ),
      )
      .returning(wireColumns)
    const data = withEndedConnections(patch.client_secret ? { client_secret: MASK } : {})
    const parts = {
      lock: lockProviderToChange(provider_id),
      changes: changedMembers(oauthProviders, PROVIDER_RECORD),
    }
    const rows = (await commit(ctx, 'oauth_provider.updated', change, data, parts)) as ProviderRow[]
    return toDetails(requireRow(rows, 'provider_not_found'))
  },
)
