// Matches events with the filters of a request (pure). SQL says the same in `pages.ts`.
import type { Event, EventFilters } from './schema.ts'

const matchesType = (type: string, pattern: string): boolean => {
  if (pattern === '*') return true
  const [kind, name] = pattern.split('.')
  const [actualKind, actualName] = type.split('.')
  return (kind === '*' || kind === actualKind) && (name === '*' || name === actualName)
}

export function matchesFilters(event: Event, filters: EventFilters): boolean {
  const { type, subject_id, actor_id, start_time, end_time } = filters
  return (
    (!type || type.some(pattern => matchesType(event.type, pattern))) &&
    (!subject_id || event.subject.id === subject_id) &&
    (!actor_id || event.actor.id === actor_id) &&
    (!start_time || event.created_at >= start_time) &&
    (!end_time || event.created_at < end_time)
  )
}
