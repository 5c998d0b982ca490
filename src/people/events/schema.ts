// Schemas of events.
import * as z from 'zod'
import { boundedText, commaSeparated, Instant, optionalFilter, parseWholeNumber, Uuid } from '../../protocol/wire.ts'

const Changes = z.array(
  z.object({
    path: z.string().meta({ description: 'The member, with dots between the levels.' }),
    before: z.unknown().meta({ description: 'The value before the write, or null if there was none.' }),
    after: z.unknown().meta({ description: 'The value after the write, or null if there is none.' }),
  }),
)

export const Event = z
  .object({
    id: z.string().meta({ description: '`evt_<workspace>_<number>`: unique among all events, and stable.' }),
    number: z.int().min(1).meta({ description: 'The place in the workspace. Numbers have no gaps.' }),
    type: z.string().meta({ description: 'For example `deployment.created`.' }),
    created_at: z.string().meta({ format: 'date-time' }),
    workspace_id: Uuid,
    subject: z.object({
      type: z.string().meta({ description: 'The kind of resource: the first part of `type`.' }),
      id: Uuid,
    }),
    actor: z.object({
      kind: z.string().meta({ description: '`key`, `session`, `listener`, `push`, `cron`, `operator` or `visitor`.' }),
      id: Uuid.nullable(),
      name: z
        .string()
        .nullable()
        .meta({ description: 'The description of a key, or the name of a person or listener.' }),
    }),
    request: z.object({
      id: z.string().meta({ description: 'The `X-Request-Id` of the response.' }),
      operation: z.string().nullable(),
      method: z.string().nullable(),
      path: z.string().nullable(),
    }),
    part_of: z.int().nullable().meta({ description: 'The first event of the same write. Null on that event itself.' }),
    changes: Changes.meta({ description: 'Secrets are shown by name and version. Their values are never shown.' }),
    data: z.looseObject({}).meta({ description: 'Details that depend on `type`.' }),
  })
  .meta({ id: 'Event', description: 'Something that happened in a workspace.' })
export type Event = z.output<typeof Event>

const MAX_TYPES = 20
const TypePattern = boundedText(80).regex(/^(\*|[a-z_]+\.\*|\*\.[a-z_]+|[a-z_]+\.[a-z_]+)$/, {
  error: 'must be a type such as `deployment.created`, `deployment.*` or `*.deleted`',
})

const after = z.preprocess(parseWholeNumber, z.int().min(0).optional())
const filters = {
  type: optionalFilter(commaSeparated(TypePattern, MAX_TYPES)).meta({
    type: 'string',
    description: `Types such as \`deployment.created\`, \`deployment.*\` or \`*.deleted\`, separated by commas.`,
  }),
  subject_id: optionalFilter(Uuid).meta({ description: 'Events about this resource.' }),
  actor_id: optionalFilter(Uuid).meta({ description: 'Events that this key, person or listener caused.' }),
}

const MAX_WAIT_SECONDS = 30

export const EventQuery = z
  .object({
    after: after.meta({
      description: 'The number of an event. The page begins after it, in the chosen order. By default at the first.',
    }),
    limit: z
      .preprocess(parseWholeNumber, z.int().min(1).max(100).default(20))
      .meta({ description: 'The maximum number of events to return.' }),
    order: z.enum(['asc', 'desc']).default('asc').meta({ description: '`desc`: the newest event is the first one.' }),
    ...filters,
    start_time: optionalFilter(Instant).meta({ description: 'From this time on.' }),
    end_time: optionalFilter(Instant).meta({ description: 'Before this time.' }),
    wait: z.preprocess(parseWholeNumber, z.int().min(0).max(MAX_WAIT_SECONDS).default(0)).meta({
      description: 'If no event matches, answer when one does, or after these seconds. Only for `order=asc`.',
    }),
  })
  .refine(({ order, wait }) => order === 'asc' || wait === 0, {
    path: ['wait'],
    error: 'is not allowed for `order=desc`, which reads back in time',
  })
  .meta({ id: 'EventQuery', example: { limit: '20' } })
export type EventQuery = z.output<typeof EventQuery>
export type EventFilters = Pick<EventQuery, keyof typeof filters> & Partial<Pick<EventQuery, 'start_time' | 'end_time'>>

export const StreamQuery = z.object({
  after: after.meta({
    description: 'The number of an event. The stream begins after it. By default it begins with the next new event.',
  }),
  ...filters,
})
export type StreamQuery = z.output<typeof StreamQuery>

export const EventPage = z
  .object({
    resources: z.array(Event),
    next_after: z.int().meta({
      description: 'The `after` of the next page. It moves past events that the filters leave out.',
    }),
    has_more: z.boolean().meta({ description: 'Whether the next page may have events now.' }),
  })
  .meta({ id: 'EventPage' })
export type EventPage = z.output<typeof EventPage>
