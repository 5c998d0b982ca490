// Schemas of examples.
import * as z from 'zod'
import { arrayOf, boundedText, Instant, optionalFilter, Uuid } from '../protocol/wire.ts'
import { flag, idFilter, JsonObject, jsonFilter, offsetPage, Time } from './schema.ts'

export const ExampleRef = z.object({ example_id: Uuid })

const SELECTABLE = [
  'id',
  'created_at',
  'modified_at',
  'name',
  'dataset_id',
  'source_run_id',
  'metadata',
  'inputs',
  'outputs',
  'attachment_urls',
] as const
export type ExampleMember = (typeof SELECTABLE)[number]

const Attachment = z.object({
  presigned_url: z.string().meta({ description: 'GET it within an hour. No key is needed.' }),
  s3_url: z.string().meta({ description: 'The path in the object store.' }),
  mime_type: z.string(),
})
export const Example = z
  .object({
    id: Uuid,
    dataset_id: Uuid.optional(),
    name: z.string().optional().meta({ description: 'Its number in the dataset, and the name of the dataset.' }),
    inputs: JsonObject.optional(),
    outputs: JsonObject.nullish(),
    metadata: JsonObject.optional().meta({ description: 'The splits are in `dataset_split`.' }),
    source_run_id: Uuid.nullish(),
    created_at: Time.optional(),
    modified_at: Time.optional().meta({ description: 'The version of the dataset that changed it last.' }),
    attachment_urls: z
      .record(z.string(), Attachment)
      .nullish()
      .meta({ description: 'By `attachment.` and the name. Null if it has none.' }),
  })
  .meta({ id: 'Example', description: 'Inputs, and the outputs that are expected for them.' })
export type Example = z.output<typeof Example>
export const ExampleList = z.array(Example).meta({ id: 'ExampleList', description: 'A page of examples.' })

/** A version of a dataset: its time, one of its tags, or `latest`. */
export type AsOf = { time: string } | { tag: string } | undefined
const ANY_TIME = /^\d{4}-\d\d-\d\d/
const AsOfText = boundedText(255).transform((text, check): AsOf => {
  if (text === 'latest') return undefined
  if (!ANY_TIME.test(text)) return { tag: text }
  const zoned = /(z|[+-]\d\d:?\d\d)$/i.test(text) ? text : `${text}Z`
  const time = Instant.safeParse(zoned.replace(' ', 'T'))
  if (time.success) return { time: time.data }
  check.addIssue({ code: 'custom', message: 'must be a time, such as 2026-11-22T12:00:00Z, or a tag' })
  return z.NEVER
})
export const AsOfRequired = AsOfText.meta({ type: 'string', description: 'A time, a tag of a version, or `latest`.' })
export const AsOf = optionalFilter(AsOfText).meta({
  type: 'string',
  description: 'A time, a tag of a version, or `latest`, which is the default.',
})

const texts = (maxItems: number) => arrayOf(boundedText(255), maxItems).optional()

export const ExampleFilter = z.object({
  dataset: optionalFilter(Uuid).meta({ description: 'Required unless `id` is given.' }),
  id: idFilter('Repeat it for several examples.'),
  as_of: AsOf,
  metadata: jsonFilter('A JSON object. Only examples whose metadata has all of its members.'),
  splits: texts(100).meta({ description: 'Only examples in one of these splits. Repeat it for several.' }),
  full_text_contains: texts(10).meta({ description: 'Only examples whose inputs or outputs contain all of these.' }),
})
export type ExampleFilter = z.output<typeof ExampleFilter>

export const ExampleQuery = ExampleFilter.extend({
  order: optionalFilter(z.enum(['recent', 'recently_created', 'id', 'random'])).meta({
    description: '`recent`, by the last change, is the default.',
  }),
  random_seed: optionalFilter(boundedText(40)),
  descending: optionalFilter(z.enum(['true', 'false'])),
  select: arrayOf(z.enum(SELECTABLE), SELECTABLE.length).optional().meta({
    description: 'Members besides those that are always there: all but `attachment_urls`.',
  }),
  exclude_default_fields: flag(false).meta({ description: 'Only `id` and the members in `select`.' }),
  ...offsetPage(),
})
export type ExampleQuery = z.output<typeof ExampleQuery>
