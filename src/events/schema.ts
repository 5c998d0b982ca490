// Schemas of events.
import * as z from 'zod'
import { Uuid } from '../protocol/wire.ts'

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
      kind: z.string().meta({ description: '`key`, `session`, `listener`, `push`, `cron` or `operator`.' }),
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
