// Schemas of the charts of a project.
import * as z from 'zod'
import { boundedText, Uuid } from '../../protocol/wire.ts'
import { Time } from '../runs/list-parameters.schema.ts'
import { TraceTime } from '../runs/time.schema.ts'

const Stride = z.object({
  days: z.int().min(0).max(400).default(0),
  hours: z.int().min(0).max(9600).default(0),
  minutes: z.int().min(0).max(576_000).default(0),
})

export const DashboardRequest = z
  .object({
    start_time: TraceTime.nullish().meta({ description: 'By default a day before the end.' }),
    end_time: TraceTime.nullish().meta({ description: 'By default now.' }),
    stride: Stride.nullish().meta({ description: 'The time that a point covers. By default 15 minutes.' }),
    omit_data: z.boolean().nullish().meta({ description: 'Only the charts, without their points.' }),
    timezone: boundedText(64).nullish().meta({ description: 'Has no effect: points begin at `start_time`.' }),
    group_by: z.null().optional().meta({ description: 'Counts are not kept by group.' }),
  })
  .meta({
    id: 'DashboardRequest',
    description: 'At most 1,000 points in each series.',
    example: { start_time: '2026-11-22T00:00:00Z', end_time: '2026-11-23T00:00:00Z', stride: { hours: 1 } },
  })
export type DashboardRequest = z.output<typeof DashboardRequest>

const Series = z.object({
  id: z.string(),
  name: z.string(),
  metric: z.string(),
  feedback_key: z.string().nullable(),
  filters: z.null(),
  group_by: z.null(),
})
const Chart = z.object({
  id: z.string(),
  title: z.string(),
  description: z.string().nullable(),
  index: z.int(),
  chart_type: z.enum(['line', 'bar']),
  series: z.array(Series),
  data: z.array(
    z.object({ series_id: z.string(), timestamp: Time, value: z.number().nullable(), group: z.string().nullable() }),
  ),
  common_filters: z.null(),
  metadata: z.null(),
})
export type Chart = z.output<typeof Chart>
export const Dashboard = z
  .object({
    id: z.string(),
    session_id: Uuid,
    title: z.string(),
    description: z.string().nullable(),
    index: z.int(),
    charts: z.array(Chart),
    sub_sections: z.array(
      z.object({
        id: z.string(),
        title: z.string(),
        description: z.string().nullable(),
        index: z.int(),
        charts: z.array(Chart),
      }),
    ),
  })
  .meta({ id: 'ProjectDashboard', description: 'Charts of a project, from counts that outlive its runs.' })
export type Dashboard = z.output<typeof Dashboard>
