// Schemas of automation rules in the second version of the API of published clients.
import * as z from 'zod'
import { optionalFilter, Uuid } from '../../protocol/wire.ts'
import { OffsetCursor } from '../projects/projects-v2.schema.ts'
import { pageOf, pageSizeQuery } from '../runs/runs-v2.schema.ts'
import { ALERT_SEVERITIES, HIDDEN, Rule, RuleQuery } from './schema.ts'

const { shape } = RuleQuery
export const RuleQueryV2 = z.object({
  id: shape.id,
  project_id: shape.session_id,
  dataset_id: shape.dataset_id,
  type: optionalFilter(z.enum(['PROJECT', 'DATASET'])),
  name_contains: shape.name_contains,
  evaluator_id: shape.evaluator_id,
  tag_value_id: shape.tag_value_id,
  include_backfill_progress: shape.include_backfill_progress,
  cursor: optionalFilter(OffsetCursor).meta({ description: '`next_cursor` of the previous answer.' }),
  page_size: pageSizeQuery(100),
})
export type RuleQueryV2 = z.output<typeof RuleQueryV2>

const LimitV2 = z.object({ limit_usd: z.string(), window: z.literal('WEEKLY') })
export const RuleV2 = Rule.omit({ session_id: true, session_name: true, webhook_secret: true })
  .extend({
    project_id: Uuid.nullable(),
    project_name: z.string().nullable(),
    alerts: z.array(
      z.object({
        type: z.literal('PAGERDUTY'),
        routing_key: z.literal(HIDDEN),
        summary: z.string().nullable(),
        severity: z.enum(ALERT_SEVERITIES.map(name => name.toUpperCase() as Uppercase<typeof name>)),
      }),
    ),
    spend_limit: LimitV2.nullable(),
    effective_spend_limit: LimitV2.nullable(),
    group_by: z.null(),
    include_extended_stats: z.literal(false),
    is_managed_evaluator: z.literal(false),
    is_tracing_disabled: z.literal(false),
    transient: z.literal(false),
    use_corrections_dataset: z.literal(false),
  })
  .meta({ id: 'RunRuleV2', description: 'What is done with the runs that match.' })
export type RuleV2 = z.output<typeof RuleV2>
export const RulePageV2 = pageOf(RuleV2).meta({ id: 'RunRulePageV2' })
