// `slipway events`: the newest events of the workspace, and with --follow those that happen.
import type { StreamItem } from '../../client/client.ts'
import { usageError } from '../failure.ts'
import type { Session } from '../session.ts'

export type EventOptions = { follow?: boolean; type?: string; limit: string }
type Event = StreamItem<'GET /v2/events/stream'>

export async function showEvents(session: Session, options: EventOptions): Promise<void> {
  const { client, out, signal } = session
  if (!/^[1-9]\d{0,2}$/.test(options.limit)) throw usageError(`--limit ${options.limit} is not a number of events.`)
  const filters = options.type ? { type: options.type.split(',') } : {}
  const show = (event: Event) => out.emit({ ...event }, () => formatEvent(session, event))
  const query = { ...filters, order: 'desc' as const, limit: Number(options.limit) }
  const page = await client.call('GET /v2/events', { query, signal })
  for (const event of page.resources.toReversed()) show(event)
  if (!options.follow) return
  const after = page.resources[0]?.number ?? 0
  const onState = ({ state }: { state: string }) => {
    if (state === 'reconnecting') out.note('The stream was cut. Reconnecting.')
  }
  for await (const item of client.stream('GET /v2/events/stream', { query: { ...filters, after }, signal, onState })) {
    if (item.event === 'message') show(item.data)
    else out.note('Some events are no longer kept.')
  }
}

function formatEvent({ out }: Session, { created_at, type, subject, actor }: Event): string {
  const time = created_at.slice(0, 19).replace('T', ' ')
  return `${out.paint('dim', time)} ${type} ${subject.id} by ${actor.name ?? actor.kind}`.replace(/\p{Cc}/gu, '�')
}
