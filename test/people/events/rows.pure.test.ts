import { expect, it } from 'vitest'
import { type EventRow, eventToWire } from '../../../src/people/events/rows.ts'
import { Event } from '../../../src/people/events/schema.ts'

const ids = { scope_id: crypto.randomUUID(), subject_id: crypto.randomUUID(), actor_id: crypto.randomUUID() }
const row: EventRow = {
  ...ids,
  seq: 7,
  type: 'preview_policy.set',
  actor_kind: 'key',
  actor_name: 'CI',
  request_id: 'a-request',
  request: {
    operation: 'setPreviewPolicy',
    method: 'PUT',
    path: '/v2/deployments/1/preview-policy',
    client_address: '192.0.2.7',
    user_agent: 'curl/8',
  },
  data: { max: 3 },
  changes: [{ path: 'max', before: null, after: 3 }],
  part_of: 6,
  created_at: '2026-11-22 10:00:00.123456+00',
}

it('an event on the wire has every member, but neither the address nor the user agent of the client', () => {
  const wire = eventToWire(row)
  expect(Event.parse(wire)).toEqual(wire)
  expect(wire).toEqual({
    id: `evt_${ids.scope_id}_7`,
    number: 7,
    type: 'preview_policy.set',
    created_at: '2026-11-22T10:00:00.123Z',
    workspace_id: ids.scope_id,
    subject: { type: 'preview_policy', id: ids.subject_id },
    actor: { kind: 'key', id: ids.actor_id, name: 'CI' },
    request: {
      id: 'a-request',
      operation: 'setPreviewPolicy',
      method: 'PUT',
      path: '/v2/deployments/1/preview-policy',
    },
    part_of: 6,
    changes: [{ path: 'max', before: null, after: 3 }],
    data: { max: 3 },
  })
})

it('an event that no request caused, or an event without recorded changes, has the same members', () => {
  const wire = eventToWire({ ...row, actor_id: null, actor_name: null, request: null, changes: null, part_of: null })
  expect(Event.parse(wire)).toEqual(wire)
  expect(wire).toMatchObject({
    actor: { id: null, name: null },
    request: { id: 'a-request', operation: null, method: null, path: null },
    part_of: null,
    changes: [],
  })
})
