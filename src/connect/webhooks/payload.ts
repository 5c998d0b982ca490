// The body of a message, from a row of the journal.
import { type EventRow, eventToWire } from '../../people/events/rows.ts'
import { buildBody } from '../../protocol/webhook-body.ts'

/** `deployment` is the deployment that the event is about, as it was when the delivery was stored. */
export const buildPayload = (origin: string, event: EventRow, deployment: unknown): string =>
  buildBody(origin, eventToWire(event), deployment)
