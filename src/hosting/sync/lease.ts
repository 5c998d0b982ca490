// The lease of a listener: one agent at a time works for it. The fence refuses agents with an earlier lease.
import { type SQL, sql } from 'drizzle-orm'
import { refuseUnless, servedByListener, textArray } from '../../kernel/db/db.ts'
import type { Poll } from '../../protocol/poll.schema.ts'
import { listeners } from '../listeners/tables.ts'

type LeaseRequest = Pick<
  Poll,
  'agent_id' | 'fence' | 'version' | 'templates' | 'template_descriptions' | 'verified_hosts_only' | 'policy'
>
export type LeaseHolder = { agent_id: string; fence: number }

/** The listener of the request's key. */
const isOwnListener: SQL = servedByListener({ listener_id: listeners.id })

const isCurrentLease = ({ agent_id, fence }: LeaseHolder): SQL =>
  refuseUnless('fence_stale', sql`${listeners.fence} = ${fence} and ${listeners.agent_id} = ${agent_id}`)

/** Renews the lease with a fence, and acquires it under the next fence without one. */
export const acquireLease = ({ agent_id, fence = null, version = null, templates, ...request }: LeaseRequest): SQL =>
  sql`acquire_lease(
        ${agent_id},
        ${fence},
        ${version},
        ${templates ? textArray(templates) : null},
        ${request.template_descriptions ? JSON.stringify(request.template_descriptions) : null},
        ${request.verified_hosts_only ?? false},
        ${request.policy ? JSON.stringify(request.policy) : null}
      )`

/** Locks the lease for the transaction without renewing it: no later lease begins before the transaction ends. */
export const requireLease = ({ agent_id, fence }: LeaseHolder): SQL => sql`require_lease(${agent_id}, ${fence})`
export const lockLease = (lease: LeaseHolder): SQL => sql`select from ${requireLease(lease)}`

/** Releasing twice succeeds. Requests that are still on their way under the lease are refused as stale. */
export const clearLease = ({ agent_id, fence }: LeaseHolder): SQL => {
  const isHolder = sql`${listeners.fence} = ${fence} and coalesce(${listeners.agent_id} = ${agent_id}, true)`
  return sql`
    update ${listeners} set agent_id = null, lease_expires_at = null
    where ${isOwnListener} and ${refuseUnless('fence_stale', isHolder)}
    returning id`
}

/** Checks the lease without locking it. */
export const hasLease = (lease: LeaseHolder): SQL => sql`${isOwnListener} and ${isCurrentLease(lease)}`
