// `slipway events`: the newest events of the workspace, or those from a place or time on, and those that happen.
import type { CallOptions } from '../../client/client.ts'
import type { Declaration } from '../declaration.ts'
import { type Event, formatEvent } from '../event-lines.ts'
import { usageError } from '../failure.ts'
import type { Session } from '../session.ts'
import { parseCount, parseTime } from '../times.ts'

export const declaration: Declaration = {
  summary: 'show what happened in the workspace',
  options: command =>
    command
      .option('-f, --follow', 'go on with events as they happen')
      .option('--type <types>', 'only these types, such as deployment.*, separated by commas')
      .option('--subject <id>', 'only events about this resource')
      .option('--since <time>', 'from this time on, such as 2h or 2026-11-22T12:00:00Z')
      .option('--after <number>', 'after the event with this number')
      .option('--limit <number>', 'how many. Default: the 20 newest, or all with --since or --after'),
}

type Flags = {
  follow?: boolean
  type?: string
  subject?: string
  since?: string
  after?: string
  limit?: string
}
type Query = NonNullable<CallOptions<'GET /v2/events'>['query']>

const DEFAULT_LIMIT = 20
const PAGE = 100

export async function run(session: Session, options: Flags): Promise<void> {
  const { client, out, signal } = session
  if (options.since !== undefined && options.after !== undefined)
    throw usageError('--since and --after both say where to begin. Give one of them.')
  const filters = {
    ...(options.type && { type: options.type.split(',') }),
    ...(options.subject && { subject_id: options.subject }),
  }
  const show = (event: Event) => out.emit({ ...event }, () => formatEvent(out, event))
  const isNewest = options.since === undefined && options.after === undefined
  const after = await (isNewest ? showNewest : showFrom)(session, filters, options, show)
  if (!options.follow) return
  const onState = ({ state }: { state: string }) => {
    if (state === 'reconnecting') out.note('The stream was cut. Reconnecting.')
  }
  const stream = client.stream('GET /v2/events/stream', { query: { ...filters, after }, signal, onState })
  for await (const item of stream) {
    if (item.event === 'message') show(item.data)
    else out.note('Some events are no longer kept.')
  }
}

type Show = (event: Event) => void

/** Returns the number after which to follow, as the next function does. */
async function showNewest({ client, signal }: Session, filters: Query, options: Flags, show: Show) {
  const limit = parseCount(options.limit ?? `${DEFAULT_LIMIT}`, '--limit', PAGE)
  const read = (query: Query) => client.call('GET /v2/events', { query: { ...query, order: 'desc' }, signal })
  // Read before the page, so that no event is missed between the page and the stream.
  const newest = (await read({ limit: 1 })).resources[0]?.number ?? 0
  const { resources } = await read({ ...filters, limit })
  for (const event of resources.toReversed()) show(event)
  return Math.max(newest, resources[0]?.number ?? 0)
}

async function showFrom({ client, signal }: Session, filters: Query, options: Flags, show: Show) {
  const start_time = options.since && parseTime(options.since, '--since')
  let after = options.after === undefined ? undefined : parseCount(options.after, '--after', Number.MAX_SAFE_INTEGER, 0)
  let left = options.limit === undefined ? Number.POSITIVE_INFINITY : parseCount(options.limit, '--limit', 1_000_000)
  for (;;) {
    const query = { ...filters, start_time, after, limit: Math.min(PAGE, left) }
    const page = await client.call('GET /v2/events', { query, signal })
    page.resources.forEach(show)
    left -= page.resources.length
    after = page.next_after
    if (!page.has_more || left === 0) return after
  }
}
