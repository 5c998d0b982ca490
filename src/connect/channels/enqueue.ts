// Stores notices for channels, within the statement or the transaction that decides on them.
import { type SQL, sql } from 'drizzle-orm'
import { uuidArray } from '../../kernel/db/db.ts'
import type { NoticeContent, noticePhases } from '../../protocol/notice.schema.ts'

type NewNotice = {
  tenant: SQL | string
  /** Ids, or an expression of type `uuid[]`. */
  channels: SQL | readonly string[]
  /** An incident, or a revision. It has one message at receivers that can change theirs. */
  thread: SQL | string
  phase: SQL | (typeof noticePhases)[number]
  /** Rises within the thread. A number that was stored before adds nothing. */
  sequence: SQL | number
  /** `NoticeContent`, or an expression of type `jsonb`. */
  content: SQL | NoticeContent
}

const isSql = <Value>(value: SQL | Value): value is SQL =>
  typeof value === 'object' && value !== null && 'getSQL' in value

/** An expression that stores the notices and comes to their number. `enqueue_notices()` does the same within SQL. */
export const enqueueNotices = ({ tenant, channels, thread, phase, sequence, content }: NewNotice): SQL<number> => {
  const list = isSql(channels) ? channels : uuidArray(channels as readonly string[])
  const body = isSql(content) ? content : sql`${JSON.stringify(content)}`
  return sql`enqueue_notices(
    ${tenant}::uuid, ${list}, ${thread}::text, ${phase}::text, ${sequence}::bigint, ${body}::jsonb)`
}
