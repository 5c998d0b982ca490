// Schemas of views: saved filters over the runs of a project.
import * as z from 'zod'
import { boundedText, optionalFilter, Uuid } from '../../protocol/wire.ts'
import { storableText, Time } from '../runs/list-parameters.schema.ts'
import { TraceTime } from '../runs/time.schema.ts'
import { ProjectRef } from './projects.schema.ts'

const VIEW_TYPES = ['runs', 'threads', 'single_run'] as const
export const ViewRef = ProjectRef.extend({ view_id: Uuid })
export const ViewQuery = z.object({ type: optionalFilter(z.enum(VIEW_TYPES)) })

const FilterText = boundedText(20_000)
const Name = storableText(256).min(1)
const Description = storableText(10_000)
const filters = {
  filter_string: FilterText.nullish(),
  trace_filter_string: FilterText.nullish(),
  tree_filter_string: FilterText.nullish(),
  start_time: TraceTime.nullish(),
  end_time: TraceTime.nullish(),
  duration: storableText(64).nullish().meta({ description: 'Instead of a start: `7d`.' }),
}

export const NewView = z
  .object({
    ...filters,
    display_name: Name,
    description: Description.nullish(),
    type: z.enum(VIEW_TYPES).default('runs'),
  })
  .meta({
    id: 'NewFilterView',
    example: { display_name: 'Slow answers', filter_string: 'and(eq(is_root, true), gt(latency, "5s"))' },
  })
export const ViewPatch = z
  .object({
    ...filters,
    display_name: Name.nullish(),
    description: Description.nullish(),
    type: z.enum(VIEW_TYPES).nullish(),
  })
  .meta({
    id: 'FilterViewPatch',
    description: 'Absent members stay as they are. Null clears a member that may be null.',
    example: { filter_string: 'gt(latency, "10s")' },
  })
export const ViewName = z
  .object({ display_name: Name, description: Description.nullish() })
  .meta({ id: 'FilterViewName', example: { display_name: 'Slow' } })

const text = () => z.string().nullable()
export const FilterView = z
  .object({
    id: Uuid,
    session_id: Uuid,
    display_name: z.string(),
    description: text(),
    type: z.enum(VIEW_TYPES),
    filter_string: text(),
    trace_filter_string: text(),
    tree_filter_string: text(),
    start_time: Time.nullable(),
    end_time: Time.nullable(),
    duration: text(),
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'FilterView', description: 'A saved filter over the runs of a project.' })
export const FilterViewList = z.array(FilterView).meta({ id: 'FilterViewList' })
