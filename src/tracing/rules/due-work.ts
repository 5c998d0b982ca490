// Work that is stored for rules, as deliveries and evaluations are: which rules are due, and the next item of one.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { LEASE, type OutboxItem } from '../../kernel/db/outbox.ts'
import type { Services } from '../../kernel/http/routes.ts'

/** The rule's own column has the time of its last item: the rule that has waited longest is next. */
export type RuleWork =
  | { table: 'rule_deliveries'; lastAt: 'last_sent_at' }
  | { table: 'rule_evaluations'; lastAt: 'last_judged_at' }

const MAX_RULES = 500
export type DueRule = { id: string; workspace: string }

/** The condition is on rules `r`: of each workspace the one that waits longest, then the second of each. */
export async function listDueRules(
  { platform, database }: Services,
  { table, lastAt }: RuleWork,
  condition: SQL,
): Promise<DueRule[]> {
  const last = sql`r.${sql.identifier(lastAt)}`
  const due = sql<Row>`
    select r.id, r.tenant_id
    from run_rules r
    where ${condition}
      and exists (
        select from ${sql.identifier(table)} w
        where w.rule_id = r.id and w.state = 'waiting' and w.next_attempt_at <= clock()
      )
    order by row_number() over (partition by r.tenant_id order by ${last}), ${last}
    limit ${MAX_RULES}`
  const [, rows] = (await runAsSystem(database, setClock(platform), due)) as [unknown, [string, string][]]
  return rows.map(([id, workspace]) => ({ id, workspace }))
}

/** A CTE `claimed` that takes the item that waits longest. */
export const claimNext = ({ table, lastAt }: RuleWork, rule: string): SQL => sql`
  due as (
    select w.id
    from ${sql.identifier(table)} w
    where w.rule_id = ${rule}::uuid and w.state = 'waiting' and w.next_attempt_at <= clock()
    order by w.next_attempt_at
    limit 1
    for update skip locked
  ),
  served as (
    update run_rules set ${sql.identifier(lastAt)} = clock()
    where id = ${rule}::uuid and exists (select from due)
  ),
  claimed as (
    update ${sql.identifier(table)} w
    set attempts = w.attempts + 1, next_attempt_at = clock() + ${LEASE}
    from due
    where w.id = due.id
    returning w.*
  )`

/** No other worker has taken the item over. */
export const isOwnAttempt = ({ id, attempts }: OutboxItem): SQL =>
  sql`id = ${id}::uuid and attempts = ${attempts} and state = 'waiting'`
