// Streams events as they happen, from a number on.
import { type Ctx, credentialOf, verb } from '../../kernel/http/context.ts'
import { type LiveStream, resumeAfter, type StreamBatch, type StreamMessage } from '../../kernel/http/live-stream.ts'
import { matchesFilters } from './filters.ts'
import { type JournalPage, readPage } from './pages.ts'
import type { StreamQuery } from './schema.ts'
import { LOOK_SIZE, toWatched, type WatchedEvent, watchEvents } from './watch.ts'

export const streamEvents = verb(
  'events:read',
  async (ctx, { after, ...filters }: StreamQuery): Promise<LiveStream> => {
    const release = ctx.watches!.admit(credentialOf(ctx).hash)
    try {
      const wanted = resumeAfter(ctx, after)
      const request = { after: wanted ?? Number.MAX_SAFE_INTEGER, limit: LOOK_SIZE, descending: false, filters: {} }
      const page = await readPage(ctx, request)
      return { follow: signal => followEvents(ctx, page, wanted, filters, signal), onEnd: release }
    } catch (error) {
      release()
      throw error
    }
  },
)

async function* followEvents(
  ctx: Ctx,
  page: JournalPage,
  after: number | undefined,
  filters: Omit<StreamQuery, 'after'>,
  signal: AbortSignal,
): AsyncGenerator<StreamBatch> {
  const until = Date.now() + ctx.platform.liveStreams.seconds * 1000
  const toMessages = (items: WatchedEvent[]): StreamMessage[] =>
    items
      .filter(({ event }) => matchesFilters(event, filters))
      .map(({ number, json }) => ({ id: String(number), json }))
  const start = startOf(page, after)
  const first = page.rows.map(toWatched)
  yield { messages: [...start.messages, ...toMessages(first)], cursor: String(start.cursor) }
  const watch = watchEvents(ctx, start.cursor, !page.hasMore)
  for (;;) {
    const items = await watch.next(until, signal)
    if (items.length === 0) return
    yield { messages: toMessages(items), cursor: String(watch.cursor) }
  }
}

/** The stream goes on with existing events after a reset: a client that gets one reads its resources again. */
function startOf({ rows, newest, oldest, next }: JournalPage, after: number | undefined) {
  const reset = (reason: 'expired' | 'unknown', cursor: number) => ({
    id: String(cursor),
    event: 'reset' as const,
    json: JSON.stringify({ reason, after, oldest, newest }),
  })
  if (after === undefined) return { messages: [], cursor: newest }
  if (after > newest) return { messages: [reset('unknown', newest)], cursor: newest }
  const messages = after + 1 < oldest ? [reset('expired', oldest - 1)] : []
  return { messages, cursor: rows.at(-1)?.seq ?? Math.max(next, oldest - 1) }
}
