// Hosts of custom URLs: one owner each in the installation, proved by a DNS record.
import { and, eq, type SQL, sql } from 'drizzle-orm'
import { type Ctx, uncounted, verb } from '../kernel/context.ts'
import { signer } from '../kernel/crypto.ts'
import { db, mine, run } from '../kernel/db.ts'
import { fail } from '../kernel/errors.ts'
import { commit, conclude, prepare } from '../kernel/journal.ts'
import { beyond, bounds, listed, newestFirst } from '../kernel/paging.ts'
import { found, iso } from '../kernel/rows.ts'
import { txtRecords } from '../kernel/txt-records.ts'
import type { Page } from '../kernel/wire.ts'
import { customHosts, deployments, listeners } from '../tables.ts'
import { type CustomHost, hostOf } from './custom-url.schema.ts'

type Row = typeof customHosts.$inferSelect
type Asked = Pick<Ctx, 'config' | 'origin'>

// ---- which hosts can be claimed

/** Names that lead to the installation itself, or that it gives to deployments. */
function isReserved({ config, origin }: Asked, host: string): boolean {
  const { publicUrl = origin, appsDomain, registry } = config
  const own = [new URL(publicUrl).hostname, registry && hostOf(registry.url)]
  const below = ['localhost', ...(appsDomain ? [appsDomain] : [])]
  return own.includes(host) || below.some(domain => host === domain || host.endsWith(`.${domain}`))
}

export function refuseReserved(asked: Asked, host: string): void {
  if (isReserved(asked, host)) throw fail('custom_host_reserved', { about: host })
}

export function refuseReservedUrl(asked: Asked, config: { custom_url?: string | null | undefined } | null | undefined) {
  if (config?.custom_url != null) refuseReserved(asked, hostOf(config.custom_url)!)
}

/** Passes when this workspace may serve deployment `c` at the URL. The trigger asks the same when it is written. */
export const customUrlFree = (customUrl: string): SQL =>
  sql`custom_url_free(c.tenant_id, c.id, custom_host(${customUrl}), custom_path(${customUrl}))`

// ---- which are served

/** Agents of several workspaces must not be told of a host before it is verified; a workspace's own may. */
const OWN_LISTENER = sql`exists (
  select from ${listeners} where ${listeners.id} = ${deployments.listener_id} and ${mine(listeners)})`

const SERVED = sql<boolean>`exists (
  select from ${deployments}
  where ${deployments.custom_host} = ${customHosts.host}
    and ${mine(deployments)}
    and (${customHosts.verified_at} is not null or ${OWN_LISTENER}))`

/** The row of a deployment's host, where it is this workspace's. */
export const hostOfDeployment = and(eq(customHosts.host, deployments.custom_host), mine(customHosts))

/** Whether deployment `c`, given this URL, would wait for its host to be verified. */
export const hostWaits = (customUrl: string) => sql<boolean>`not exists (
    select from custom_hosts h
    where h.host = custom_host(${customUrl}) and h.tenant_id = current_tenant() and h.verified_at is not null)
  and not exists (
    select from listeners l
    where l.id = c.listener_id and l.tenant_id = c.tenant_id)`

export async function waitingFor(ctx: Pick<Ctx, 'config'>, tenant: string, host: string): Promise<string> {
  const { name, value } = await recordOf(ctx, tenant, host)
  return `The host ${host} of custom_url is not served yet: its listener serves several workspaces, and nothing proves that the host is yours. Create the TXT record ${name} with the value ${value}, then POST /v2/custom-hosts/${host}/verification.`
}

// ---- the record

const PREFIX = 'slipway-host='
const recordName = (host: string) => `_slipway.${host}`
const signed = (tenant: string, host: string) => `${tenant} ${host}`
const hostSigner = ({ config }: Pick<Ctx, 'config'>) => signer(config.sealingKeys, 'custom-host')

/** Nothing of it is stored: the value is the signature of workspace and host. */
export const recordOf = async (ctx: Pick<Ctx, 'config'>, tenant: string, host: string) => ({
  name: recordName(host),
  value: PREFIX + (await hostSigner(ctx).sign(signed(tenant, host))),
})

async function isProved(ctx: Ctx, records: string[], tenant: string, host: string): Promise<boolean> {
  const { verify } = hostSigner(ctx)
  const ours = records.filter(text => text.startsWith(PREFIX)).map(text => text.slice(PREFIX.length))
  const proofs = await Promise.all(ours.map(signature => verify(signature, signed(tenant, host))))
  return proofs.includes(true)
}

// ---- verbs

const toWire = async (ctx: Ctx, row: Row & { served: boolean }): Promise<CustomHost> => ({
  host: row.host,
  verified_at: iso(row.verified_at),
  record: await recordOf(ctx, row.tenant_id, row.host),
  served: row.served,
})

export const listCustomHosts = verb('deployments:read', async (ctx, page: Page) => {
  const { limit, offset } = bounds(page)
  const query = db
    .select({ row: customHosts, served: SERVED })
    .from(customHosts)
    .where(and(mine(customHosts), beyond(customHosts, page)))
    .orderBy(...newestFirst(customHosts))
    .limit(limit)
    .offset(offset)
  const rows = (await run(ctx, query)).map(({ row, served }) => ({ ...row, served }))
  const { resources, ...rest } = listed(rows, page, row => row)
  return { ...rest, resources: await Promise.all(resources.map(row => toWire(ctx, row))) }
})

/** Looks the record up now. The host moves here from a workspace that never proved it, or whose own record is gone. */
export const verifyCustomHost = verb('deployments:update', async (ctx, { host }: { host: string }) => {
  refuseReserved(ctx, host)
  const query = sql<[owner: string]>`select tenant_id from custom_host_owner(${host}::text)`
  const { looked, answer } = await prepare<[string], Row & { served: boolean }>(ctx, query)
  if (answer) return toWire(ctx, found(answer, 'workspace_not_found'))
  const [owner = null] = looked[0] ?? []
  const tenant = ctx.seen.tenant!
  const records = await txtRecords(ctx.config, recordName(host))
  if (!(await isProved(ctx, records, tenant, host))) {
    const { name, value } = await recordOf(ctx, tenant, host)
    throw fail('custom_host_unproven', { about: `${name} TXT "${value}"` })
  }
  const isOwnerGone = owner !== null && owner !== tenant && !(await isProved(ctx, records, owner, host))
  const change = sql<Row & { served: boolean }>`
    select ${customHosts}.*, ${SERVED} as served
    from verify_custom_host(${host}::text, ${owner}::uuid, ${isOwnerGone}) as ${customHosts}`
  const rows = await conclude(() => commit(uncounted(ctx), 'custom_host.verified', change, { host }))
  return toWire(ctx, found(rows, 'workspace_not_found'))
})
