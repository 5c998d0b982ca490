// Evaluates rules after the response, instead of at the next minute.
import { and, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { db, inTenant, refuseUnless, run, uuidArray } from '../../kernel/db/db.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { RULE_COLUMNS, type RuleRow, toWire } from './rules.ts'
import type * as schema from './schema.ts'
import { runRules } from './tables.ts'

export const triggerRule = verb('rules:update', async (ctx, { rule_id }: z.output<typeof schema.RuleRef>) => {
  const [row] = await startRules(ctx, [rule_id])
  return toWire(row!)
})

export const triggerRules = verb('rules:update', async (ctx, { rule_ids }: z.output<typeof schema.RuleIds>) => ({
  rule_ids: (await startRules(ctx, [...new Set(rule_ids)])).map(({ id }) => id),
}))

const rulesStatement = prepareStatement(({ ids }: Placeholders<{ ids: string[] }>) => {
  const given = and(sql`${runRules.id} = any(${ids}::uuid[])`, inTenant(runRules))!
  const isOn = refuseUnless('rule_disabled', sql`${runRules.is_enabled}`)
  return db.select(RULE_COLUMNS).from(runRules).where(and(given, isOn))
})

/** A rule that a worker has now stays with it. */
async function startRules(ctx: Ctx, ids: string[]): Promise<RuleRow[]> {
  const rows = await run(ctx, rulesStatement({ ids }))
  if (rows.length < ids.length) throw fail('rule_not_found')
  ctx.waitUntil?.(evaluate(ctx, ids))
  return rows
}

async function evaluate(ctx: Ctx, ids: string[]): Promise<void> {
  const { evaluateAndSend } = await import('./evaluate.ts')
  await evaluateAndSend(ctx, sql`r.id = any(${uuidArray(ids)})`)
}
