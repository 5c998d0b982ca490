// The rights that a rule needs: those to its references, and those of its actions. A rule acts with the rights of its
// workspace, so a caller who gives it an action needs the permissions to do the same.
import { and, type SQL, sql } from 'drizzle-orm'
import { refuseUnless, requirePermission } from '../../kernel/db/db.ts'
import type { Permission } from '../../kernel/permissions.ts'
import type { RulePatch } from './schema.ts'

type Scope = { session_id: SQL; dataset_id: SQL }
type Given = Pick<
  RulePatch,
  | 'session_id'
  | 'dataset_id'
  | 'add_to_dataset_id'
  | 'add_to_annotation_queue_id'
  | 'extend_only'
  | 'webhooks'
  | 'alerts'
  | 'evaluators'
  | 'evaluator_id'
>
type Table = 'projects' | 'datasets' | 'annotation_queues' | 'model_configurations' | 'evaluators'

const rowOf = (table: Table, id: SQL): SQL => sql`${sql.identifier(table)} k
          where k.id = ${id} and k.tenant_id = current_tenant()`

const exists = (code: string, table: Table, id: string | null | undefined): SQL | undefined =>
  id ? refuseUnless(code, sql`exists (select from ${rowOf(table, sql`${id}::uuid`)})`) : undefined

const mayUse = (permission: Permission, table: Table, id: SQL): SQL =>
  sql`(select require_permission_for(${permission}, k.tag_value_ids) from ${rowOf(table, id)})`

/** The experiments on a dataset have tags of their own, and more will come: who may not read all projects gets none. */
const mayUseRuns = (permission: Permission, { session_id, dataset_id }: Scope): SQL => sql`case
        when ${session_id} is not null then ${mayUse(permission, 'projects', session_id)}
        when hides('project')
          then refuse('denied_by_policy', (select k.name from ${rowOf('datasets', dataset_id)}))
        else ${requirePermission(permission)}
      end`

/** A condition that refuses references that the workspace does not have, and actions that the caller may not take. */
export function isAllowed(given: Given, scope: Scope): SQL {
  const { add_to_dataset_id: dataset, add_to_annotation_queue_id: queue, extend_only, webhooks } = given
  const { evaluators, evaluator_id: evaluator } = given
  const judges = evaluator || evaluators?.length
  const showsRuns = dataset || queue || webhooks?.length || given.alerts?.length || judges
  return and(
    exists('project_not_found', 'projects', given.session_id),
    exists('dataset_not_found', 'datasets', given.dataset_id),
    exists('dataset_not_found', 'datasets', dataset),
    exists('queue_not_found', 'annotation_queues', queue),
    exists('evaluator_not_found', 'evaluators', evaluator),
    ...hasModels(evaluators),
    showsRuns ? mayUseRuns('runs:read', scope) : undefined,
    dataset ? mayUse('datasets:update', 'datasets', sql`${dataset}::uuid`) : undefined,
    queue ? mayUse('annotation-queues:update', 'annotation_queues', sql`${queue}::uuid`) : undefined,
    extend_only ? mayUseRuns('projects:increase-trace-tier', scope) : undefined,
    judges ? mayUseRuns('feedback:create', scope) : undefined,
    judges ? requirePermission('models:invoke') : undefined,
    sql`true`,
  )!
}

const WIDENING = ['filter', 'trace_filter', 'tree_filter', 'sampling_rate', 'spend_limit'] as const

/** A condition on `run_rules`: having its evaluators ask about more runs needs the rights to give them. */
export function mayWiden(patch: RulePatch, scope: Scope): SQL | undefined {
  if (!patch.is_enabled && WIDENING.every(name => patch[name] === undefined)) return undefined
  return sql`case
        when run_rules.evaluator_id is null and json_array_length(run_rules.evaluators) = 0 then true
        else ${and(
          mayUseRuns('runs:read', scope),
          mayUseRuns('feedback:create', scope),
          requirePermission('models:invoke'),
        )}
      end`
}

type Asking = { structured: { playground_settings_id: string } }[] | null | undefined

export const hasModels = (evaluators: Asking): (SQL | undefined)[] =>
  [...new Set(evaluators?.map(({ structured }) => structured.playground_settings_id))].map(id =>
    exists('model_not_found', 'model_configurations', id),
  )
