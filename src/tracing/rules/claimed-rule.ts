// A rule under the lease of a worker, and the context in which it acts: with the rights of its workspace.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { LEASE } from '../../kernel/db/outbox.ts'
import { type Ctx, createKeylessCaller } from '../../kernel/http/context.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { RunCursor } from '../store/queries.ts'
import type { RuleAlert, RuleEvaluator, RuleWebhook } from './tables.ts'

export type ClaimedRule = {
  id: string
  organization_id: string
  tenant_id: string
  display_name: string
  session_id: string | null
  dataset_id: string | null
  sampling_rate: number
  filter: string | null
  trace_filter: string | null
  tree_filter: string | null
  add_to_annotation_queue_id: string | null
  add_to_dataset_id: string | null
  add_to_dataset_prefer_correction: boolean
  extend_only: boolean
  webhooks: RuleWebhook[]
  alerts: RuleAlert[]
  evaluators: RuleEvaluator[]
  evaluator_id: string | null
  position: number
  backfill_from: string | null
  backfill_until: string | null
  backfill_status: 'waiting' | 'running' | 'completed' | null
  backfill_cursor: RunCursor | null
  /** A notice waits: set by the worker. */
  hasRaised?: boolean
}

/** Null if another worker has it, or if it is gone or off. */
export async function claimRule({ platform, database }: Services, id: string): Promise<ClaimedRule | null> {
  const claim = sql<Row>`
    update run_rules r
    set next_evaluation_at = clock() + ${LEASE}
    where r.id = ${id}::uuid and r.is_enabled and r.next_evaluation_at <= clock()
    returning to_json(r)::text`
  const [, rows] = (await runAsSystem(database, setClock(platform), claim)) as [unknown, [string][]]
  return rows[0] ? JSON.parse(rows[0][0]) : null
}

/** The lease stays after a failure: the rule is tried again when it ends. */
export async function releaseRule({ platform, database }: Services, { id }: ClaimedRule): Promise<void> {
  const release = sql`update run_rules set next_evaluation_at = clock() where id = ${id}::uuid`
  await runAsSystem(database, setClock(platform), release)
}

type Owner = Pick<ClaimedRule, 'id' | 'organization_id' | 'tenant_id' | 'display_name'>

/** Row-level security confines it to the workspace. No access policy does: those are about people and keys. */
export function actAsRule(services: Services, rule: Owner): Ctx {
  const { id, organization_id: organization, tenant_id: tenant, display_name: name } = rule
  const actor = { kind: 'cron' as const, id, name, organization, tenant }
  return { ...createKeylessCaller(services, actor, `rule-${id}`, configuredOrigin(services.config)), permission: null }
}
