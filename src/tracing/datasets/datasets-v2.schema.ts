// Schemas of datasets and of the runs of experiments in the second version of the API of published clients.
import * as z from 'zod'
import { arrayOf, CREDENTIAL, commaSeparated, emptyAsAbsent, optionalFilter, Uuid } from '../../protocol/wire.ts'
import { OffsetCursor } from '../projects/projects-v2.schema.ts'
import { flag, JsonObject, Time } from '../runs/list-parameters.schema.ts'
import { pageOf, pageSizeQuery, RunV2, Selects, unsupported } from '../runs/runs-v2.schema.ts'
import { Dataset, DatasetQuery, SORT_COLUMNS } from './schema.ts'

const { shape } = DatasetQuery
export const DatasetQueryV2 = z.object({
  id: shape.id,
  name: shape.name,
  name_contains: shape.name_contains,
  data_type: shape.data_type,
  metadata: shape.metadata,
  tag_value_id: shape.tag_value_id,
  exclude: optionalFilter(commaSeparated(z.enum(['example_count']), 1)).meta({
    description: 'Members that are null in the answer.',
  }),
  exclude_corrections_datasets: flag(false).meta({ description: 'Has no effect: there are none.' }),
  sort_by: z.preprocess(emptyAsAbsent, z.enum(SORT_COLUMNS).default('last_session_start_time')),
  sort_order: z.preprocess(emptyAsAbsent, z.enum(['asc', 'desc']).default('desc')),
  cursor: optionalFilter(OffsetCursor).meta({ description: '`next_cursor` of the previous answer.' }),
  page_size: pageSizeQuery(100),
})
export type DatasetQueryV2 = z.output<typeof DatasetQueryV2>
export const DatasetV2 = Dataset.extend({ example_count: z.int().nullable() }).meta({ id: 'DatasetV2' })
export type DatasetV2 = z.output<typeof DatasetV2>
export const DatasetPageV2 = pageOf(DatasetV2).meta({ id: 'DatasetPageV2' })

const MAX_EXPERIMENTS = 20
export const ExperimentRunQuery = z
  .object({
    experiment_ids: arrayOf(Uuid, MAX_EXPERIMENTS, 1).meta({ description: 'Projects that refer to the dataset.' }),
    example_ids: arrayOf(Uuid, 100, 1).nullish().meta({ description: 'Only these examples.' }),
    selects: Selects,
    cursor: OffsetCursor.nullish().meta({ description: '`next_cursor` of the previous answer.' }),
    page_size: z
      .int()
      .min(1)
      .max(100)
      .nullish()
      .transform(value => value ?? 20),
    comparative_experiment_id: unsupported('Feedback of one comparison.'),
    filters: unsupported('Filters of the runs, by project.'),
    sort: unsupported('Sorting by feedback.'),
  })
  .meta({
    id: 'ExperimentRunQuery',
    example: { experiment_ids: ['5d41402a-bc4b-4a76-b971-9d911017c592'], selects: ['ID', 'OUTPUTS'] },
  })
export type ExperimentRunQuery = z.output<typeof ExperimentRunQuery>

const ExampleOfRuns = z
  .object({
    id: Uuid,
    dataset_id: Uuid,
    name: z.string(),
    inputs: JsonObject,
    outputs: JsonObject.nullable(),
    metadata: JsonObject.nullable(),
    source_run_id: Uuid.nullable(),
    created_at: Time,
    modified_at: Time,
    attachment_urls: z
      .record(z.string(), z.string().meta(CREDENTIAL))
      .nullable()
      .meta({ description: 'By name. GET them within an hour. No key is needed.' }),
    runs: z.array(RunV2).meta({ description: 'The roots of the experiments about the example, newest first.' }),
  })
  .meta({ id: 'ExampleOfRuns' })
export const ExperimentRunPage = pageOf(ExampleOfRuns).meta({ id: 'ExperimentRunPage' })
export type ExperimentRunPage = z.output<typeof ExperimentRunPage>
