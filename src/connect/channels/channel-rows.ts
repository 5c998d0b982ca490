// Rows of channels, as the API shows them.
import { and, eq, isNull, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { inTenant } from '../../kernel/db/db.ts'
import { toIsoTime } from '../../kernel/db/rows.ts'
import type { Placeholders } from '../../kernel/db/statement.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import type * as schema from './schema.ts'
import { channels } from './tables.ts'

export type ChannelParams = z.output<typeof schema.ChannelRef>
export type ChannelRow = typeof channels.$inferSelect

const statusOf = (row: ChannelRow): schema.Channel['health']['status'] => {
  if (row.disabled_at !== null) return 'disabled'
  if (row.confirmed_at === null) return 'unconfirmed'
  return row.failing_since === null ? 'ok' : 'failing'
}

export const toWire = (row: ChannelRow): schema.Channel & { [etagVersion]: number } => ({
  id: row.id,
  name: row.name,
  is_own: row.member_id !== null,
  target: {
    kind: row.kind,
    address: row.config.address ?? null,
    slack_channel: row.config.slack_channel ?? null,
    region: row.config.region ?? null,
    url: row.config.url ?? null,
  },
  deploys: row.deploys,
  is_default: row.is_default,
  enabled: row.enabled,
  health: {
    status: statusOf(row),
    failing_since: toIsoTime(row.failing_since),
    disabled_at: toIsoTime(row.disabled_at),
    disabled_reason: row.disabled_reason,
    attempted_at: toIsoTime(row.attempted_at),
    error: row.last_error,
  },
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

/** Channels of automation rules belong to their rules. */
export const isChannel = ({ channel_id }: ChannelParams | Placeholders<ChannelParams>): SQL =>
  and(eq(channels.id, channel_id), inTenant(channels), isNull(channels.run_rule_id))!

/** For a where clause of a change. */
export const MAY_MANAGE = sql`require_channel_owner(${channels.member_id})`
