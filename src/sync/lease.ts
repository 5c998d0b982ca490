// The lease of a listener: one agent at a time works for it, and whoever had an earlier lease is not listened to.
import { type SQL, sql } from 'drizzle-orm'
import { refuseUnless, servedByListener } from '../kernel/db.ts'
import { listeners } from '../tables/listeners.ts'

const LEASE_SECONDS = 60

type LeaseRequest = { agent_id: string; fence?: number | null | undefined; version?: string | null | undefined }

/** The listener whose key asks. */
export const isOwnListener: SQL = servedByListener({ listener_id: listeners.id })

const isCurrentLease = (agent_id: string, fence: number): SQL =>
  refuseUnless('fence_stale', sql`${listeners.fence} = ${fence} and ${listeners.agent_id} = ${agent_id}`)

/** Taken anew, under the next number, unless another agent holds it; or renewed. Not journaled: it is a heartbeat. */
export function acquireLease({ agent_id, fence, version }: LeaseRequest): SQL {
  const free = sql`${listeners.agent_id} = ${agent_id} or coalesce(${listeners.lease_expires_at} <= clock(), true)`
  const wait = sql`greatest(1, ceil(extract(epoch from ${listeners.lease_expires_at} - clock())))::integer::text`
  const may =
    fence == null
      ? sql`case when ${free} then true else refuse('lease_held', ${wait}) end`
      : isCurrentLease(agent_id, fence)
  return sql`update ${listeners} set fence = ${listeners.fence} + ${fence == null ? 1 : 0}, agent_id = ${agent_id},
      agent_version = coalesce(${version ?? null}, ${listeners.agent_version}), last_seen_at = clock(),
      lease_expires_at = clock() + ${LEASE_SECONDS} * interval '1 second'
    where ${isOwnListener} and ${may} returning *`
}

/** Nobody takes it while this transaction lasts: what a statement does under it, no later lease has overtaken. */
export const lockLease = ({ agent_id, fence }: { agent_id: string; fence: number }): SQL =>
  sql`select from ${listeners} where ${isOwnListener} and ${isCurrentLease(agent_id, fence)} for share`

/** As it was renewed at the beginning of the poll that waits under it. */
export const selectLockedLease = ({ agent_id, fence }: { agent_id: string; fence: number }): SQL =>
  sql`select * from ${listeners} where ${isOwnListener} and ${isCurrentLease(agent_id, fence)} for share`

/** Given back by an agent that ends, so that nobody waits for it to run out. What is still on its way under it is stale. */
export const clearLease = ({ agent_id, fence }: { agent_id: string; fence: number }): SQL => {
  const mine = sql`${listeners.fence} = ${fence} and coalesce(${listeners.agent_id} = ${agent_id}, true)`
  return sql`update ${listeners} set agent_id = null, lease_expires_at = null where ${isOwnListener} and ${refuseUnless('fence_stale', mine)} returning id`
}

/** The same without holding it, for a look. */
export const hasLease = ({ agent_id, fence }: { agent_id: string; fence: number }): SQL =>
  sql`${isOwnListener} and ${isCurrentLease(agent_id, fence)}`
