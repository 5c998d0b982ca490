// Schemas of tracing projects in the second version of the API of published clients.
import * as z from 'zod'
import { hasAll, hasNone, implies, isAnyOf } from '../../protocol/conditions.ts'
import { boundedText, commaSeparated, emptyAsAbsent, optionalFilter } from '../../protocol/wire.ts'
import { idFilter } from '../runs/list-parameters.schema.ts'
import { type Page, pageOf, pageSizeQuery } from '../runs/runs-v2.schema.ts'
import { NewProject, Project, ProjectPatch, ProjectQuery } from './projects.schema.ts'

const TYPES = ['PROJECT', 'AGENT', 'EXPERIMENT'] as const
const SORT_COLUMNS = [
  'NAME',
  'START_TIME',
  'LAST_RUN_START_TIME',
  'ERROR_RATE',
  'LATENCY_P50',
  'LATENCY_P99',
  'FEEDBACK',
] as const
const { shape } = ProjectQuery

/** The start of the next page. Opaque to clients, and of a form that a pattern describes. */
export const OffsetCursor = boundedText(8)
  .regex(/^o\d{1,7}$/, { error: 'is not a cursor of a previous answer' })
  .transform(text => Number(text.slice(1)))
  .meta({ type: 'string', pattern: '^o\\d{1,7}$' })
const writeOffsetCursor = (offset: number): string => `o${offset}`
/** One item more than the page has was read, and tells whether there is a next one. */
export function toOffsetPage<Item>(found: Item[], { limit, offset }: { limit: number; offset: number }): Page<Item> {
  const items = found.slice(0, limit - 1)
  const has_more = found.length === limit
  return { items, next_cursor: has_more ? writeOffsetCursor(offset + items.length) : null, has_more }
}

export const ProjectQueryV2 = z
  .object({
    id: shape.id,
    name: shape.name,
    name_contains: shape.name_contains,
    metadata: shape.metadata,
    dataset_version: shape.dataset_version,
    tag_value_id: shape.tag_value_id,
    filter: shape.filter,
    include_stats: shape.include_stats,
    stats_start_time: shape.stats_start_time,
    stats_select: shape.stats_select,
    stats_filter: shape.stats_filter,
    use_approx_stats: shape.use_approx_stats,
    sort_by_feedback_key: shape.sort_by_feedback_key,
    include_facets: shape.facets,
    reference_dataset_id: idFilter('Experiments of these datasets.'),
    type: optionalFilter(commaSeparated(z.enum(TYPES), TYPES.length)).meta({
      description: 'An experiment has a reference dataset. No project is of type AGENT.',
    }),
    sort_by: z.preprocess(emptyAsAbsent, z.enum(SORT_COLUMNS).default('START_TIME')),
    sort_by_feedback_source: optionalFilter(z.enum(['RUN', 'SESSION'])),
    sort_order: z.preprocess(emptyAsAbsent, z.enum(['asc', 'desc']).default('desc')),
    cursor: optionalFilter(OffsetCursor).meta({ description: '`next_cursor` of the previous answer.' }),
    page_size: pageSizeQuery(100),
  })
  .refine(({ sort_by, sort_by_feedback_key }) => sort_by !== 'FEEDBACK' || sort_by_feedback_key !== undefined, {
    path: ['sort_by_feedback_key'],
    error: 'is required to sort by feedback',
  })
export type ProjectQueryV2 = z.output<typeof ProjectQueryV2>

const TraceTierV2 = z.enum(['LONG_LIVED', 'SHORT_LIVED'])
const NewType = z.enum(['PROJECT', 'EXPERIMENT'])
const isOfItsType = ({ type, reference_dataset_id }: { type: string; reference_dataset_id?: unknown }) =>
  (type === 'EXPERIMENT') === Boolean(reference_dataset_id)
export const NewProjectV2 = NewProject.extend({
  type: NewType.meta({ description: 'Slipway has no projects of type AGENT.' }),
  trace_tier: TraceTierV2.nullish(),
})
  .refine(isOfItsType, { path: ['reference_dataset_id'], error: 'is required of an EXPERIMENT, and of no PROJECT' })
  .meta({
    id: 'NewTracingProjectV2',
    description: 'Null means the same as an absent member. By default the name is the id.',
    example: { type: 'PROJECT', name: 'support-agent', description: 'Answers questions of customers.' },
    ...implies(isAnyOf('type', 'EXPERIMENT'), hasAll('reference_dataset_id'), hasNone('reference_dataset_id')),
  })
export type NewProjectV2 = z.output<typeof NewProjectV2>

const { name, ...nullable } = ProjectPatch.shape
export const ProjectPatchV2 = z
  .object({
    ...nullable,
    name: name.unwrap().unwrap().optional(),
    trace_tier: TraceTierV2.optional(),
    extra: nullable.extra.meta({ description: 'Is merged into the stored one. A null among its members removes one.' }),
  })
  .meta({
    id: 'TracingProjectPatchV2',
    description: 'Members that are absent stay as they are, and null removes a value. A tier is for later traces.',
    example: { description: 'Answers questions of customers, in German.', extra: { metadata: { team: 'core' } } },
  })
export type ProjectPatchV2 = z.output<typeof ProjectPatchV2>

export const ProjectV2 = Project.extend({
  type: z.enum(TYPES),
  trace_tier: TraceTierV2,
  total_cost: z.number().nullable(),
  prompt_cost: z.number().nullable(),
  completion_cost: z.number().nullable(),
}).meta({ id: 'TracingProjectV2' })
export type ProjectV2 = z.output<typeof ProjectV2>
export const ProjectPageV2 = pageOf(ProjectV2).meta({ id: 'TracingProjectPageV2' })
