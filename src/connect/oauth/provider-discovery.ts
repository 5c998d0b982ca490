// Creates a provider from an MCP server: reserves its name, discovers its servers, registers a client, inserts it.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { db, type Row, run, runAsSystem } from '../../kernel/db/db.ts'
import { commit, concludeWrite, prepareWrite } from '../../kernel/db/journal.ts'
import { createdMembers } from '../../kernel/db/recorded-changes.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, hasCredential, verb } from '../../kernel/http/context.ts'
import { Failure, fail } from '../../kernel/http/errors.ts'
import { createGuardedClient, type GuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { clientDocumentUrl, redirectUri } from './client-document.ts'
import { chooseRegistration, obtainClient, unregisterClient } from './client-registration.ts'
import { checkServerUrl, type DiscoveredServer, discoverServer } from './mcp-discovery.ts'
import type { Client, ClientRequest } from './oauth-client.ts'
import { isNameUnreserved, lockProviderName, requireFreeName } from './providers.ts'
import {
  clientColumns,
  fetchToWire,
  PROVIDER_RECORD,
  type ProviderRow,
  scopesArray,
  toWire,
  wireColumns,
} from './rows.ts'
import type * as schema from './schema.ts'
import { oauthProviders } from './tables.ts'

type DiscoveryInput = schema.McpServer & z.output<typeof schema.DiscoverQuery>

/** Longer than discovery and registration can take. */
const RESERVATION_TIME = sql`interval '2 minutes'`

export const discoverProvider = verb('deployments:create', async (ctx, input: DiscoveryInput) => {
  const http = createGuardedClient(ctx, ctx.origin)
  const server = checkServerUrl(http, input.mcp_server_url)
  const reservationId = reservationIdOf(ctx)
  const { current, replayed } = await prepareWrite<Row, ProviderRow>(
    ctx,
    reserveName(reservationId, input.provider_id),
    lockProviderName(input.provider_id),
  )
  if (replayed) return toWire(requireRow(replayed, 'provider_id_conflict'))
  const s256Hosts = parseHosts(requireRow(current, 'provider_id_conflict'))

  const id = crypto.randomUUID()
  let client: Client | undefined
  try {
    const discovered = await withTrace(http, discoverServer(http, server, discoveryOptionsFor(ctx, s256Hosts)))
    client = await withTrace(http, obtainClient(http, discovered, clientRequestFor(ctx, input, id)))
    const provider = { id, input, server, discovered, client, http }
    const rows = await concludeWrite(() => insertProvider(ctx, provider, reservationId))
    return toWire(requireRow(rows, 'provider_id_conflict'))
  } catch (error) {
    await undoDiscovery(ctx, id, reservationId, client)
    throw error
  }
})

export const previewProvider = verb(
  'deployments:create',
  async (ctx, input: DiscoveryInput): Promise<schema.DiscoveryPreview> => {
    const http = createGuardedClient(ctx, ctx.origin)
    const server = checkServerUrl(http, input.mcp_server_url)
    const { provider_id, name, client_id } = input
    const isNameFree = sql`${isNameUnused(provider_id)} and ${isNameUnreserved(provider_id)}`
    const query = sql<Row>`
      select ${ASSUMED_S256_HOSTS}
      where ${requireFreeName(provider_id, isNameFree)} is not null`
    const [row] = await run(ctx, query)
    const discovered = await withTrace(http, discoverServer(http, server, discoveryOptionsFor(ctx, parseHosts(row!))))
    const clientRequest = clientRequestFor(ctx, input, crypto.randomUUID())
    const registration = await withTrace(http, (async () => chooseRegistration(discovered, clientRequest))())
    const { issuer, resource, auth_url, token_url, registration_url, revocation_url } = discovered
    const { supports_metadata_document, scopes, uses_pkce, code_challenge_method, warnings } = discovered
    return {
      provider_id,
      name,
      mcp_server_url: server.href,
      metadata: {
        issuer,
        resource,
        auth_url,
        token_url,
        registration_url,
        revocation_url,
        token_endpoint_auth_methods: discovered.auth_methods,
        supports_metadata_document,
        scopes,
        uses_pkce,
        code_challenge_method,
      },
      registration,
      redirect_uri: client_id == null ? null : redirectUri(ctx.origin, provider_id),
      warnings,
      trace: http.trace.map(fetchToWire),
    }
  },
)

const withTrace = <T>(http: GuardedClient, work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    throw error instanceof Failure ? fail(error.code, { ...error.extra, trace: http.trace.map(fetchToWire) }) : error
  })

export const ASSUMED_S256_HOSTS = sql`(
  select array_to_json(o.assume_s256)
  from organizations o
  where o.id = current_organization())`
const parseHosts = ([hosts]: Row): string[] => JSON.parse(hosts as string)

