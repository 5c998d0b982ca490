// Custom hosts: each has one owner in the installation, who proves it by a DNS record.
import { and, eq, sql } from 'drizzle-orm'
import { createSigner } from '../../kernel/crypto/crypto.ts'
import { db, inTenant, run } from '../../kernel/db/db.ts'
import { commit, concludeWrite, prepareWrite } from '../../kernel/db/journal.ts'
import { changedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { afterCursor, newestFirst, pageBounds, toListPage } from '../../kernel/http/paging.ts'
import { lookUpTxtRecords } from '../../kernel/http/txt-records.ts'
import { type CustomHost, hostOf } from '../../protocol/custom-url.schema.ts'
import type { Page } from '../../protocol/wire.ts'
import { customHosts, deployments } from '../deployments/tables.ts'
import { listeners } from '../listeners/tables.ts'

type CustomHostRow = typeof customHosts.$inferSelect
type InstallationContext = Pick<Ctx, 'config' | 'origin'>

// ---- hosts that can be claimed

/** The installation's own hosts, and those that it gives to deployments. */
function isReserved({ config, origin }: InstallationContext, host: string): boolean {
  const { publicUrl = origin, appsDomain, registry } = config
  const own = [new URL(publicUrl).hostname, registry && hostOf(registry.url)]
  const below = ['localhost', ...(appsDomain ? [appsDomain] : [])]
  return own.includes(host) || below.some(domain => host === domain || host.endsWith(`.${domain}`))
}

function refuseReservedHost(ctx: InstallationContext, host: string): void {
  if (isReserved(ctx, host)) throw fail('custom_host_reserved', { about: host })
}

export function refuseReservedUrl(
  ctx: InstallationContext,
  config: { custom_url?: string | null | undefined } | null | undefined,
) {
  if (config?.custom_url != null) refuseReservedHost(ctx, hostOf(config.custom_url)!)
}

// ---- hosts that are served

/**
 * An agent of several workspaces, or one that serves in public, gets a host only once it is verified; another agent of
 * the workspace gets it at once.
 */
const IS_OWN_LISTENER = sql`exists (
  select from ${listeners}
  where ${listeners.id} = ${deployments.listener_id}
    and ${inTenant(listeners)}
    and not ${listeners.verified_hosts_only})`

const IS_SERVED = sql<boolean>`exists (
  select from ${deployments}
  where ${deployments.custom_host} = ${customHosts.host}
    and ${inTenant(deployments)}
    and (${customHosts.verified_at} is not null or ${IS_OWN_LISTENER}))`

export const isHostOfDeployment = and(eq(customHosts.host, deployments.custom_host), inTenant(customHosts))

/** True if deployment `c` with this URL would wait for the verification of its host. */
export const awaitsHostVerification = (customUrl: string) => sql<boolean>`not exists (
    select from custom_hosts h
    where h.host = custom_host(${customUrl}) and h.tenant_id = current_tenant() and h.verified_at is not null)
  and not exists (
    select from listeners l
    where l.id = c.listener_id and l.tenant_id = c.tenant_id and not l.verified_hosts_only)`

export async function describeHostVerification(
  ctx: Pick<Ctx, 'config'>,
  tenant: string,
  host: string,
): Promise<string> {
  const { name, value } = await createVerificationRecord(ctx, tenant, host)
  return [
    `The host ${host} of custom_url is not served yet, because its owner is not verified.`,
    `Create the TXT record ${name} with the value ${value}, then POST /v2/custom-hosts/${host}/verification.`,
  ].join(' ')
}

// ---- the record

const RECORD_PREFIX = 'slipway-host='
const recordName = (host: string) => `_slipway.${host}`
const signedText = (tenant: string, host: string) => `${tenant} ${host}`
const hostSigner = ({ config }: Pick<Ctx, 'config'>) => createSigner(config.sealingKeys, 'custom-host')

/** The value is a signature of workspace and host, so nothing is stored. */
export const createVerificationRecord = async (ctx: Pick<Ctx, 'config'>, tenant: string, host: string) => ({
  name: recordName(host),
  value: RECORD_PREFIX + (await hostSigner(ctx).sign(signedText(tenant, host))),
})

async function isProved(ctx: Ctx, records: string[], tenant: string, host: string): Promise<boolean> {
  const { verify } = hostSigner(ctx)
  const signatures = records
    .filter(text => text.startsWith(RECORD_PREFIX))
    .map(text => text.slice(RECORD_PREFIX.length))
  const proofs = await Promise.all(signatures.map(signature => verify(signature, signedText(tenant, host))))
  return proofs.includes(true)
}

const HOST_RECORD = recordColumns(customHosts, ['host', 'verified_at'])

// ---- verbs

const toWire = async (ctx: Ctx, row: CustomHostRow & { served: boolean }): Promise<CustomHost> => ({
  host: row.host,
  verified_at: toIsoTime(row.verified_at),
  // No agent reports a host that it does not serve.
  certificate_failed_at: row.served ? toIsoTime(row.certificate_failed_at) : null,
  unreachable_since: row.served ? toIsoTime(row.unreachable_since) : null,
  record: await createVerificationRecord(ctx, row.tenant_id, row.host),
  served: row.served,
})

const pageStatement = prepareStatement((page: Placeholders<Page>) =>
  db
    .select({ row: customHosts, served: IS_SERVED })
    .from(customHosts)
    .where(and(inTenant(customHosts), afterCursor(customHosts, page)))
    .orderBy(...newestFirst(customHosts))
    .limit(page.limit)
    .offset(page.offset),
)

export const listCustomHosts = verb('deployments:read', async (ctx, page: Page) => {
  const found = await run(ctx, pageStatement({ ...page, ...pageBounds(page) }))
  const rows = found.map(({ row, served }) => ({ ...row, served }))
  const { resources, ...rest } = toListPage(rows, page, row => row)
  return { ...rest, resources: await Promise.all(resources.map(row => toWire(ctx, row))) }
})

/** Takes the host from a workspace that never proved it, or whose own record is gone. */
export const verifyCustomHost = verb('deployments:update', async (ctx, { host }: { host: string }) => {
  refuseReservedHost(ctx, host)
  const query = sql<[owner: string]>`select tenant_id from custom_host_owner(${host}::text)`
  const { current, replayed } = await prepareWrite<[string], CustomHostRow & { served: boolean }>(ctx, query)
  if (replayed) return toWire(ctx, requireRow(replayed, 'workspace_not_found'))
  const [owner = null] = current[0] ?? []
  const tenant = ctx.requestInfo.tenant!
  const records = await lookUpTxtRecords(ctx.platform, recordName(host))
  if (!(await isProved(ctx, records, tenant, host))) {
    const { name, value } = await createVerificationRecord(ctx, tenant, host)
    throw fail('custom_host_unproven', { about: `${name} TXT "${value}"` })
  }
  const isOwnerGone = owner !== null && owner !== tenant && !(await isProved(ctx, records, owner, host))
  const change = sql<CustomHostRow & { served: boolean }>`
    select ${customHosts}.*, ${IS_SERVED} as served
    from verify_custom_host(${host}::text, ${owner}::uuid, ${isOwnerGone}) as ${customHosts}`
  const parts = { changes: changedMembers(customHosts, HOST_RECORD) }
  const rows = await concludeWrite(() => commit(ctx, 'custom_host.verified', change, { host }, parts))
  return toWire(ctx, requireRow(rows, 'workspace_not_found'))
})
