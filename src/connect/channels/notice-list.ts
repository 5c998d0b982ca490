// Lists the notices of a channel, sent and to be sent.
import { and, eq, sql } from 'drizzle-orm'
import type { AnyPgColumn } from 'drizzle-orm/pg-core'
import type * as z from 'zod'
import { db, inTenant, run } from '../../kernel/db/db.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { verb } from '../../kernel/http/context.ts'
import { afterCursor, newestFirst, pageBounds, toListPage } from '../../kernel/http/paging.ts'
import { type ChannelParams, isChannel } from './channel-rows.ts'
import type * as schema from './schema.ts'
import { channels, notices } from './tables.ts'

const toWire = (row: typeof notices.$inferSelect): schema.Notice => ({
  id: row.id,
  channel_id: row.channel_id,
  thread: row.thread,
  phase: row.phase,
  title: row.content.title,
  severity: row.content.severity,
  state: row.state,
  attempts: row.attempts,
  next_attempt_at: toIsoTime(row.next_attempt_at),
  attempted_at: toIsoTime(row.attempted_at),
  error: row.error,
  answer_status: row.answer_status,
  duration_ms: row.duration_ms,
  created_at: toIsoTime(row.created_at),
})

type NoticePage = ChannelParams & z.output<typeof schema.NoticeQuery>

/** Joins from the channel, so that one trip tells an empty list from a missing channel. */
const pageStatement = prepareStatement(({ channel_id, state, ...query }: Placeholders<NoticePage>) => {
  const page = db
    .select()
    .from(notices)
    .where(
      and(
        eq(notices.channel_id, channel_id),
        inTenant(notices),
        state && eq(notices.state, state),
        afterCursor(notices, query),
      ),
    )
    .orderBy(...newestFirst(notices))
    .limit(query.limit)
    .offset(query.offset)
    .as('notice')
  return db
    .select()
    .from(channels)
    .leftJoinLateral(page, sql`true`)
    .where(isChannel({ channel_id }))
    .orderBy(...newestFirst(page as unknown as Record<'created_at' | 'id', AnyPgColumn>))
})

export const listNotices = verb('channels:read', async (ctx, input: NoticePage) => {
  const rows = await run(ctx, pageStatement({ ...input, ...pageBounds(input) }))
  requireRow(rows, 'channel_not_found')
  return toListPage(
    rows.flatMap(({ notice }) => (notice ? [notice] : [])),
    input,
    toWire,
  )
})
