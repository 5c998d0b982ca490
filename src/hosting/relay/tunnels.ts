// Terminals and forwarded ports: asked for by clients, offered to agents, joined by the sockets of both.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { createSigner } from '../../kernel/crypto/crypto.ts'
import { refuseUnless, run, textArray } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import {
  type CredentialActor,
  type Ctx,
  createKeylessCaller,
  credentialOf,
  type OpenRequest,
  verb,
} from '../../kernel/http/context.ts'
import { fail, notConfigured } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { Relay, TunnelEnd } from '../../platform.ts'
import type { TunnelFeature } from '../../protocol/listener-policy.ts'
import type { NewForward, NewTerminal, Tunnel, TunnelLease, TunnelRef } from '../../protocol/tunnels.schema.ts'
import type { DeploymentRef } from '../deployments/schema.ts'
import { isDeployment } from '../deployments/service.ts'
import { deployments } from '../deployments/tables.ts'
import { snapshots } from '../snapshots/tables.ts'
import { lockLease } from '../sync/lease.ts'
import type { tunnels } from './tables.ts'

const TICKET_SECONDS = 60
const MAX_OF_WORKSPACE = 200
const MAX_OF_LISTENER = 500
const NO_SOCKETS = 'This host takes no WebSockets.'

type Deployment = z.output<typeof DeploymentRef>
type TunnelRow = typeof tunnels.$inferSelect

export const openTerminal = verb(
  'deployments:exec',
  (ctx, { deployment_id, ...request }: Deployment & NewTerminal): Promise<Tunnel> =>
    openTunnel(ctx, deployment_id, request, request.tty ? ['terminal', 'tty'] : ['terminal'], {
      kind: 'terminal',
      tty: request.tty,
    }),
)

export const openForward = verb(
  'deployments:exec',
  (ctx, { deployment_id, ...request }: Deployment & NewForward): Promise<Tunnel> =>
    openTunnel(ctx, deployment_id, request, featuresOf(request), {
      kind: 'forward',
      port: request.port ?? null,
      store: request.store ?? null,
      ...(request.snapshot_id && { snapshot_id: request.snapshot_id }),
    }),
)

const featuresOf = ({ store, snapshot_id }: NewForward): TunnelFeature[] =>
  snapshot_id ? ['snapshots'] : ['forward', ...(store ? [store] : [])]

/** The snapshot is of the deployment, and on the machine of its agent. */
const holdsSnapshot = (id: string): SQL => sql`exists (
  select from ${snapshots}
  where ${snapshots.id} = ${id}::uuid
    and ${snapshots.deployment_id} = ${deployments.id}
    and ${snapshots.listener_id} = ${deployments.listener_id}
    and ${snapshots.deleting_at} is null
)`

/** `described` is what the event has. It has no command, whose arguments may be secrets. */
async function openTunnel(
  ctx: Ctx,
  deployment_id: string,
  request: NewTerminal | NewForward,
  features: TunnelFeature[],
  described: { kind: 'terminal' | 'forward' } & Record<string, unknown>,
): Promise<Tunnel> {
  const { snapshot_id } = request as NewForward
  const change = sql<TunnelRow>`
    insert into tunnels (
      organization_id, tenant_id, deployment_id, revision_id, listener_id, is_terminal, request, expires_at
    )
    select organization_id, tenant_id, id, active_revision_id, listener_id, ${described.kind === 'terminal'},
      ${JSON.stringify(request)}::json, clock() + ${TICKET_SECONDS} * interval '1 second'
    from ${deployments}
    where ${isDeployment(deployment_id)}
      and ${refuseUnless('not_configured', sql`${ctx.platform.relay !== undefined}`)}
      and ${refuseUnless('deployment_deleting', sql`deleting_at is null`)}
      and ${refuseUnless('nothing_serves', sql`active_revision_id is not null`)}
      and ${snapshot_id ? refuseUnless('snapshot_not_found', holdsSnapshot(snapshot_id)) : sql`true`}
      and require_tunnel_room(
        tenant_id, listener_id, ${textArray(features)}, ${MAX_OF_WORKSPACE}, ${MAX_OF_LISTENER}
      )
    returning *`
  const data = { deployment_id, ...described }
  const row = requireRow(await commit(ctx, 'tunnel.opened', change, data), 'deployment_not_found')
  const ticket = await signTicket(ctx, { ...row, credential: credentialOf(ctx) })
  const url = `${ctx.origin.replace(/^http/, 'ws')}/v2/tunnels/${row.id}?${new URLSearchParams({ ticket })}`
  return { id: row.id, deployment_id, url, expires_at: toIsoTime(row.expires_at) }
}

