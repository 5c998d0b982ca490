// Model configurations, budgets and usage in words (pure).
import type { Item, Reply } from '../../../client/client.ts'
import { formatCost, formatCount } from '../../format/amount.ts'
import type { State } from '../../format/state.ts'

export type Model = Reply<'GET /v1/model-configurations/{configuration_id}'>
export type TestOutcome = NonNullable<Model['last_test']>
export type Budget = Item<'GET /v1/model-budgets'>
export type Usage = Reply<'GET /v1/model-usage'>
export type Settings = Reply<'GET /orgs/current/model-proxy'>

export const PROVIDERS: Record<Model['provider'], string> = {
  openai: 'OpenAI',
  anthropic: 'Anthropic',
  openai_compatible: 'OpenAI-compatible',
}
export const AUTH_TYPES: Record<Model['auth_type'], string> = {
  secret: 'Key of the provider',
  jwt: 'Token of this installation',
  oauth_client_credentials: 'OAuth client',
  none: 'None',
}

export const stateOfModel = ({ last_test }: Pick<Model, 'last_test'>): State => {
  if (!last_test) return { word: 'Not tested', tone: 'idle', shape: 'ring' }
  return last_test.ok
    ? { word: 'Answered', tone: 'ok', shape: 'check' }
    : { word: 'Test failed', tone: 'bad', shape: 'octagon' }
}

export const describePrices = ({ input_price, output_price }: Model): string =>
  input_price === null && output_price === null
    ? 'No prices'
    : `${formatCost(input_price ?? 0)} in, ${formatCost(output_price ?? 0)} out, for 1 M tokens`

export const PERIODS: Record<Budget['period'], string> = { day: 'day', week: 'week', month: 'month' }

/** Describes the spent part of each limit, such as `$1.20 of $50`. */
export function describeSpent({ spent, limit_usd, limit_tokens, limit_calls }: Budget): string[] {
  return [
    limit_usd !== null && `${formatCost(spent.usd)} of ${formatCost(limit_usd)}`,
    limit_tokens !== null && `${formatCount(spent.tokens)} of ${formatCount(limit_tokens)} tokens`,
    limit_calls !== null && `${formatCount(spent.calls)} of ${formatCount(limit_calls)} calls`,
  ].filter(text => text !== false)
}

/** The part that is spent of the limit that ends first. */
export function shareSpent({ spent, limit_usd, limit_tokens, limit_calls }: Budget): number {
  const shares = [
    [spent.usd, limit_usd],
    [spent.tokens, limit_tokens],
    [spent.calls, limit_calls],
  ] as const
  return Math.max(0, ...shares.map(([used, limit]) => (limit === null ? 0 : limit === 0 ? 1 : used / limit)))
}

export const NEARLY = 0.8
export function stateOfBudget(budget: Budget): State {
  if (budget.is_spent) return { word: 'Spent', tone: 'bad', shape: 'octagon' }
  return shareSpent(budget) >= NEARLY
    ? { word: 'Nearly spent', tone: 'warn', shape: 'triangle' }
    : { word: 'Open', tone: 'ok', shape: 'check' }
}

const DAY_MS = 86_400_000
type Sums = Usage['total']
export type DaySum = { day: string } & Sums
const NONE: Sums = { calls: 0, failed: 0, input_tokens: 0, output_tokens: 0, cost_usd: null }

export const countTokens = ({ input_tokens, output_tokens }: Sums): number => input_tokens + output_tokens

/** A sum for each day of the usage, oldest first, also for those without calls. */
export function listDays({ start, end, by_day }: Usage): DaySum[] {
  const days: DaySum[] = []
  for (let at = Date.parse(start); at <= Date.parse(end); at += DAY_MS) {
    const day = new Date(at).toISOString().slice(0, 10)
    days.push(by_day.find(one => one.day === day) ?? { day, ...NONE })
  }
  return days
}
