// Follows the logs of a deployment: pages that wait for the next line, and a stream.
import type * as z from 'zod'
import type { Numbered, Watch } from '../../kernel/db/watch.ts'
import { type Ctx, credentialOf, toWatcher, verb } from '../../kernel/http/context.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import { type LiveStream, resumeAfter, type StreamBatch, type StreamMessage } from '../../kernel/http/live-stream.ts'
import { logKinds } from '../../protocol/logs.schema.ts'
import type { DeploymentRef } from '../deployments/schema.ts'
import { type ArrivalRequest, type ArrivedPage, matchesFilters, readArrivedLines } from './log-arrivals.ts'
import type * as s from './logs.schema.ts'

const LOOK_SIZE = 500

/** `dropped` lines before this one are no longer kept. `json` is shared by all who send the line. */
type WatchedLine = Numbered & { line: s.ArrivedLine; json: string; dropped: number }

/** Watchers of a deployment share all its lines, and each filters what it sees. */
function watchLines(ctx: Ctx, deployment_id: string, start: { after: number; trips: number }): Watch<WatchedLine> {
  const read = async (after: number, isShared: boolean) => {
    if (!isShared) ctx.countAgain?.()
    const page = await readArrivedLines(ctx, { deployment_id, kinds: logKinds, after, limit: LOOK_SIZE })
    const items = page.lines.map((line, i): WatchedLine => {
      const json = JSON.stringify(line)
      const dropped = line.arrival - (page.lines[i - 1]?.arrival ?? after) - 1
      return { number: line.arrival, bytes: json.length, line, json, dropped }
    })
    return { items, isLast: !page.hasMore, isLimited: ctx.requestInfo.isLimited }
  }
  return ctx.watches!.watch(toWatcher(ctx), { subject: `logs ${deployment_id}`, read }, { ...start, isLast: true })
}

const sumDropped = (items: WatchedLine[]) => items.reduce((sum, { dropped }) => sum + dropped, 0)

type FollowInput = z.output<typeof DeploymentRef> & s.FollowQuery

export const followLogs = verb(
  'deployments:read',
  async (ctx, { wait, ...request }: FollowInput): Promise<s.ArrivedPage> => {
    const release = wait > 0 ? ctx.watches!.admit(credentialOf(ctx).hash) : undefined
    try {
      const page = await readArrivedLines(ctx, request)
      const { after = 0 } = request
      if (after > page.newest) {
        const msg = `is beyond the newest line, ${page.newest}`
        throw invalidRequest([{ type: 'too_big', loc: ['query', 'after'], msg }])
      }
      return wait === 0 || isWorthSending(page) ? toWire(page) : await waitForLines(ctx, wait, request, page)
    } finally {
      release?.()
    }
  },
)

const isWorthSending = ({ lines, dropped }: ArrivedPage) => lines.length > 0 || dropped > 0
const toWire = ({ lines, next, hasMore, dropped }: ArrivedPage): s.ArrivedPage => ({
  logs: lines,
  next_after: next,
  has_more: hasMore,
  dropped,
})

async function waitForLines(
  ctx: Ctx,
  seconds: number,
  request: ArrivalRequest,
  first: ArrivedPage,
): Promise<s.ArrivedPage> {
  const until = Date.now() + Math.min(seconds, ctx.platform.liveStreams.seconds) * 1000
  const signal = ctx.disconnectSignal?.()
  let [page, trips] = [first, 1]
  while (page.hasMore && canGoOn(ctx, { until, signal, trips })) {
    page = await readArrivedLines(ctx, { ...request, after: page.next })
    trips++
    if (isWorthSending(page)) return toWire(page)
  }
  if (page.hasMore) return toWire(page)
  const watch = watchLines(ctx, request.deployment_id, { after: page.next, trips })
  for (;;) {
    const items = await watch.next(until, signal)
    const matching = items.filter(({ line }) => matchesFilters(line, request))
    const logs = matching.slice(0, request.limit).map(({ line }) => line)
    const isCut = matching.length > logs.length
    const next_after = isCut ? logs.at(-1)!.arrival : watch.cursor
    const dropped = sumDropped(items.filter(({ number }) => number <= next_after))
    if (logs.length > 0 || dropped > 0 || items.length === 0) return { logs, next_after, has_more: isCut, dropped }
  }
}

type Progress = { until: number; signal: AbortSignal | undefined; trips: number }
const canGoOn = ({ platform }: Ctx, { until, signal, trips }: Progress) =>
  Date.now() < until && !signal?.aborted && trips < platform.liveStreams.trips

type StreamInput = z.output<typeof DeploymentRef> & s.StreamQuery

export const streamLogs = verb('deployments:read', async (ctx, input: StreamInput): Promise<LiveStream> => {
  const release = ctx.watches!.admit(credentialOf(ctx).hash)
  try {
    const request = { ...input, after: resumeAfter(ctx, input.after), limit: LOOK_SIZE }
    const page = await readArrivedLines(ctx, request)
    return { follow: signal => followLines(ctx, request, page, signal), onEnd: release }
  } catch (error) {
    release()
    throw error
  }
})

const toMessage = ({ arrival }: s.ArrivedLine, json: string): StreamMessage => ({ id: String(arrival), json })
/** Without an id, so that a client that is cut off here gets it again. */
const droppedMessages = (lines: number): StreamMessage[] =>
  lines > 0 ? [{ event: 'dropped', json: JSON.stringify({ lines }) }] : []

async function* followLines(
  ctx: Ctx,
  request: ArrivalRequest,
  first: ArrivedPage,
  signal: AbortSignal,
): AsyncGenerator<StreamBatch> {
  const { newest } = first
  const { after = 0 } = request
  const until = Date.now() + ctx.platform.liveStreams.seconds * 1000
  let [page, trips] = [first, 1]
  if (after > newest) {
    page = { ...first, next: newest }
    const json = JSON.stringify({ reason: 'unknown', after, newest })
    yield { messages: [{ id: String(newest), event: 'reset', json }], cursor: String(newest) }
  }
  for (;;) {
    const lines = page.lines.map(line => toMessage(line, JSON.stringify(line)))
    yield { messages: [...droppedMessages(page.dropped), ...lines], cursor: String(page.next) }
    if (!page.hasMore) break
    if (!canGoOn(ctx, { until, signal, trips })) return
    page = await readArrivedLines(ctx, { ...request, after: page.next })
    trips++
  }
  const watch = watchLines(ctx, request.deployment_id, { after: page.next, trips })
  for (;;) {
    const items = await watch.next(until, signal)
    if (items.length === 0) return
    const matching = items.filter(({ line }) => matchesFilters(line, request))
    const lines = matching.map(({ line, json }) => toMessage(line, json))
    yield { messages: [...droppedMessages(sumDropped(items)), ...lines], cursor: String(watch.cursor) }
  }
}
