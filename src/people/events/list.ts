// Lists events. A page that would be empty can wait for the next event.
import { type Ctx, credentialOf, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import { matchesFilters } from './filters.ts'
import { type JournalPage, readPage } from './pages.ts'
import { eventToWire } from './rows.ts'
import type { EventPage, EventQuery } from './schema.ts'
import { watchEvents } from './watch.ts'

export const listEvents = verb('events:read', async (ctx, query: EventQuery): Promise<EventPage> => {
  const { after, limit, order, wait, ...filters } = query
  const release = wait > 0 ? ctx.watches!.admit(credentialOf(ctx).hash) : undefined
  try {
    const page = await readPage(ctx, { after, limit, descending: order === 'desc', filters })
    if (order === 'asc') requireKept(page, after)
    if (wait > 0 && page.rows.length === 0 && !page.hasMore) return await waitForPage(ctx, query, page)
    return { resources: page.rows.map(eventToWire), next_after: page.next, has_more: page.hasMore }
  } finally {
    release?.()
  }
})

function requireKept({ oldest, newest }: JournalPage, after: number | undefined): void {
  if (after === undefined) return
  if (after > newest)
    throw invalidRequest([{ type: 'too_big', loc: ['query', 'after'], msg: `is beyond the newest event, ${newest}` }])
  if (after + 1 < oldest) throw fail('events_expired', { about: `the oldest that is kept comes after ${oldest - 1}` })
}

async function waitForPage(ctx: Ctx, query: EventQuery, { newest }: JournalPage): Promise<EventPage> {
  const until = Date.now() + Math.min(query.wait, ctx.platform.liveStreams.seconds) * 1000
  const signal = ctx.disconnectSignal?.()
  const watch = watchEvents(ctx, newest, true)
  for (;;) {
    const items = await watch.next(until, signal)
    const matching = items.filter(({ event }) => matchesFilters(event, query)).slice(0, query.limit + 1)
    if (matching.length > query.limit) {
      const resources = matching.slice(0, query.limit).map(({ event }) => event)
      return { resources, next_after: resources.at(-1)!.number, has_more: true }
    }
    if (matching.length > 0 || items.length === 0)
      return { resources: matching.map(({ event }) => event), next_after: watch.cursor, has_more: false }
  }
}
