// The lease of a listener: one agent at a time works for it. The fence refuses agents with an earlier lease.
import { type SQL, sql } from 'drizzle-orm'
import { refuseUnless, servedByListener, textArray } from '../kernel/db.ts'
import type { Poll } from '../protocol/poll.schema.ts'
import { listeners } from '../tables/listeners.ts'

const LEASE_SECONDS = 60

type LeaseRequest = Pick<
  Poll,
  'agent_id' | 'fence' | 'version' | 'templates' | 'template_descriptions' | 'verified_hosts_only'
>

/** The listener of the request's key. */
export const isOwnListener: SQL = servedByListener({ listener_id: listeners.id })

const isCurrentLease = (agent_id: string, fence: number): SQL =>
  refuseUnless('fence_stale', sql`${listeners.fence} = ${fence} and ${listeners.agent_id} = ${agent_id}`)

/** With a fence renews the lease, without one acquires it under the next fence. Not journaled: it is a heartbeat. */
export function acquireLease({ agent_id, fence, version, templates, ...request }: LeaseRequest): SQL {
  const isFree = sql`${listeners.agent_id} = ${agent_id} or coalesce(${listeners.lease_expires_at} <= clock(), true)`
  const secondsLeft = sql`greatest(1, ceil(extract(epoch from ${listeners.lease_expires_at} - clock())))::integer::text`
  const isAllowed =
    fence == null
      ? sql`case when ${isFree} then true else refuse('lease_held', ${secondsLeft}) end`
      : isCurrentLease(agent_id, fence)
  const descriptions = request.template_descriptions ? JSON.stringify(request.template_descriptions) : null
  return sql`
    update ${listeners} set
      fence = ${listeners.fence} + ${fence == null ? 1 : 0},
      agent_id = ${agent_id},
      agent_version = coalesce(${version ?? null}, ${listeners.agent_version}),
      templates = coalesce(${templates ? textArray(templates) : null}, ${listeners.templates}),
      template_descriptions = coalesce(${descriptions}::json, ${listeners.template_descriptions}),
      verified_hosts_only = ${request.verified_hosts_only ?? false},
      last_seen_at = clock(),
      lease_expires_at = clock() + ${LEASE_SECONDS} * interval '1 second'
    where ${isOwnListener} and ${isAllowed}
    returning *`
}

/** Locks the lease for the transaction, so that no later lease begins before the statement is done. */
export const lockLease = ({ agent_id, fence }: { agent_id: string; fence: number }): SQL =>
  sql`select from ${listeners} where ${isOwnListener} and ${isCurrentLease(agent_id, fence)} for share`

/** Locks the lease without renewing it. */
export const selectLockedLease = ({ agent_id, fence }: { agent_id: string; fence: number }): SQL =>
  sql`select * from ${listeners} where ${isOwnListener} and ${isCurrentLease(agent_id, fence)} for share`

/** Releasing twice succeeds. Requests that are still on their way under the lease are refused as stale. */
export const clearLease = ({ agent_id, fence }: { agent_id: string; fence: number }): SQL => {
  const isHolder = sql`${listeners.fence} = ${fence} and coalesce(${listeners.agent_id} = ${agent_id}, true)`
  return sql`
    update ${listeners} set agent_id = null, lease_expires_at = null
    where ${isOwnListener} and ${refuseUnless('fence_stale', isHolder)}
    returning id`
}

/** Checks the lease without locking it. */
export const hasLease = ({ agent_id, fence }: { agent_id: string; fence: number }): SQL =>
  sql`${isOwnListener} and ${isCurrentLease(agent_id, fence)}`
