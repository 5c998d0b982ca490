// Watches the events of a workspace. All watchers of the workspace share queries, and each filters their result.

import type { Numbered, Watch } from '../../kernel/db/watch.ts'
import { type Ctx, toWatcher } from '../../kernel/http/context.ts'
import { readPage } from './pages.ts'
import { type EventRow, eventToWire } from './rows.ts'
import type { Event } from './schema.ts'

/** An event, and its JSON for all who send it. */
export type WatchedEvent = Numbered & { event: Event; json: string }

export const LOOK_SIZE = 200

export function toWatched(row: EventRow): WatchedEvent {
  const event = eventToWire(row)
  const json = JSON.stringify(event)
  return { number: row.seq, bytes: json.length, event, json }
}

/** Begins after a page that the request has read. */
export function watchEvents(ctx: Ctx, after: number, isLast: boolean): Watch<WatchedEvent> {
  const watcher = toWatcher(ctx)
  const read = async (after: number, isShared: boolean) => {
    const request = { after, limit: LOOK_SIZE, descending: false, filters: {} }
    if (!isShared) ctx.countAgain?.()
    const { rows, hasMore } = await readPage(ctx, request)
    return { items: rows.map(toWatched), isLast: !hasMore, isLimited: ctx.requestInfo.isLimited }
  }
  return ctx.watches!.watch(watcher, { subject: `events ${watcher.workspace}`, read }, { after, isLast })
}