type Ticket = Pick<TunnelRow, 'id' | 'tenant_id' | 'deployment_id' | 'expires_at'> & { credential: CredentialActor }
type SigningKeys = Pick<Ctx, 'config'>

const signerOf = ({ config }: SigningKeys) => createSigner(config.sealingKeys, 'tickets of tunnels')
const signedText = (id: string, parts: string[]) => ['TUNNEL', id, ...parts].join('\n')

async function signTicket(ctx: Ctx, { id, tenant_id, deployment_id, expires_at, credential }: Ticket): Promise<string> {
  const parts = [tenant_id, deployment_id, credential.kind, credential.hash, String(Date.parse(expires_at))]
  return [...parts, await signerOf(ctx).sign(signedText(id, parts))].join('.')
}

async function readTicket(services: Services, id: string, ticket: string): Promise<TunnelEnd & { side: 'client' }> {
  const [workspace = '', deployment_id = '', kind = '', hash = '', expires = '', ...rest] = ticket.split('.')
  const parts = [workspace, deployment_id, kind, hash, expires]
  if (!(await signerOf(services).verify(rest.join('.'), signedText(id, parts)))) throw fail('ticket_invalid')
  if (Number(expires) <= services.platform.clock.now()) throw fail('ticket_expired')
  const credential = { kind: kind as 'key' | 'session', hash }
  return { side: 'client', tunnel_id: id, deployment_id, workspace, credential }
}

/** The caller who asked for the tunnel: all that ends a request of that caller ends the tunnel. */
export const callerOf = (
  services: Services,
  { workspace, deployment_id, credential }: TunnelEnd & { side: 'client' },
  { requestId, origin, request }: OpenRequest,
) => ({
  ...createKeylessCaller(
    services,
    { kind: 'visitor', id: null, organization: workspace, tenant: workspace },
    requestId,
    origin,
    request,
  ),
  actor: credential,
  path: { deployment_id },
})

const isUpgrade = ({ headers }: Request): boolean => headers.get('Upgrade')?.toLowerCase() === 'websocket'

function requireRelay({ platform }: Pick<Services, 'platform'>): Relay {
  if (!platform.relay) throw notConfigured(NO_SOCKETS)
  return platform.relay
}

/** Takes the socket of the client. Its ticket works once. */
export async function joinAsClient(
  services: Services,
  raw: Request,
  { tunnel_id, ticket }: z.output<typeof TunnelRef> & { ticket: string },
  openRequest: OpenRequest,
): Promise<void> {
  if (!isUpgrade(raw)) throw fail('upgrade_required')
  const relay = requireRelay(services)
  const end = await readTicket(services, tunnel_id, ticket)
  await claimTicket(callerOf(services, end, openRequest), { relay, tunnel_id })
  await relay.accept(raw, end)
}

const claimTicket = verb(
  'deployments:exec',
  async (ctx, { relay, tunnel_id }: { relay: Relay; tunnel_id: string }): Promise<void> => {
    const claim = sql<[string]>`
      update tunnels
      set joined_at = clock(), seen_at = clock(), instance = ${relay.instance}, address = ${relay.address}
      where id = ${tunnel_id}::uuid
        and tenant_id = current_tenant()
        and ended_at is null
        and ${refuseUnless('ticket_expired', sql`joined_at is null`)}
      returning id`
    requireRow(await run(ctx, claim), 'tunnel_not_found')
  },
)

type AgentInput = z.output<typeof TunnelRef> & z.output<typeof TunnelLease>
type JoinedRow = [instance: string, address: string | null]

/** Takes the socket of the agent, or passes it on to the instance that holds that of the client. */
export const joinAsAgent = verb('listeners:sync', async (ctx, { tunnel_id, ...lease }: AgentInput): Promise<void> => {
  const raw = ctx.rawRequest!()
  const relay = requireRelay(ctx)
  const isHere = sql`instance = ${relay.instance}`
  const join = sql<JoinedRow>`
    update tunnels
    set opened_at = case when ${isHere} then clock() end, fence = ${lease.fence}
    where id = ${tunnel_id}::uuid
      and listener_id = current_listener()
      and ${refuseUnless('upgrade_required', sql`${isUpgrade(raw)}`)}
      and joined_at is not null
      and opened_at is null
      and ended_at is null
    returning instance, address`
  const [instance, address] = requireRow(await run(ctx, join, lockLease(lease)), 'tunnel_not_found') as JoinedRow
  if (instance === relay.instance) return relay.accept(raw, { side: 'agent', tunnel_id })
  if (address === null || raw.headers.has(PASSED_HEADER)) throw fail('relay_unreachable')
  return relay.pass(raw, address)
})
/** Set by an instance that passes a socket on, so that none goes round. */
export const PASSED_HEADER = 'Slipway-Passed'
