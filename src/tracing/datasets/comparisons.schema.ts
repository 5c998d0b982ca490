// Schemas of comparisons of experiments.
import * as z from 'zod'
import { label } from '../../people/access/schema.ts'
import { arrayOf, boundedText, optionalFilter, Uuid } from '../../protocol/wire.ts'
import { Stats } from '../projects/projects.schema.ts'
import { flag, idFilter, JsonObject, offsetPage, Time } from '../runs/list-parameters.schema.ts'

export const ComparisonRef = z.object({ comparative_experiment_id: Uuid })

export const NewComparison = z
  .object({
    id: Uuid.nullish(),
    name: label(512).nullish(),
    description: boundedText(10_000).nullish(),
    experiment_ids: arrayOf(Uuid, 100, 1).meta({ description: 'Projects that refer to the same dataset.' }),
    reference_dataset_id: Uuid.nullish().meta({ description: 'By default that of the experiments.' }),
    extra: JsonObject.nullish(),
  })
  .meta({
    id: 'NewComparativeExperiment',
    example: { name: 'Old and new', experiment_ids: ['5d41402a-bc4b-4a76-b971-9d911017c592'] },
  })
export type NewComparison = z.output<typeof NewComparison>

const comparisonShape = {
  id: Uuid,
  tenant_id: Uuid,
  name: z.string().nullable(),
  description: z.string().nullable(),
  reference_dataset_id: Uuid,
  extra: JsonObject.nullable(),
  created_at: Time,
  modified_at: Time,
}
export const Comparison = z
  .object(comparisonShape)
  .meta({ id: 'ComparativeExperiment', description: 'A comparison of experiments on one dataset.' })
export type Comparison = z.output<typeof Comparison>

const ListedComparison = z
  .object({
    ...comparisonShape,
    experiments_info: z
      .array(z.object({ id: Uuid, name: z.string() }))
      .meta({ description: 'The experiments that exist.' }),
    feedback_stats: Stats.nullable().meta({ description: 'Of the runs of the experiments, by key.' }),
  })
  .meta({ id: 'ListedComparativeExperiment' })
export type ListedComparison = z.output<typeof ListedComparison>
export const ComparisonList = z.array(ListedComparison).meta({ id: 'ComparativeExperimentList' })

export const ComparisonQuery = z.object({
  id: idFilter('Repeat it for several comparisons.'),
  name: optionalFilter(z.string()).meta({ description: 'The exact name.' }),
  name_contains: optionalFilter(z.string()).meta({ description: 'Part of the name. Case does not matter.' }),
  sort_by: optionalFilter(z.enum(['name', 'created_at'])).meta({ description: '`created_at` by default.' }),
  sort_by_desc: flag(true),
  ...offsetPage(),
})
export type ComparisonQuery = z.output<typeof ComparisonQuery>
export const Deleted = z.object({ id: Uuid }).meta({ id: 'DeletedComparativeExperiment' })
