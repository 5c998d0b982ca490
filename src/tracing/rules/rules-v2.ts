// Lists automation rules for the second version of the API.
import { verb } from '../../kernel/http/context.ts'
import { toOffsetPage } from '../projects/projects-v2.schema.ts'
import type { Page } from '../runs/runs-v2.schema.ts'
import { findRules } from './rules.ts'
import type { RuleQueryV2, RuleV2 } from './rules-v2.schema.ts'
import type * as schema from './schema.ts'

/** A workspace has few rules, so all that match are read. */
export const listRulesV2 = verb(
  'rules:read',
  async (ctx, { cursor, page_size, project_id, type, ...filters }: RuleQueryV2): Promise<Page<RuleV2>> => {
    const sources = { PROJECT: 'session', DATASET: 'dataset' } as const
    const found = await findRules(ctx, {
      ...filters,
      session_id: project_id,
      type: type && sources[type],
      name: undefined,
    })
    const bounds = { limit: page_size + 1, offset: cursor ?? 0 }
    const page = found.toSorted(byLastChange).slice(bounds.offset, bounds.offset + bounds.limit)
    return toOffsetPage(page.map(showRule), bounds)
  },
)

const keyOf = ({ updated_at, id }: schema.Rule): string => `${updated_at} ${id}`
const byLastChange = (a: schema.Rule, b: schema.Rule): number => (keyOf(a) < keyOf(b) ? 1 : -1)

type Limit = schema.Rule['spend_limit']
const showLimit = (limit: Limit): RuleV2['spend_limit'] =>
  limit && { limit_usd: limit.limit_usd, window: limit.window.toUpperCase() as 'WEEKLY' }

const showRule = ({ session_id, session_name, webhook_secret: _, ...rule }: schema.Rule): RuleV2 => ({
  ...rule,
  project_id: session_id,
  project_name: session_name,
  alerts: rule.alerts.map(({ severity, ...alert }) => ({
    ...alert,
    type: 'PAGERDUTY',
    severity: severity.toUpperCase() as Uppercase<typeof severity>,
  })),
  spend_limit: showLimit(rule.spend_limit),
  effective_spend_limit: showLimit(rule.effective_spend_limit),
  group_by: null,
  include_extended_stats: false,
  is_managed_evaluator: false,
  is_tracing_disabled: false,
  transient: false,
  use_corrections_dataset: false,
})
