// The lease of a listener: one agent at a time works for it, and whoever had an earlier lease is not listened to.
import { type SQL, sql } from 'drizzle-orm'
import { served, unless } from '../kernel/db.ts'
import { listeners } from '../tables.ts'

const LEASE_SECONDS = 60

type Agent = { agent_id: string; fence?: number | null | undefined; version?: string | null | undefined }

/** The listener whose key asks. */
export const own: SQL = served({ listener_id: listeners.id })

const current = (agent_id: string, fence: number): SQL =>
  unless('fence_stale', sql`${listeners.fence} = ${fence} and ${listeners.agent_id} = ${agent_id}`)

/** Taken anew, under the next number, unless another agent holds it; or renewed. Not journaled: it is a heartbeat. */
export function leased({ agent_id, fence, version }: Agent): SQL {
  const free = sql`${listeners.agent_id} = ${agent_id} or coalesce(${listeners.lease_expires_at} <= clock(), true)`
  const wait = sql`greatest(1, ceil(extract(epoch from ${listeners.lease_expires_at} - clock())))::integer::text`
  const may =
    fence == null ? sql`case when ${free} then true else refuse('lease_held', ${wait}) end` : current(agent_id, fence)
  return sql`update ${listeners} set fence = ${listeners.fence} + ${fence == null ? 1 : 0}, agent_id = ${agent_id},
      agent_version = coalesce(${version ?? null}, ${listeners.agent_version}), last_seen_at = clock(),
      lease_expires_at = clock() + ${LEASE_SECONDS} * interval '1 second'
    where ${own} and ${may} returning *`
}

/** Nobody takes it while this transaction lasts: what a statement does under it, no later lease has overtaken. */
export const heldLease = ({ agent_id, fence }: { agent_id: string; fence: number }): SQL =>
  sql`select from ${listeners} where ${own} and ${current(agent_id, fence)} for share`

/** As it was renewed at the beginning of the poll that waits under it. */
export const kept = ({ agent_id, fence }: { agent_id: string; fence: number }): SQL =>
  sql`select * from ${listeners} where ${own} and ${current(agent_id, fence)} for share`

/** Given back by an agent that ends, so that nobody waits for it to run out. What is still on its way under it is stale. */
export const released = ({ agent_id, fence }: { agent_id: string; fence: number }): SQL => {
  const mine = sql`${listeners.fence} = ${fence} and coalesce(${listeners.agent_id} = ${agent_id}, true)`
  return sql`update ${listeners} set agent_id = null, lease_expires_at = null where ${own} and ${unless('fence_stale', mine)} returning id`
}

/** The same without holding it, for a look. */
export const stillLeased = ({ agent_id, fence }: { agent_id: string; fence: number }): SQL =>
  sql`${own} and ${current(agent_id, fence)}`
