// The body of a webhook message: an event in the payload of Standard Webhooks, of at most 20 KiB (pure).

const MAX_BYTES = 20 * 1024

type WireEvent = { number: number; type: string; created_at: string; changes: unknown[]; data: object }

/** `deployment` is the deployment that the event is about, with its id, name, status and URL. */
export function buildBody(origin: string, event: WireEvent, deployment: unknown): string {
  const read_at = `${origin}/v2/events?after=${event.number - 1}&limit=1`
  const whole = { ...event, deployment }
  const attempts = [whole, { ...whole, changes: [], omitted: ['changes'], read_at }]
  const texts = attempts.map(data => JSON.stringify({ type: event.type, timestamp: event.created_at, data }))
  const fitting = texts.find(text => Buffer.byteLength(text) <= MAX_BYTES)
  if (fitting !== undefined) return fitting
  const data = { ...whole, changes: [], data: {}, omitted: ['changes', 'data'], read_at }
  return JSON.stringify({ type: event.type, timestamp: event.created_at, data })
}
