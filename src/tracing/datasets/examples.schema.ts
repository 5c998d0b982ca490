// Schemas of examples.
import * as z from 'zod'
import {
  arrayOf,
  boundedText,
  CREDENTIAL,
  commaSeparated,
  optionalFilter,
  parseWholeNumber,
  recordOf,
  Uuid,
} from '../../protocol/wire.ts'
import {
  flag,
  idFilter,
  JsonObject,
  jsonFilter,
  offsetPage,
  queryFilter,
  storableText,
  Time,
} from '../runs/list-parameters.schema.ts'
import { readTraceTime, TraceTime } from '../runs/time.schema.ts'

export const ExampleRef = z.object({ example_id: Uuid })
export const ExampleOfDatasetRef = z.object({ dataset_id: Uuid, example_id: Uuid })

export const SELECTABLE = [
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
  presigned_url: z.string().meta({ ...CREDENTIAL, description: 'GET it within an hour. No key is needed.' }),
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

export const ExampleCount = z.int().meta({ id: 'ExampleCount' })

/** A version of a dataset: its time, one of its tags, or `latest`. */
export type AsOf = { time: string } | { tag: string } | undefined
const LOOKS_LIKE_TIME = /^\d{4}-\d\d-\d\d[T ]/
export const AsOfText = boundedText(255).transform((text, check): AsOf => {
  if (text === 'latest') return undefined
  if (!LOOKS_LIKE_TIME.test(text)) return { tag: text }
  const time = readTraceTime(text)
  if (time !== undefined) return { time }
  check.addIssue({ code: 'custom', message: 'must be a time, such as 2026-11-22T12:00:00Z, or a tag' })
  return z.NEVER
})
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
  filter: queryFilter().meta({ description: 'In the language of queries of runs.' }),
  full_text_contains: texts(10).meta({ description: 'Only examples whose inputs or outputs contain all of these.' }),
})
export type ExampleFilter = z.output<typeof ExampleFilter>
const QUERY_EXAMPLE = { dataset: '5d41402a-bc4b-4a76-b971-9d911017c592' }
export const ExampleCountQuery = ExampleFilter.meta({ example: QUERY_EXAMPLE })

export const ExampleVersion = z.object({
  dataset: optionalFilter(Uuid),
  as_of: AsOf,
})

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
}).meta({ example: QUERY_EXAMPLE })
export type ExampleQuery = z.output<typeof ExampleQuery>

// ---- bodies. `inputs`, `outputs` and `metadata` are kept as texts, so the readers of bodies cut them out beforehand.

const MAX_SPLITS = 100
export const SplitName = storableText(255)
export const Splits = z.union([SplitName.transform(name => [name]), arrayOf(SplitName, MAX_SPLITS)])
export const AttachmentName = storableText(255).min(1)

export const AttachmentOperations = z.object({
  retain: arrayOf(AttachmentName, 100).nullish().meta({ description: 'The attachments to keep.' }),
  rename: recordOf(AttachmentName, AttachmentName, 100)
    .nullish()
    .meta({ description: 'New names by old ones. They are kept, too.' }),
})
export type AttachmentOperations = z.output<typeof AttachmentOperations>

const contents = {
  inputs: JsonObject.nullish(),
  outputs: JsonObject.nullish(),
  metadata: JsonObject.nullish().meta({ description: 'At most 64 KiB. `dataset_split` stands for `split`.' }),
}
const newMembers = {
  created_at: TraceTime.nullish(),
  split: Splits.nullish().meta({ description: '`base` by default.' }),
  source_run_id: Uuid.nullish(),
  use_source_run_io: z.boolean().nullish().meta({ description: 'Take the inputs and outputs of the source run.' }),
  use_source_run_attachments: arrayOf(AttachmentName, 100).nullish(),
}
const EXAMPLE = {
  inputs: { question: 'What is the capital of France?' },
  outputs: { answer: 'Paris' },
  metadata: { level: 1 },
  split: 'train',
}
const DATASET_ID = '5d41402a-bc4b-4a76-b971-9d911017c592'

/** The members that readers of bodies parse besides the contents. */
export const NewExampleMembers = z.object({ id: Uuid.nullish(), dataset_id: Uuid.optional(), ...newMembers })
export const ChangedExampleMembers = z.object({
  id: Uuid.optional(),
  dataset_id: Uuid.nullish(),
  split: Splits.nullish(),
  attachments_operations: AttachmentOperations.nullish(),
})

/** A member of a list of changes. */
export const ListedExampleMembers = ChangedExampleMembers.extend({ id: Uuid })

export const NewExample = NewExampleMembers.extend({ dataset_id: Uuid, ...contents }).meta({
  id: 'NewExample',
  example: { dataset_id: DATASET_ID, ...EXAMPLE },
})
/** The limit of one request. */
export const MAX_EXAMPLES = 2000
export const MAX_DATASET_EXAMPLES = 100_000
export const NewExamples = arrayOf(NewExample, MAX_EXAMPLES, 1).meta({
  id: 'NewExamples',
  description: `At most ${MAX_EXAMPLES}.`,
  example: [{ dataset_id: DATASET_ID, ...EXAMPLE }],
})
export const ExampleChange = ChangedExampleMembers.omit({ id: true })
  .extend(contents)
  .meta({
    id: 'ExampleChange',
    description: 'Members that are absent or null stay as they are. New metadata keeps the splits.',
    example: { outputs: { answer: 'Paris' } },
  })
export const ExampleChanges = arrayOf(ListedExampleMembers.extend(contents), MAX_EXAMPLES, 1).meta({
  id: 'ExampleChanges',
  description: `At most ${MAX_EXAMPLES}.`,
  example: [{ id: DATASET_ID, outputs: { answer: 'Paris' } }],
})

export const WrittenExamples = z
  .object({
    count: z.int(),
    example_ids: z.array(Uuid),
    as_of: Time.meta({ description: 'The version of the dataset that this request made.' }),
  })
  .meta({ id: 'WrittenExamples' })
export type WrittenExamples = z.output<typeof WrittenExamples>

export const ExampleIds = z.object({ example_ids: commaSeparated(Uuid, 100) }).meta({
  example: { example_ids: DATASET_ID },
})
export const DeletedExamples = z
  .object({ example_ids: arrayOf(Uuid, MAX_EXAMPLES, 1), hard_delete: z.boolean() })
  .meta({
    id: 'DeletedExamples',
    description: 'With `hard_delete`, the examples disappear from all versions of their dataset.',
    example: { example_ids: [DATASET_ID], hard_delete: true },
  })

// ---- links to attachments

export const AttachmentRef = z.object({ tenant_id: Uuid, object_id: Uuid })
export const AttachmentSignature = z.object({
  media_type: z.string().max(255),
  expires: z.preprocess(parseWholeNumber, z.int().min(0)).meta({ description: 'In seconds since 1970.' }),
  signature: z.string().max(200),
})
export type AttachmentLink = z.output<typeof AttachmentRef> & z.output<typeof AttachmentSignature>
