// Events as a terminal shows them: one sentence each.
import type { StreamItem } from '../client/client.ts'
import type { Output } from './output.ts'
import { oneLine } from './terminal-text.ts'

export type Event = StreamItem<'GET /v2/events/stream'>

/** Members that hold the name of a resource. */
const NAMES = ['name', 'display_name', 'compute_id', 'provider_id', 'key', 'value', 'email', 'description', 'url']
const SHORT_ID = 8

const asText = (value: unknown): string | undefined =>
  (typeof value === 'string' && value !== '') || typeof value === 'number' ? String(value) : undefined

/** Such as `deployment shop`: by the name that the event tells, or by the start of the id. */
export function describeSubject({ subject, changes, data }: Pick<Event, 'subject' | 'changes' | 'data'>): string {
  const changed = NAMES.map(name => changes.find(({ path }) => path === name))
  const name =
    changed.map(change => asText(change?.after) ?? asText(change?.before)).find(Boolean) ??
    NAMES.map(member => asText((data as Record<string, unknown>)[member])).find(Boolean)
  return oneLine(`${subject.type.replaceAll('_', ' ')} ${name ?? subject.id.slice(0, SHORT_ID)}`)
}

/** Such as `CI (key): deployment shop created`. */
export function formatEvent({ paint }: Output, event: Event): string {
  const time = event.created_at.slice(0, 19).replace('T', ' ')
  const { actor, type } = event
  const who = actor.name === null ? actor.kind : `${oneLine(actor.name)} (${actor.kind})`
  const what = type.slice(type.indexOf('.') + 1).replaceAll('_', ' ')
  const { message } = event.data as { message?: unknown }
  const why = typeof message === 'string' ? `: ${oneLine(message)}` : ''
  const color = what.endsWith('failed') ? 'red' : 'bold'
  return `${paint('dim', time)} ${who}: ${describeSubject(event)} ${paint(color, what)}${why}`
}
