// Schemas of the usage of models, and of the budgets that limit it.
import * as z from 'zod'
import { hasAnyOf } from '../../protocol/conditions.ts'
import { Day, listOf, optionalFilter, parseWholeNumber, Uuid } from '../../protocol/wire.ts'
import { Time } from './schema.ts'

export const MAX_DAYS = 366
export const DEFAULT_DAYS = 30
export const MAX_CALLERS = 200

export const UsageQuery = z.object({
  start: optionalFilter(Day).meta({
    description: `The first day, in UTC. By default ${DEFAULT_DAYS} days with \`end\`.`,
  }),
  end: optionalFilter(Day).meta({ description: 'The last day, in UTC. By default today.' }),
  configuration_id: optionalFilter(Uuid),
  deployment_id: optionalFilter(Uuid),
  limit: z.preprocess(parseWholeNumber, z.int().min(1).max(1000).default(1000)),
  offset: z.preprocess(parseWholeNumber, z.int().min(0).default(0)),
})
export type UsageQuery = z.output<typeof UsageQuery>

const sumShape = {
  calls: z.int(),
  failed: z.int().meta({ description: 'Of the calls.' }),
  input_tokens: z.int(),
  output_tokens: z.int(),
  cost_usd: z.number().nullable().meta({ description: 'Of calls with a price. Null: none had one.' }),
}
const DayText = z.string().meta({ format: 'date' })
const callerShape = {
  configuration_id: Uuid,
  configuration_name: z.string(),
  deployment_id: Uuid.nullable().meta({ description: 'Null: not a call of an application.' }),
  deployment_name: z.string().nullable(),
}
export const Usage = z
  .object({
    start: DayText,
    end: DayText,
    total: z.object(sumShape),
    by_day: z.array(z.object({ day: DayText, ...sumShape })).meta({ description: 'Days with calls, newest first.' }),
    by_caller: z
      .array(z.object({ ...callerShape, ...sumShape }))
      .meta({ description: `Those with the most calls, at most ${MAX_CALLERS}.` }),
    days: z
      .array(z.object({ day: DayText, ...callerShape, ...sumShape }))
      .meta({ description: 'Each caller of each day, newest first: the page that `limit` and `offset` select.' }),
    offset: z.int().meta({ description: 'The `offset` of the next page.' }),
  })
  .meta({ id: 'ModelUsage', description: 'What was used. Sums are over all pages.' })
export type Usage = z.output<typeof Usage>

// ---- budgets

export const BudgetRef = z.object({ budget_id: Uuid })

const periods = ['day', 'week', 'month'] as const
const Period = z.enum(periods).meta({ description: 'In UTC. A week begins on Monday.' })
const limitShape = {
  limit_usd: z.number().min(0).max(1e9).nullish().meta({ description: 'Calls whose price is not known cost nothing.' }),
  limit_tokens: z.int().min(0).max(1e15).nullish().meta({ description: 'Of input and output together.' }),
  limit_calls: z.int().min(0).max(1e12).nullish(),
}
const limitNames = ['limit_usd', 'limit_tokens', 'limit_calls'] as const

export const NewBudget = z
  .object({
    deployment_id: Uuid.nullish().meta({ description: 'Whose calls it limits. Null: all calls of the workspace.' }),
    period: Period,
    ...limitShape,
  })
  .check(check => {
    if (limitNames.every(name => check.value[name] == null))
      check.issues.push({
        code: 'custom',
        path: ['limit_usd'],
        message: 'or `limit_tokens` or `limit_calls` is required',
        input: check.value,
      })
  })
  .meta({
    id: 'NewModelBudget',
    description: 'A limit for calls of models. What the period used before counts.',
    ...hasAnyOf(...limitNames),
    example: { period: 'month', limit_usd: 50, limit_calls: 100000 },
  })
export type NewBudget = z.output<typeof NewBudget>

export const BudgetPatch = z.object(limitShape).meta({
  id: 'ModelBudgetPatch',
  description: 'Limits that are absent stay as they are, and null removes one. At least one remains.',
  example: { limit_usd: 100 },
})
export type BudgetPatch = z.output<typeof BudgetPatch>

export const Budget = z
  .object({
    id: Uuid,
    deployment_id: Uuid.nullable(),
    period: Period,
    limit_usd: z.number().nullable(),
    limit_tokens: z.int().nullable(),
    limit_calls: z.int().nullable(),
    spent: z.object({ usd: z.number(), tokens: z.int(), calls: z.int() }),
    is_spent: z.boolean().meta({ description: 'Further calls are refused until `period_end`.' }),
    period_start: Time,
    period_end: Time,
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'ModelBudget', description: 'A limit for calls of models, and what is spent of it.' })
export type Budget = z.output<typeof Budget>
export const BudgetList = listOf(Budget).meta({ id: 'ModelBudgetList' })
