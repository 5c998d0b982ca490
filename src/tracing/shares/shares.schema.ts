// Schemas of links that show a run to anyone, and of the deletion of traces.
import * as z from 'zod'
import { hasOneOf } from '../../protocol/conditions.ts'
import { arrayOf, CREDENTIAL, recordOf, Uuid } from '../../protocol/wire.ts'
import { FeedbackQuery } from '../feedback/feedback.schema.ts'
import { storableText } from '../runs/list-parameters.schema.ts'
import { Run } from '../runs/runs.schema.ts'

export const NewRunShare = z
  .object({
    run_id: Uuid.nullish().meta({ description: 'Has no effect: the path names the run.' }),
    share_token: Uuid.nullish().meta({ description: 'By default a random one.' }),
  })
  .meta({ id: 'NewRunShare', example: {} })
export const RunShare = z.object({ run_id: Uuid, share_token: Uuid.meta(CREDENTIAL) }).meta({ id: 'RunShare' })
export type RunShare = z.output<typeof RunShare>

const MAX_TRACES = 1000
const MAX_VALUES = 100
const MetadataValue = z.union([storableText(256), z.number(), z.boolean()])
const isOne = (body: { trace_ids?: unknown; metadata?: unknown }) => Boolean(body.trace_ids) !== Boolean(body.metadata)
export const TraceDeletion = z
  .object({
    session_id: Uuid,
    trace_ids: arrayOf(Uuid, MAX_TRACES, 1).nullish(),
    metadata: recordOf(storableText(256), z.union([MetadataValue, arrayOf(MetadataValue, MAX_VALUES, 1)]), 10)
      .refine(metadata => Object.keys(metadata).length > 0, { error: 'names no member' })
      .meta({ minProperties: 1 })
      .nullish()
      .meta({
        description:
          'Instead of `trace_ids`: the traces of which a run has one of the values of each of these members. ' +
          'At most 1,000 at once.',
      }),
  })
  .refine(isOne, { path: ['trace_ids'], error: 'give either this or `metadata`' })
  .meta({
    id: 'TraceDeletion',
    ...hasOneOf('trace_ids', 'metadata'),
    example: {
      session_id: '0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a10',
      trace_ids: ['0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a11'],
    },
  })
export const DeletedTraces = z.object({
  trace_ids: z.array(Uuid).meta({ description: 'The traces that existed, and are deleted now.' }),
  has_more: z.boolean().meta({ description: 'More traces have the metadata. Repeat the request.' }),
})

export const ShareRef = z.object({ share_token: Uuid })
export const SharedRunRef = z.object({ share_token: Uuid, run_id: Uuid })
export const SharedRunQuery = z
  .object({ id: arrayOf(Uuid, 100).nullish().meta({ description: 'By default the shared run.' }) })
  .meta({ id: 'SharedRunQuery', example: {} })
export const SharedFeedbackQuery = FeedbackQuery.omit({ user: true, include_user_names: true })
export const SharedRunPage = z.object({
  runs: z.array(Run),
  cursors: z.object({ next: z.null(), prev: z.null() }),
  parsed_query: z.null(),
})
export type SharedRunPage = z.output<typeof SharedRunPage>
