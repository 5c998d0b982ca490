// Drains for agents: which of them a poll offers, with headers sealed to the agent, and what agents tell of them.
import { sql } from 'drizzle-orm'
import { type Row, run } from '../../kernel/db/db.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import type { DrainReports, OfferedDrains, WorkDrain } from '../../protocol/drains.schema.ts'
import { openHeaders } from '../drains/drains.ts'
import type { Seal } from './envelope.ts'

/** By offer_drains(). */
export type StoredDrains = {
  digest: string
  list: (Omit<WorkDrain, 'access'> & { headers: string | null })[] | null
}

/** Undefined where the agent has them. */
export async function toOfferedDrains(
  { ctx, listener_id, seal }: { ctx: Ctx; listener_id: string; seal: Seal },
  stored: StoredDrains | null,
): Promise<OfferedDrains | undefined> {
  if (!stored?.list) return undefined
  const list = stored.list.map(async ({ headers, ...drain }) => {
    const place = `${listener_id}/drains/${drain.id}`
    const access = headers === null ? null : await seal(await openHeaders(ctx, { id: drain.id, headers }), place)
    return { ...drain, access }
  })
  return { digest: stored.digest, list: await Promise.all(list) }
}

/** A report of a drain that is gone, or not of this listener, is left out. */
export const receiveDrainReports = verb('listeners:sync', async (ctx, { agent_id, fence, drains }: DrainReports) => {
  await run(ctx, sql<Row>`select report_drains(${agent_id}, ${fence}, ${JSON.stringify(drains)}::jsonb)`)
})