export const discoveryOptionsFor = ({ config }: Pick<Ctx, 'config'>, s256Hosts: string[]) => ({
  assumeS256: (host: string) => s256Hosts.includes(host),
  defaultEndpoints: config.defaultEndpoints,
})

/** The redirect URI of a given client ends in `provider_id`, because a person registered it before the row existed. */
const clientRequestFor = ({ origin }: Ctx, input: DiscoveryInput, id: string): ClientRequest => ({
  registration: input.registration,
  client_id: input.client_id ?? undefined,
  client_secret: input.client_secret ?? undefined,
  name: input.name,
  redirect_uri: redirectUri(origin, input.client_id == null ? id : input.provider_id),
  document_url: clientDocumentUrl(origin, id),
})

/** The same id for every retry under an idempotency key, so that a concurrent retry is refused as in flight. */
function reservationIdOf({ actor, idempotency }: Ctx): string {
  if (!idempotency) return crypto.randomUUID()
  const caller = hasCredential(actor) ? actor.hash : actor.id
  const hash = sha256Hex([caller, idempotency.key, idempotency.fingerprint].join('\n'))
  return hash.slice(0, 32).replace(/(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

const isNameUnused = (provider_id: string) => sql`not exists (
  select from oauth_providers p
  where p.organization_id = current_organization() and p.provider_id = ${provider_id})`

const reserveName = (id: string, provider_id: string) => sql<Row>`
  insert into oauth_reservations as r (id, organization_id, provider_id, expires_at)
  values (
    ${id}::uuid,
    current_organization(),
    ${requireFreeName(provider_id, isNameUnused(provider_id))},
    clock() + ${RESERVATION_TIME})
  on conflict (organization_id, provider_id) do update set
    id = excluded.id,
    expires_at = excluded.expires_at
  where case
    when r.expires_at <= clock() then true
    when r.id = excluded.id then refuse('idempotency_in_flight')
    else refuse('provider_id_conflict', excluded.provider_id)
  end
  returning ${ASSUMED_S256_HOSTS}`

/** Releases the reservation. The provider may exist although the insert failed, when only its reply was lost. */
async function isProviderInserted({ database }: Ctx, id: string, reservationId: string): Promise<boolean> {
  const releaseReservation = sql`delete from oauth_reservations where id = ${reservationId}::uuid`
  const selectProvider = sql`select from oauth_providers where id = ${id}::uuid`
  const [, rows] = await runAsSystem(database, releaseReservation, selectProvider)
  return rows!.length > 0
}

/** Best effort: a reservation expires, and an unused client does no harm. */
async function undoDiscovery(ctx: Ctx, id: string, reservationId: string, client: Client | undefined): Promise<void> {
  const isInserted = await isProviderInserted(ctx, id, reservationId).catch(() => false)
  if (client && !isInserted) await unregisterClient(createGuardedClient(ctx, ctx.origin), client).catch(() => {})
}

/** The columns that discovery and every later check write. */
export const serverColumns = (discovered: DiscoveredServer) => ({
  issuer: discovered.issuer,
  issuer_in_answers: discovered.issuer_in_answers,
  resource: discovered.resource,
  auth_url: discovered.auth_url,
  token_url: discovered.token_url,
  revocation_url: discovered.revocation_url,
  warnings: discovered.warnings,
})

type DiscoveredProvider = {
  id: string
  input: DiscoveryInput
  server: URL
  discovered: DiscoveredServer
  client: Client
  http: GuardedClient
}

async function insertProvider(ctx: Ctx, provider: DiscoveredProvider, reservationId: string): Promise<ProviderRow[]> {
  const { id, input, server, discovered, client, http } = provider
  const { provider_id, name } = input
  const reserved = sql`reserved as (
    delete from oauth_reservations
    where id = ${reservationId}::uuid and organization_id = current_organization() and expires_at > clock()
    returning id)`
  const change = db
    .insert(oauthProviders)
    .values({
      id,
      organization_id: sql`current_organization()`,
      made_by_workspace: sql`current_tenant()`,
      provider_id: requireFreeName(provider_id, sql`exists (select from reserved)`),
      name,
      ...(await clientColumns(ctx.sealer, provider_id, client)),
      ...serverColumns(discovered),
      uses_pkce: discovered.uses_pkce,
      code_challenge_method: discovered.code_challenge_method,
      provider_type: 'mcp',
      mcp_server_url: server.href,
      redirect_uri: clientRequestFor(ctx, input, id).redirect_uri,
      scopes: scopesArray(input.scopes ?? discovered.scopes),
      owner: input.owner ?? null,
      trace: http.trace,
    })
    .returning(wireColumns)
  return (await commit(
    ctx,
    'oauth_provider.created',
    change,
    {},
    {
      changes: createdMembers(PROVIDER_RECORD),
      ctesBefore: [reserved],
      lock: lockProviderName(provider_id),
    },
  )) as ProviderRow[]
}
