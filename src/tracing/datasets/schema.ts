// Schemas of datasets.
import * as z from 'zod'
import { label } from '../../people/access/schema.ts'
import { arrayOf, commaSeparated, optionalFilter, Uuid } from '../../protocol/wire.ts'
import { flag, idFilter, JsonObject, jsonFilter, offsetPage, Time } from '../runs/list-parameters.schema.ts'

const DATA_TYPES = ['kv', 'llm', 'chat'] as const
const Name = label(256)
const Description = z.string().max(10_000)
const SchemaDefinition = JsonObject.meta({
  description: 'A JSON Schema. New and changed examples must match it. `pattern` and `format` are not checked.',
})
const TagValueIds = arrayOf(Uuid, 100)

export const DatasetRef = z.object({ dataset_id: Uuid })

export const NewDataset = z
  .object({
    id: Uuid.nullish(),
    name: Name,
    description: Description.nullish(),
    data_type: z.enum(DATA_TYPES).nullish().meta({ description: '`kv` by default.' }),
    inputs_schema_definition: SchemaDefinition.nullish(),
    outputs_schema_definition: SchemaDefinition.nullish(),
    externally_managed: z.boolean().nullish(),
    extra: z
      .looseObject({ metadata: JsonObject.nullish() })
      .nullish()
      .meta({ description: '`metadata` becomes that of the dataset. Clients send `source`, which is not kept.' }),
    tag_value_ids: TagValueIds.nullish(),
  })
  .meta({
    id: 'NewDataset',
    example: { name: 'capitals', description: 'Questions about capitals', data_type: 'kv' },
  })
export type NewDataset = z.output<typeof NewDataset>

export const DatasetPatch = z
  .object({
    name: Name.optional(),
    description: Description.nullish(),
    inputs_schema_definition: SchemaDefinition.nullish(),
    outputs_schema_definition: SchemaDefinition.nullish(),
    metadata: JsonObject.nullish(),
    baseline_experiment_id: Uuid.nullish(),
    tag_value_ids: TagValueIds.optional(),
  })
  .meta({
    id: 'DatasetPatch',
    description: 'Members that are absent stay as they are. Null removes a value.',
    example: { description: 'Questions about capitals of the world' },
  })
export type DatasetPatch = z.output<typeof DatasetPatch>

const datasetShape = {
  id: Uuid,
  tenant_id: Uuid,
  name: z.string(),
  description: z.string().nullable(),
  created_at: Time,
  modified_at: Time.meta({ description: 'The last change of the dataset or its examples.' }),
  data_type: z.enum(DATA_TYPES),
  inputs_schema_definition: JsonObject.nullable(),
  outputs_schema_definition: JsonObject.nullable(),
  externally_managed: z.boolean(),
  transformations: z.null(),
  example_count: z.int(),
  session_count: z.int().meta({ description: 'The number of experiments on the dataset.' }),
  last_session_start_time: Time.nullable().meta({ description: 'When the last experiment began.' }),
  metadata: JsonObject.nullable(),
  baseline_experiment_id: Uuid.nullable(),
  tag_value_ids: z.array(Uuid),
}
export const Dataset = z
  .object(datasetShape)
  .meta({ id: 'Dataset', description: 'Examples to evaluate an application with.' })
export type Dataset = z.output<typeof Dataset>
export const DatasetList = z.array(Dataset).meta({ id: 'DatasetList', description: 'A page of datasets.' })

export const SORT_COLUMNS = [
  'name',
  'created_at',
  'last_session_start_time',
  'example_count',
  'session_count',
  'modified_at',
] as const
export const DatasetQuery = z.object({
  id: idFilter('Repeat it for several datasets.'),
  name: optionalFilter(z.string()).meta({ description: 'The exact name.' }),
  name_contains: optionalFilter(z.string()).meta({ description: 'Part of the name. Case does not matter.' }),
  data_type: optionalFilter(commaSeparated(z.enum(DATA_TYPES), 3)),
  metadata: jsonFilter('A JSON object. Only datasets whose metadata has all of its members.'),
  tag_value_id: idFilter('Only datasets with all of these tags.'),
  sort_by: optionalFilter(z.enum(SORT_COLUMNS)).meta({ description: '`last_session_start_time` by default.' }),
  sort_by_desc: flag(true),
  ...offsetPage(),
})
export type DatasetQuery = z.output<typeof DatasetQuery>

export const DatasetIds = z.object({ dataset_ids: commaSeparated(Uuid, 100) }).meta({
  example: { dataset_ids: '5d41402a-bc4b-4a76-b971-9d911017c592' },
})
export const Deleted = z.object({ id: Uuid }).meta({ id: 'Deleted' })
export const DeletedList = z.object({ ids: z.array(Uuid) }).meta({ id: 'DeletedList' })
