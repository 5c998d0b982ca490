// Routes of events.
import { slice } from '../../kernel/http/routes.ts'
import { listEvents } from './list.ts'
import * as s from './schema.ts'
import { streamEvents } from './stream.ts'

export const eventRoutes = slice('Events', 'What happens in a workspace: a list to follow, and a stream.')
  .get('/v2/events', {
    id: 'listEvents',
    summary: 'List the events of a workspace',
    description: [
      'Events of a workspace are numbered without gaps, in the order in which they become visible.',
      'To follow them, send the `next_after` of each answer as the `after` of the next request, with `wait`.',
      'Events are kept for 400 days.',
    ].join(' '),
    query: s.EventQuery,
    reply: s.EventPage,
    errors: ['events_expired'],
    verb: listEvents,
  })
  .get('/v2/events/stream', {
    id: 'streamEvents',
    summary: 'Stream the events of a workspace',
    description: [
      'Server-sent events, or one JSON object per line with `Accept: application/x-ndjson`.',
      'The `id` of each is its number. The stream ends after some minutes: resume it after the last `id`.',
      'If events after that number are no longer kept, the stream begins with a `reset` event.',
    ].join(' '),
    query: s.StreamQuery,
    kind: 'liveStream',
    verb: streamEvents,
  })
