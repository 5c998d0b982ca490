// Budgets for calls of models: their limits and their spending. `take_model_call()` in the database refuses calls.
import { and, eq, getTableColumns, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { bumpVersion, db, inTenant, lockRows, refuseUnless, run, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { verb } from '../../kernel/http/context.ts'
import { afterCursor, newestFirst, readPage } from '../../kernel/http/paging.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import type { Page } from '../../protocol/wire.ts'
import { modelBudgets } from './tables.ts'
import type * as schema from './usage.schema.ts'

type BudgetParams = z.output<typeof schema.BudgetRef>
type BudgetRow = typeof modelBudgets.$inferSelect & { current_start: string; current_end: string }

/** The end of the period that begins then, in UTC. */
const periodEnd = (start: SQL, period: SQL) =>
  sql<string>`((${start} at time zone 'UTC') + ('1 ' || ${period})::interval) at time zone 'UTC'`
const CURRENT_START = sql<string>`model_period(${modelBudgets.period})`
const BUDGET_COLUMNS = {
  ...getTableColumns(modelBudgets),
  current_start: sql<string>`model_period(${modelBudgets.period})`.as('current_start'),
  current_end: periodEnd(CURRENT_START, sql`${modelBudgets.period}`).as('current_end'),
}

function toWire(row: BudgetRow): schema.Budget & { [etagVersion]: number } {
  const [start, stored] = [row.current_start, row.period_start].map(text => Date.parse(text))
  const isCurrent = stored === start
  const spent = {
    usd: isCurrent ? Number(row.spent_usd.toPrecision(12)) : 0,
    tokens: isCurrent ? row.spent_tokens : 0,
    calls: isCurrent ? row.spent_calls : 0,
  }
  return {
    id: row.id,
    deployment_id: row.deployment_id,
    period: row.period,
    limit_usd: row.limit_usd,
    limit_tokens: row.limit_tokens,
    limit_calls: row.limit_calls,
    spent,
    is_spent:
      (row.limit_usd !== null && spent.usd >= row.limit_usd) ||
      (row.limit_tokens !== null && spent.tokens >= row.limit_tokens) ||
      (row.limit_calls !== null && spent.calls >= row.limit_calls),
    period_start: toIsoTime(row.current_start),
    period_end: toIsoTime(row.current_end),
    created_at: toIsoTime(row.created_at),
    updated_at: toIsoTime(row.updated_at),
    [etagVersion]: row.version,
  }
}

const isBudget = ({ budget_id }: BudgetParams | Placeholders<BudgetParams>): SQL =>
  and(eq(modelBudgets.id, budget_id), inTenant(modelBudgets))!

const RECORD = recordColumns(modelBudgets, ['deployment_id', 'period', 'limit_usd', 'limit_tokens', 'limit_calls'])

/** The event is shown to whom the deployment is shown. */
const EVENT_DATA = sql`json_strip_nulls(json_build_object('deployment_id', changed.deployment_id))`

const pageStatement = prepareStatement((page: Placeholders<Page>) =>
  db
    .select(BUDGET_COLUMNS)
    .from(modelBudgets)
    .where(and(inTenant(modelBudgets), afterCursor(modelBudgets, page)))
    .orderBy(...newestFirst(modelBudgets))
    .limit(page.limit)
    .offset(page.offset),
)

export const listBudgets = verb('models:read', (ctx, page: Page) => readPage(ctx, pageStatement, page, toWire))

const budgetStatement = prepareStatement((ref: Placeholders<BudgetParams>) =>
  db.select(BUDGET_COLUMNS).from(modelBudgets).where(isBudget(ref)),
)

export const readBudget = verb('models:read', async (ctx, { budget_id }: BudgetParams) =>
  toWire(requireRow(await run(ctx, budgetStatement({ budget_id })), 'model_budget_not_found')),
)

export const createBudget = verb('workspaces:manage-model-configs', async (ctx, input: schema.NewBudget) => {
  const { deployment_id = null, period, limit_usd, limit_tokens, limit_calls } = input
  const usedSoFar = (sum: SQL) => sql`(
      select coalesce(${sum}, 0)
      from model_usage u
      where u.tenant_id = current_tenant()
        and u.day >= (model_period(${period}) at time zone 'UTC')::date
        and (${deployment_id}::uuid is null or u.deployment_id = ${deployment_id}::uuid))`
  const isVisible = sql`exists (
      select from deployments d where d.id = ${deployment_id}::uuid and d.tenant_id = current_tenant())`
  const isUsable = deployment_id === null ? sql`true` : refuseUnless('deployment_not_found', isVisible)
  const change = db
    .insert(modelBudgets)
    .values({
      organization_id: sql`current_organization()`,
      tenant_id: sql`case when ${isUsable} then current_tenant() end`,
      deployment_id,
      period,
      limit_usd: limit_usd ?? null,
      limit_tokens: limit_tokens ?? null,
      limit_calls: limit_calls ?? null,
      period_start: sql`model_period(${period})`,
      spent_usd: usedSoFar(sql`sum(u.cost_usd)`),
      spent_tokens: usedSoFar(sql`sum(u.input_tokens + u.output_tokens)`),
      spent_calls: usedSoFar(sql`sum(u.calls)`),
    })
    .returning(BUDGET_COLUMNS)
  const parts = { lock: LOCK_WORKSPACE, changes: createdMembers(RECORD) }
  return toWire(requireRow(await commit(ctx, 'model_budget.created', change, EVENT_DATA, parts), 'workspace_not_found'))
})

/** Locks the workspace before the journal: deleting the workspace meanwhile could deadlock otherwise. */
const LOCK_WORKSPACE = sql`select from workspaces w where w.id = current_tenant() for key share`

const LIMITS = ['limit_usd', 'limit_tokens', 'limit_calls'] as const

export const changeBudget = verb(
  'workspaces:manage-model-configs',
  async (ctx, { budget_id, ...input }: BudgetParams & schema.BudgetPatch) => {
    const given = LIMITS.filter(name => input[name] !== undefined)
    const after = LIMITS.map(name =>
      input[name] === undefined ? sql`${modelBudgets[name]}` : sql`${input[name]}::numeric`,
    )
    const change = db
      .update(modelBudgets)
      .set({ ...Object.fromEntries(given.map(name => [name, input[name]])), ...bumpVersion(modelBudgets) })
      .where(
        and(
          isBudget({ budget_id }),
          versionMatches(ctx, modelBudgets),
          refuseUnless('model_budget_empty', sql`num_nonnulls(${sql.join(after, sql`, `)}) >= 1`),
        ),
      )
      .returning(BUDGET_COLUMNS)
    const parts = {
      lock: lockRows(modelBudgets, isBudget({ budget_id })),
      changes: changedMembers(modelBudgets, RECORD),
    }
    const rows = await commit(ctx, 'model_budget.updated', change, EVENT_DATA, parts)
    return toWire(requireRow(rows, 'model_budget_not_found'))
  },
)

export const deleteBudget = verb('workspaces:manage-model-configs', async (ctx, ref: BudgetParams) => {
  const change = db
    .delete(modelBudgets)
    .where(and(isBudget(ref), versionMatches(ctx, modelBudgets)))
    .returning()
  const parts = { lock: lockRows(modelBudgets, isBudget(ref)), changes: deletedMembers(RECORD) }
  requireRow(await commit(ctx, 'model_budget.deleted', change, EVENT_DATA, parts), 'model_budget_not_found')
})
