import { expect, it } from 'vitest'
import { buildPayload } from '../../../src/connect/webhooks/payload.ts'
import type { EventRow } from '../../../src/people/events/rows.ts'

const EVENT: EventRow = {
  scope_id: '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11',
  seq: 42,
  type: 'tag_key.created',
  part_of: null,
  subject_id: '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d12',
  actor_kind: 'cron',
  actor_id: null,
  actor_name: null,
  request_id: 'r',
  request: null,
  created_at: '2026-11-22 12:00:00+00',
  data: { key: 'team' },
  changes: null,
}
const LARGE = 'ö'.repeat(10_240)

it.each([
  ['whole', {}, undefined],
  ['without its changes if they are large', { changes: [{ path: 'x', before: null, after: LARGE }] }, ['changes']],
  ['without its data too if it is large', { data: { text: LARGE } }, ['changes', 'data']],
])('the payload of an event is %s, and has at most 20 KiB', (_, over, omitted) => {
  const text = buildPayload('https://slipway.example.com', { ...EVENT, ...over }, { name: 'shop' })
  const { type, timestamp, data } = JSON.parse(text)
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(20 * 1024)
  expect([type, timestamp]).toEqual(['tag_key.created', '2026-11-22T12:00:00.000Z'])
  expect(data).toMatchObject({ number: 42, deployment: { name: 'shop' } })
  expect(data.omitted).toEqual(omitted)
  expect(data.read_at).toBe(omitted && 'https://slipway.example.com/v2/events?after=41&limit=1')
})
