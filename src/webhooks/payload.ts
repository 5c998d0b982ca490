// The body of a message: an event in the payload of Standard Webhooks, of at most 20 KiB (pure).
import { type EventRow, eventToWire } from '../events/rows.ts'

const MAX_BYTES = 20 * 1024

/** `deployment` is the deployment that the event is about, as it was when the delivery was stored. */
export function buildPayload(origin: string, event: EventRow, deployment: unknown): string {
  const wire = eventToWire(event)
  const read_at = `${origin}/v2/events?after=${event.seq - 1}&limit=1`
  const whole = { ...wire, deployment }
  const attempts = [whole, { ...whole, changes: [], omitted: ['changes'], read_at }]
  const texts = attempts.map(data => JSON.stringify({ type: wire.type, timestamp: wire.created_at, data }))
  const fitting = texts.find(text => Buffer.byteLength(text) <= MAX_BYTES)
  if (fitting !== undefined) return fitting
  const data = { ...whole, changes: [], data: {}, omitted: ['changes', 'data'], read_at }
  return JSON.stringify({ type: wire.type, timestamp: wire.created_at, data })
}
