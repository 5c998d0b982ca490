// A provider from the address of an MCP server: its name is reserved, its servers are asked, and it is written, or all of it undone.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Ctx, uncounted, verb } from '../kernel/context.ts'
import { db, type Row, run, runAsSystem } from '../kernel/db.ts'
import { sha256Hex } from '../kernel/digest.ts'
import { Failure, fail } from '../kernel/errors.ts'
import { type Outside, outside } from '../kernel/guarded-fetch.ts'
import { commit, conclude, prepare } from '../kernel/journal.ts'
import { found } from '../kernel/rows.ts'
import { oauthProviders } from '../tables.ts'
import { type Client, methodFor, obtainClient, unregister, type Wish } from './clients.ts'
import { type Discovered, discover, serverUrl } from './discovery.ts'
import { clientDocumentUrl, redirectUri } from './identity.ts'
import { freeName, heldName, unreserved } from './providers.ts'
import { clientColumns, hopToWire, type ProviderRow, scopesOf, told, toWire } from './rows.ts'
import type * as schema from './schema.ts'

type Input = schema.McpServer & z.output<typeof schema.DiscoverQuery>

/** Longer than all that may happen between the two trips. */
const RESERVED = sql`interval '2 minutes'`

export const discoverProvider = verb('deployments:create', async (ctx, input: Input) => {
  const way = outside(ctx.config, ctx.origin)
  const server = serverUrl(way, input.mcp_server_url)
  const reservation = reservationOf(ctx)
  const { looked, answer } = await prepare<Row, ProviderRow>(
    ctx,
    reserve(reservation, input.provider_id),
    heldName(input.provider_id),
  )
  if (answer) return toWire(found(answer, 'provider_id_conflict'))
  const assumed = hostsIn(found(looked, 'provider_id_conflict'))

  const id = crypto.randomUUID()
  let client: Client | undefined
  try {
    const discovered = await telling(way, discover(way, server, policy(ctx, assumed)))
    client = await telling(way, obtainClient(way, discovered, wishOf(ctx, input, id)))
    const made = { id, input, server, discovered, client, way }
    return toWire(found(await conclude(() => write(uncounted(ctx), made, reservation)), 'provider_id_conflict'))
  } catch (error) {
    await undo(ctx, id, reservation, client)
    throw error
  }
})

export const previewProvider = verb(
  'deployments:create',
  async (ctx, input: Input): Promise<schema.DiscoveryPreview> => {
    const way = outside(ctx.config, ctx.origin)
    const server = serverUrl(way, input.mcp_server_url)
    const { provider_id, name, client_id } = input
    const [row] = await run(
      ctx,
      sql<Row>`select ${ASSUMED} where ${freeName(provider_id, sql`${unmade(provider_id)} and ${unreserved(provider_id)}`)} is not null`,
    )
    const discovered = await telling(way, discover(way, server, policy(ctx, hostsIn(row!))))
    const wish = wishOf(ctx, input, crypto.randomUUID())
    const registration = await telling(way, (async () => methodFor(discovered, wish))())
    const { issuer, resource, auth_url, token_url, registration_url, revocation_url } = discovered
    const { supports_metadata_document, scopes, uses_pkce, code_challenge_method, warnings } = discovered
    return {
      provider_id,
      name,
      mcp_server_url: server.href,
      metadata: {
        ...{ issuer, resource, auth_url, token_url, registration_url, revocation_url },
        token_endpoint_auth_methods: discovered.auth_methods,
        ...{ supports_metadata_document, scopes, uses_pkce, code_challenge_method },
      },
      registration,
      redirect_uri: client_id == null ? null : redirectUri(ctx.origin, provider_id),
      warnings,
      trace: way.trace.map(hopToWire),
    }
  },
)

/** What comes of asking servers: where they are refused, whoever asked learns what was asked of whom. */
const telling = <T>(way: Outside, asking: Promise<T>): Promise<T> =>
  asking.catch((error: unknown) => {
    throw error instanceof Failure ? fail(error.code, { ...error.extra, trace: way.trace.map(hopToWire) }) : error
  })

// ---- what servers are asked by

export const ASSUMED = sql`(select array_to_json(o.assume_s256) from organizations o where o.id = current_organization())`
const hostsIn = ([hosts]: Row): string[] => JSON.parse(hosts as string)

