// Schemas of versions of datasets, of splits, and of changes of metadata.
import * as z from 'zod'
import { arrayOf, boundedText, optionalFilter, Uuid } from '../../protocol/wire.ts'
import { offsetPage, Time } from '../runs/list-parameters.schema.ts'
import { AsOf, AsOfText, MAX_EXAMPLES, SplitName, Splits } from './examples.schema.ts'

export const DatasetVersion = z
  .object({
    as_of: Time,
    tags: z.array(z.string()).meta({ description: 'The last version also has `latest`.' }),
  })
  .meta({ id: 'DatasetVersion', description: 'A moment at which examples changed. Its time is its name.' })
export type DatasetVersion = z.output<typeof DatasetVersion>
export const DatasetVersionList = z.array(DatasetVersion).meta({ id: 'DatasetVersionList' })

export const VersionQuery = z.object({
  search: optionalFilter(boundedText(255)).meta({ description: 'Only versions with a tag that contains this.' }),
  example: optionalFilter(Uuid).meta({ description: 'Only versions that changed this example.' }),
  ...offsetPage(),
})
export type VersionQuery = z.output<typeof VersionQuery>

export const VersionName = z.object({
  as_of: AsOf,
  tag: optionalFilter(boundedText(255)).meta({ description: 'Instead of `as_of`.' }),
})
export type VersionName = z.output<typeof VersionName>

const Version = AsOfText.meta({ type: 'string', description: 'A time, a tag, or `latest`.' })
export const VersionPair = z
  .object({ from_version: Version, to_version: Version })
  .meta({ example: { from_version: 'latest', to_version: 'latest' } })
export type VersionPair = z.output<typeof VersionPair>
export const VersionDiff = z
  .object({
    examples_added: z.array(Uuid),
    examples_removed: z.array(Uuid),
    examples_modified: z.array(Uuid),
  })
  .meta({ id: 'DatasetVersionDiff' })
export type VersionDiff = z.output<typeof VersionDiff>

export const VersionTag = z
  .object({
    as_of: Version.meta({ description: 'The exact time of a version, a tag of it, or `latest`.' }),
    tag: SplitName.min(1)
      .refine(tag => tag !== 'latest', { error: 'must not be `latest`, which moves by itself' })
      .meta({ not: { const: 'latest' } }),
  })
  .meta({ id: 'DatasetVersionTag', example: { as_of: 'latest', tag: 'prod' } })
export type VersionTag = z.output<typeof VersionTag>

export const Clone = z
  .object({
    source_dataset_id: Uuid,
    target_dataset_id: Uuid,
    as_of: Version.optional().meta({ description: 'The version of the source. `latest` by default.' }),
    examples: arrayOf(Uuid, MAX_EXAMPLES).default([]).meta({ description: 'Only these. By default all.' }),
    split: Splits.nullish().transform(split => split ?? undefined),
  })
  .meta({
    id: 'DatasetClone',
    example: {
      source_dataset_id: '5d41402a-bc4b-4a76-b971-9d911017c592',
      target_dataset_id: '7d793037-a076-4b9e-9a2d-31d1f27b1f0a',
    },
  })
export type Clone = z.output<typeof Clone>
export const Copies = z.array(z.object({ id: Uuid, source_example_id: Uuid })).meta({ id: 'CopiedExamples' })

export const SplitQuery = z.object({ as_of: AsOf })
export type SplitQuery = z.output<typeof SplitQuery>
export const SplitNames = z.array(z.string()).meta({ id: 'SplitNames' })
export const SplitChange = z
  .object({
    split_name: SplitName.min(1),
    examples: arrayOf(Uuid, MAX_EXAMPLES, 1),
    remove: z.boolean().default(false),
  })
  .meta({
    id: 'SplitChange',
    description: 'Puts examples into a split, or takes them out of it.',
    example: { split_name: 'train', examples: ['5d41402a-bc4b-4a76-b971-9d911017c592'] },
  })
export type SplitChange = z.output<typeof SplitChange>
export const ChangedIds = z.array(Uuid).meta({ id: 'ChangedExampleIds' })

const Key = SplitName.min(1)
export const MetadataOperation = z.object({
  key: Key,
  operation: z.enum(['SET', 'ARRAY_ADD', 'ARRAY_REMOVE', 'set', 'array_add', 'array_remove']),
  value: z.unknown().optional().meta({ description: 'Of SET.' }),
  values: arrayOf(SplitName, 1000).nullish().meta({ description: 'Of ARRAY_ADD and ARRAY_REMOVE.' }),
})
export type MetadataOperation = z.output<typeof MetadataOperation>
export const MetadataChange = z
  .object({
    example_ids: arrayOf(Uuid, 10_000, 1),
    operations: arrayOf(MetadataOperation, 50, 1),
  })
  .meta({
    id: 'MetadataChange',
    description: 'Changes of metadata, in their order, of each of the examples.',
    example: {
      example_ids: ['5d41402a-bc4b-4a76-b971-9d911017c592'],
      operations: [{ key: 'dataset_split', operation: 'ARRAY_ADD', values: ['train'] }],
    },
  })
export type MetadataChange = z.output<typeof MetadataChange>
export const MetadataStatuses = z
  .object({
    statuses: z.array(
      z.object({ id: Uuid, status: z.enum(['UPDATED', 'NOT_FOUND']), description: z.string().optional() }),
    ),
  })
  .meta({ id: 'MetadataStatuses' })
