// Creates, lists and ends mutes.
import { and, eq, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { db, inTenant, lockRows } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { hasOnlyKnownIds } from '../../kernel/db/known-ids.ts'
import { createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { afterCursor, newestFirst, readPage } from '../../kernel/http/paging.ts'
import { endOfWindow } from './mute-windows.ts'
import type * as schema from './schema.ts'
import { alertMutes } from './tables.ts'

type MuteParams = z.output<typeof schema.MuteRef>
type MuteRow = typeof alertMutes.$inferSelect

const toWire =
  (now: number) =>
  (row: MuteRow): schema.Mute => ({
    id: row.id,
    reason: row.reason,
    rule_ids: row.rule_ids,
    deployment_ids: row.deployment_ids,
    tag_value_ids: row.tag_value_ids,
    starts_at: toIsoTime(row.starts_at),
    ends_at: toIsoTime(row.ends_at),
    weekly: row.weekly,
    is_active: endOfWindow(row, now) !== null,
    created_by_name: row.created_by_name,
    created_at: toIsoTime(row.created_at),
  })

const RECORD = recordColumns(alertMutes, [
  'reason',
  'rule_ids',
  'deployment_ids',
  'tag_value_ids',
  'starts_at',
  'ends_at',
  'weekly',
])

type MutePage = z.output<typeof schema.MuteQuery>
const pageStatement = prepareStatement((page: Placeholders<MutePage>) =>
  db
    .select()
    .from(alertMutes)
    .where(and(inTenant(alertMutes), afterCursor(alertMutes, page)))
    .orderBy(...newestFirst(alertMutes))
    .limit(page.limit)
    .offset(page.offset),
)

const nowOf = ({ platform }: Ctx): number => platform.clock.now()

export const listMutes = verb('alerts:read', (ctx, page: MutePage) =>
  readPage(ctx, pageStatement, page, toWire(nowOf(ctx))),
)

/** Incidents that are open already are muted, too: nobody is told more of them. */
export const createMute = verb('alerts:manage', async (ctx, input: schema.NewMute) => {
  const { rule_ids, deployment_ids, tag_value_ids, starts_at = null, ends_at = null, weekly = null } = input
  if (ends_at !== null && Date.parse(ends_at) <= nowOf(ctx))
    throw fail('invalid_request', {
      errors: [{ type: 'custom', loc: ['body', 'ends_at'], msg: 'must be in the future' }],
    })
  const isKnown = and(
    hasOnlyKnownIds('alert_rule_not_found', sql`alert_rules`, rule_ids),
    hasOnlyKnownIds('deployment_not_found', sql`deployments`, deployment_ids),
    hasOnlyKnownIds('tag_value_not_found', sql`tag_values`, tag_value_ids),
  )!
  const change = db
    .insert(alertMutes)
    .values({
      ...input,
      organization_id: sql`current_organization()`,
      tenant_id: sql`case when ${isKnown} then current_tenant() end`,
      starts_at,
      ends_at,
      weekly,
    })
    .returning()
  const rows = await commit(ctx, 'alert_mute.created', change, {}, { changes: createdMembers(RECORD) })
  return toWire(nowOf(ctx))(requireRow(rows, 'workspace_not_found'))
})

const isMute = ({ mute_id }: MuteParams): SQL => and(eq(alertMutes.id, mute_id), inTenant(alertMutes))!

/** Its incidents are looked at again: channels are told of those that still are open. */
const LOOK_AGAIN = sql`looked_at_again as (
    update incidents i
    set tell_at = clock()
    from changed
    where i.tenant_id = changed.tenant_id and i.state <> 'resolved' and i.muted_until is not null
  )`

export const deleteMute = verb('alerts:manage', async (ctx, ref: MuteParams) => {
  const change = db.delete(alertMutes).where(isMute(ref)).returning()
  const parts = { lock: lockRows(alertMutes, isMute(ref)), changes: deletedMembers(RECORD), ctesAfter: [LOOK_AGAIN] }
  requireRow(await commit(ctx, 'alert_mute.deleted', change, {}, parts), 'alert_mute_not_found')
})
