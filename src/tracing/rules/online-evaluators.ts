// Lists, creates, reads, changes and deletes evaluators that several rules use.
import { and, eq, getTableColumns, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import {
  bumpVersion,
  db,
  inTenant,
  lockRows,
  type Row,
  refuseUnless,
  requirePermission,
  run,
  uuidArray,
  versionMatches,
} from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import {
  changedMembers,
  createdMembers,
  deletedMembers,
  type RecordedMembers,
  recordColumns,
} from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { listPromptFaults } from './check-prompt.ts'
import type * as schema from './online-evaluators.schema.ts'
import { hasModels } from './rights.ts'
import { SPENT_THIS_WEEK } from './spending.ts'
import { evaluators, type JudgePrompt } from './tables.ts'
import { listKeys } from './verdicts.ts'

type EvaluatorParams = z.output<typeof schema.EvaluatorRef>
type EvaluatorRow = typeof evaluators.$inferSelect
type RuleOfEvaluator = Omit<schema.OnlineEvaluator['run_rules'][0], 'spend_limit'> & { limit_usd: number | null }

type Evaluator = schema.OnlineEvaluator & { [etagVersion]: number }
const toWire = (row: EvaluatorRow, rules: RuleOfEvaluator[]): Evaluator => ({
  id: row.id,
  tenant_id: row.tenant_id,
  name: row.name,
  type: 'llm',
  feedback_keys: row.feedback_keys,
  is_managed: false,
  llm_evaluator: { evaluator_id: row.id, ...row.structured, use_corrections_dataset: false },
  metadata: row.metadata,
  run_rules: rules.map(({ limit_usd, ...rule }) => ({
    ...rule,
    spend_limit: limit_usd === null ? null : toLimit(limit_usd, rule.spend_usd),
  })),
  created_by: row.created_by_name,
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

const toAnswer = (evaluator: Evaluator) => ({ evaluator, [etagVersion]: evaluator[etagVersion] })

const toLimit = (limit_usd: number, spent: number) => ({
  limit_usd,
  window: 'weekly' as const,
  utilization_pct: Math.round((spent / limit_usd) * 10_000) / 100,
})

/** `evaluator` is a row of `evaluators`. */
const rulesOf = (evaluator: SQL): SQL => sql`(
    select coalesce(json_agg(json_build_object(
      'id', r.id, 'session_id', r.session_id, 'session_name', p.name, 'dataset_id', r.dataset_id,
      'dataset_name', d.name, 'limit_usd', r.spend_limit_usd, 'spend_usd', ${SPENT_THIS_WEEK(sql`r`)}
    ) order by r.created_at, r.id), '[]')
    from run_rules r
    left join projects p on p.id = r.session_id and p.tenant_id = r.tenant_id
    left join datasets d on d.id = r.dataset_id and d.tenant_id = r.tenant_id
    where r.evaluator_id = ${evaluator}.id and r.tenant_id = current_tenant()
  )`

const RECORD: RecordedMembers = {
  ...recordColumns(evaluators, ['name', 'feedback_keys', 'metadata']),
  playground_settings_id: row => sql`${row}.structured -> 'playground_settings_id'`,
  // Prompts are long.
  prompt_digest: row => sql`md5(${row}.structured::text)`,
}

const SORT = { name: sql`lower(e.name)`, created_at: sql`e.created_at`, updated_at: sql`e.updated_at` }

export const listOnlineEvaluators = verb('rules:read', async (ctx, query: schema.OnlineEvaluatorQuery) => {
  const { type, name, name_contains, feedback_key, resource_id, tag_value_id, metadata, sort_by, sort_by_desc } = query
  const about = (condition: SQL) => sql`exists (
      select from run_rules r
      left join projects p on p.id = r.session_id and p.tenant_id = r.tenant_id
      left join datasets d on d.id = r.dataset_id and d.tenant_id = r.tenant_id
      where r.evaluator_id = e.id and r.tenant_id = current_tenant() and ${condition}
    )`
  const conditions = [
    type && type !== 'llm' ? sql`false` : undefined,
    name === undefined ? undefined : sql`e.name = ${name}`,
    name_contains === undefined ? undefined : sql`strpos(lower(e.name), lower(${name_contains})) > 0`,
    feedback_key === undefined ? undefined : sql`${feedback_key} = any(e.feedback_keys)`,
    resource_id && about(sql`coalesce(r.session_id, r.dataset_id) = any(${uuidArray(resource_id)})`),
    tag_value_id && about(sql`coalesce(p.tag_value_ids, d.tag_value_ids) @> ${uuidArray(tag_value_id)}`),
    metadata === undefined ? undefined : sql`e.metadata::jsonb @> ${metadata}::jsonb`,
  ]
  const direction = sort_by_desc ? sql`desc` : sql`asc`
  const page = sql<Row>`
    with matching as (
      select e.*
      from evaluators e
      where ${and(sql`e.tenant_id = current_tenant()`, ...conditions)}
    ),
    page as (
      select to_json(e) as evaluator, ${rulesOf(sql`e`)} as rules,
        row_number() over (order by ${SORT[sort_by ?? 'created_at']} ${direction}, e.id ${direction}) as place
      from matching e
      order by place
      limit ${query.limit}
      offset ${query.offset}
    )
    select json_build_object(
        'total', (select count(*) from matching),
        'page', coalesce((select json_agg(json_build_array(evaluator, rules) order by place) from page), '[]')
      )::text`
  const [[text]] = (await run(ctx, page)) as [[string]]
  const found = JSON.parse(text) as { total: number; page: [EvaluatorRow, RuleOfEvaluator[]][] }
  return { evaluators: found.page.map(([row, rules]) => toWire(row, rules)), total: found.total }
})

export const readOnlineEvaluator = verb('rules:read', async (ctx, { evaluator_id }: EvaluatorParams) => {
  const query = sql<Row>`
    select json_build_array(to_json(e), ${rulesOf(sql`e`)})::text
    from evaluators e
    where e.tenant_id = current_tenant() and e.id = ${evaluator_id}::uuid`
  const [text] = requireRow(await run(ctx, query), 'evaluator_not_found') as [string]
  return toWire(...(JSON.parse(text) as [EvaluatorRow, RuleOfEvaluator[]]))
})

function requireUsable(judge: JudgePrompt): void {
  const faults = listPromptFaults(judge, ['body', 'llm_evaluator'])
  if (faults.length > 0) throw invalidRequest(faults)
}

const toJudge = (input: schema.NewOnlineEvaluator['llm_evaluator']): JudgePrompt => {
  const { playground_settings_id, prompt, schema, template_format, variable_mapping } = input
  return { playground_settings_id, prompt, schema, template_format, variable_mapping }
}

/** A rule acts with the rights of its workspace, so the author of an evaluator needs those of its actions. */
const mayJudge = (judge: JudgePrompt): SQL =>
  and(
    ...hasModels([{ structured: judge }]),
    requirePermission('models:invoke'),
    requirePermission('feedback:create'),
    requirePermission('runs:read'),
  )!

export const createOnlineEvaluator = verb('rules:create', async (ctx, input: schema.NewOnlineEvaluator) => {
  const judge = toJudge(input.llm_evaluator)
  requireUsable(judge)
  const change = db
    .insert(evaluators)
    .values({
      organization_id: sql`current_organization()`,
      tenant_id: sql`case when ${mayJudge(judge)} then current_tenant() end`,
      name: input.name,
      structured: judge,
      feedback_keys: listKeys(judge.schema),
      metadata: input.metadata ?? null,
    })
    .returning()
  const rows = await commit(ctx, 'evaluator.created', change, {}, { changes: createdMembers(RECORD) })
  return toAnswer(toWire(requireRow(rows, 'workspace_not_found'), []))
})

/** Rules may use it in projects that the caller does not see, and would send their runs by the new prompt. */
const mayChangeJudge = (judge: JudgePrompt): SQL =>
  and(mayJudge(judge), refuseUnless('denied_by_policy', sql`not hides('project')`))!

const isEvaluator = (id: string): SQL => and(eq(evaluators.id, id), inTenant(evaluators))!

/** Two trips where the prompt changes: it is checked as a whole. */
export const changeOnlineEvaluator = verb(
  'rules:update',
  async (ctx, { evaluator_id, ...patch }: EvaluatorParams & schema.OnlineEvaluatorPatch) => {
    const judge = patch.llm_evaluator && (await readChangedJudge(ctx, evaluator_id, patch.llm_evaluator))
    const change = db
      .update(evaluators)
      .set({
        ...(patch.name !== undefined && { name: patch.name }),
        ...(patch.metadata !== undefined && { metadata: patch.metadata }),
        ...(judge && { structured: judge, feedback_keys: listKeys(judge.schema) }),
        ...bumpVersion(evaluators),
      })
      .where(and(isEvaluator(evaluator_id), versionMatches(ctx, evaluators), judge && mayChangeJudge(judge)))
      .returning({
        ...getTableColumns(evaluators),
        rules: sql<RuleOfEvaluator[]>`${rulesOf(sql`evaluators`)}`.as('rules'),
      })
    const parts = { lock: lockRows(evaluators, isEvaluator(evaluator_id)), changes: changedMembers(evaluators, RECORD) }
    const supplied = Object.keys(patch)
    const rows = await commit(ctx, 'evaluator.updated', change, { supplied }, parts)
    const { rules, ...row } = requireRow(rows, 'evaluator_not_found')
    return toAnswer(toWire(row, rules))
  },
)

async function readChangedJudge(
  ctx: Ctx,
  id: string,
  given: NonNullable<schema.OnlineEvaluatorPatch['llm_evaluator']>,
): Promise<JudgePrompt> {
  const { llm_evaluator: before } = await readOnlineEvaluator({ ...ctx, idempotency: null }, { evaluator_id: id })
  const judge = {
    playground_settings_id: given.playground_settings_id ?? before.playground_settings_id,
    prompt: given.prompt ?? (before.prompt as JudgePrompt['prompt']),
    schema: given.schema ?? before.schema,
    template_format: given.template_format ?? before.template_format,
    variable_mapping: given.variable_mapping === undefined ? before.variable_mapping : (given.variable_mapping ?? {}),
  }
  requireUsable(judge)
  return judge
}

export const deleteOnlineEvaluator = verb(
  'rules:delete',
  async (ctx, { evaluator_id, delete_run_rules }: EvaluatorParams & z.output<typeof schema.DeleteQuery>) => {
    const [row] = await deleteRows(ctx, [evaluator_id], delete_run_rules)
    if (!row) throw fail('evaluator_not_found')
    if (!row.is_deleted) throw fail('evaluator_in_use')
  },
)

/** Each that can be deleted. If there is none, the request is refused. */
export const deleteOnlineEvaluators = verb(
  'rules:delete',
  async (ctx, input: z.output<typeof schema.BulkDeleteQuery>): Promise<z.output<typeof schema.BulkDeleted>> => {
    const ids = [...new Set(input.evaluator_ids)]
    const rows = await deleteRows(ctx, ids, input.delete_run_rules)
    const succeeded = rows.filter(row => row.is_deleted).map(({ id }) => id)
    if (succeeded.length === 0) throw fail(rows.length > 0 ? 'evaluator_in_use' : 'evaluator_not_found')
    const inUse = new Set(rows.filter(row => !row.is_deleted).map(({ id }) => id))
    const failed = ids
      .filter(id => !succeeded.includes(id))
      .map(id => ({ id, error: inUse.has(id) ? 'evaluator_in_use' : 'evaluator_not_found' }))
    return { succeeded, failed }
  },
)

/** Returns existing ones. The foreign key refuses an evaluator of rules that the caller does not see. */
function deleteRows(ctx: Ctx, ids: string[], withRules: boolean): Promise<(EvaluatorRow & { is_deleted: boolean })[]> {
  const given = (evaluator: SQL) =>
    sql`${evaluator}.id = any(${uuidArray(ids)}) and ${evaluator}.tenant_id = current_tenant()`
  const isFree = sql`not exists (
          select from run_rules r
          where r.evaluator_id = e.id and r.tenant_id = current_tenant()
        )`
  const isVersion = versionMatches(ctx, { version: sql`e.version` }) ?? sql`true`
  const deleted = sql`
    deleted as (
      delete from evaluators e
      where ${given(sql`e`)} and ${withRules ? sql`true` : isFree} and ${isVersion}
      returning e.id
    )`
  const rules = sql`
    deleted_rules as (
      delete from run_rules r
      using deleted d
      where r.evaluator_id = d.id and r.tenant_id = current_tenant()
      returning r.id, r.display_name
    )`
  const change = sql<Row>`
      select e.*, d.id is not null as is_deleted
      from evaluators e
      left join deleted d on d.id = e.id
      where ${given(sql`e`)}`
  const ruleEvents = sql`
    select 'rule.deleted', d.id, '{}'::json,
      changed_members(jsonb_build_object('display_name', d.display_name), null)
    from deleted_rules d`
  const parts = {
    lock: sql`select from evaluators e where ${given(sql`e`)} order by e.id for update`,
    ctesBefore: [deleted, ...(withRules ? [rules] : [])],
    changes: deletedMembers(RECORD),
    ...(withRules && { otherEvents: ruleEvents }),
  }
  const event = sql`case when changed.is_deleted then 'evaluator.deleted' end`
  return commit(ctx, event, change as never, {}, parts)
}