export const policy = ({ config }: Pick<Ctx, 'config'>, assumed: string[]) => ({
  assumeS256: (host: string) => assumed.includes(host),
  defaultEndpoints: config.defaultEndpoints,
})

/** A client that was given is known by the provider's name at its server, any other by the row's id. */
const wishOf = ({ origin }: Ctx, input: Input, id: string): Wish => ({
  registration: input.registration,
  client_id: input.client_id ?? undefined,
  client_secret: input.client_secret ?? undefined,
  name: input.name,
  redirect_uri: redirectUri(origin, input.client_id == null ? id : input.provider_id),
  document_url: clientDocumentUrl(origin, id),
})

// ---- the reservation

/** A repeat under an idempotency key reserves as the same one, and so is told that the first is still in flight. */
function reservationOf({ actor, idempotency }: Ctx): string {
  if (!idempotency) return crypto.randomUUID()
  const asker = actor.kind === 'key' ? actor.hash : actor.id
  const hash = sha256Hex([asker, idempotency.key, idempotency.fingerprint].join('\n'))
  return hash.slice(0, 32).replace(/(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

const unmade = (provider_id: string) => sql`not exists (select from oauth_providers p
  where p.organization_id = current_organization() and p.provider_id = ${provider_id})`

/** Takes the name from nobody but a reservation that has run out. */
const reserve = (id: string, provider_id: string) => sql<Row>`
  insert into oauth_reservations as r (id, organization_id, provider_id, expires_at)
  values (${id}::uuid, current_organization(), ${freeName(provider_id, unmade(provider_id))}, clock() + ${RESERVED})
  on conflict (organization_id, provider_id) do update set id = excluded.id, expires_at = excluded.expires_at
  where case when r.expires_at <= clock() then true when r.id = excluded.id then refuse('idempotency_in_flight')
    else refuse('provider_id_conflict', excluded.provider_id) end
  returning ${ASSUMED}`

/** Ends the reservation and says whether the provider was written after all: of a reply that was lost nobody knows. */
async function isWritten({ database }: Ctx, id: string, reservation: string): Promise<boolean> {
  const release = sql`delete from oauth_reservations where id = ${reservation}::uuid`
  const look = sql`select from oauth_providers where id = ${id}::uuid`
  const [, rows] = await runAsSystem(database, release, look)
  return rows!.length > 0
}

/** As well as it goes: the reservation runs out, and a client that nobody uses harms nobody. */
async function undo(ctx: Ctx, id: string, reservation: string, client: Client | undefined): Promise<void> {
  const written = await isWritten(ctx, id, reservation).catch(() => false)
  if (client && !written) await unregister(outside(ctx.config, ctx.origin), client).catch(() => {})
}

// ---- the second trip

/** What is kept of what servers say, and again whenever they are asked. */
export const serverColumns = (discovered: Discovered) => ({
  issuer: discovered.issuer,
  issuer_in_answers: discovered.issuer_in_answers,
  resource: discovered.resource,
  auth_url: discovered.auth_url,
  token_url: discovered.token_url,
  revocation_url: discovered.revocation_url,
  warnings: discovered.warnings,
})

type Made = { id: string; input: Input; server: URL; discovered: Discovered; client: Client; way: Outside }

async function write(ctx: Ctx, made: Made, reservation: string): Promise<ProviderRow[]> {
  const { id, input, server, discovered, client, way } = made
  const { provider_id, name } = input
  const reserved = sql`reserved as (delete from oauth_reservations
    where id = ${reservation}::uuid and organization_id = current_organization() and expires_at > clock() returning id)`
  const change = db
    .insert(oauthProviders)
    .values({
      id,
      organization_id: sql`current_organization()`,
      made_by_workspace: sql`current_tenant()`,
      provider_id: freeName(provider_id, sql`exists (select from reserved)`),
      name,
      ...(await clientColumns(ctx.sealer, provider_id, client)),
      ...serverColumns(discovered),
      uses_pkce: discovered.uses_pkce,
      code_challenge_method: discovered.code_challenge_method,
      provider_type: 'mcp',
      mcp_server_url: server.href,
      redirect_uri: wishOf(ctx, input, id).redirect_uri,
      scopes: scopesOf(input.scopes ?? discovered.scopes),
      trace: way.trace,
    })
    .returning(told)
  const data = { provider_id, name, registration: client.registration }
  return (await commit(ctx, 'oauth_provider.created', change, data, {
    first: [reserved],
    lock: heldName(provider_id),
  })) as ProviderRow[]
}
