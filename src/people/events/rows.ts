// Converts rows of the journal of a workspace to the wire format.

import { pickColumns, toIsoTime } from '../../kernel/db/rows.ts'
import { events } from '../../kernel/db/tables.ts'
import type { RequestRecord } from '../../kernel/http/context.ts'
import type { Event } from './schema.ts'

export const eventColumns = pickColumns(events, [
  'scope_id',
  'seq',
  'type',
  'subject_id',
  'actor_kind',
  'actor_id',
  'actor_name',
  'request_id',
  'request',
  'data',
  'changes',
  'part_of',
  'created_at',
])
export type EventRow = Pick<typeof events.$inferSelect, keyof typeof eventColumns>

export const eventId = ({ scope_id, seq }: Pick<EventRow, 'scope_id' | 'seq'>): string => `evt_${scope_id}_${seq}`

/** Omits the client's address and user agent, which only the audit log shows. */
export function eventToWire(row: EventRow): Event {
  const { operation = null, method = null, path = null } = (row.request ?? {}) as Partial<RequestRecord>
  return {
    id: eventId(row),
    number: row.seq,
    type: row.type,
    created_at: toIsoTime(row.created_at),
    workspace_id: row.scope_id,
    subject: { type: row.type.slice(0, row.type.indexOf('.')), id: row.subject_id },
    actor: { kind: row.actor_kind, id: row.actor_id, name: row.actor_name },
    request: { id: row.request_id, operation, method, path },
    part_of: row.part_of,
    changes: (row.changes ?? []) as Event['changes'],
    data: row.data as Event['data'],
  }
}
