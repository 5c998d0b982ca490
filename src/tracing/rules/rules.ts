// Lists, creates, checks, changes and deletes the automation rules of a workspace.
import { and, eq, getTableColumns, type Placeholder, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { derivedUuid } from '../../kernel/crypto/digest.ts'
import { bumpVersion, db, inTenant, lockRows, type Row, refuseUnless, run, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import {
  changedMembers,
  createdMembers,
  deletedMembers,
  type RecordedMembers,
  recordColumns,
} from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { requireAllowedUrl } from '../../kernel/http/guarded-fetch.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { newSecret } from '../../protocol/webhook-signing.ts'
import { warnOfLongTexts } from '../ingest/long-texts.ts'
import { RUN_FIELDS } from '../runs/filter/fields.ts'
import { readFilters } from '../runs/filter/resolve.ts'
import { ROUTING_KEY_PLACE } from './alerts.ts'
import { listPromptFaults } from './check-prompt.ts'
import { isAllowed, mayWiden } from './rights.ts'
import * as schema from './schema.ts'
import { SPENT_THIS_WEEK } from './spending.ts'
import { HEADER_PLACE, type RuleAlert, type RuleEvaluator, type RuleWebhook, runRules, SECRET_PLACE } from './tables.ts'

type RuleParams = z.output<typeof schema.RuleRef>
export type RuleRow = typeof runRules.$inferSelect & {
  session_name: string | null
  dataset_name: string | null
  queue_name: string | null
  add_to_dataset_name: string | null
  evaluator_name: string | null
  spend_usd: number
}

const nameOf = (table: string, column: string): SQL<string | null> => sql<string | null>`(
  select n.name
  from ${sql.identifier(table)} n
  where n.id = run_rules.${sql.identifier(column)} and n.tenant_id = run_rules.tenant_id)`
export const RULE_COLUMNS = {
  ...getTableColumns(runRules),
  session_name: nameOf('projects', 'session_id').as('session_name'),
  dataset_name: nameOf('datasets', 'dataset_id').as('dataset_name'),
  queue_name: nameOf('annotation_queues', 'add_to_annotation_queue_id').as('queue_name'),
  add_to_dataset_name: nameOf('datasets', 'add_to_dataset_id').as('add_to_dataset_name'),
  evaluator_name: nameOf('evaluators', 'evaluator_id').as('evaluator_name'),
  spend_usd: sql<number>`${SPENT_THIS_WEEK(sql`run_rules`)}`.mapWith(Number).as('spend_usd'),
}

export const toWire = (row: RuleRow): schema.Rule & { [etagVersion]: number } => ({
  id: row.id,
  tenant_id: row.tenant_id,
  is_enabled: row.is_enabled,
  session_id: row.session_id,
  session_name: row.session_name,
  dataset_id: row.dataset_id,
  dataset_name: row.dataset_name,
  display_name: row.display_name,
  sampling_rate: Number(row.sampling_rate),
  filter: row.filter,
  trace_filter: row.trace_filter,
  tree_filter: row.tree_filter,
  add_to_annotation_queue_id: row.add_to_annotation_queue_id,
  add_to_annotation_queue_name: row.queue_name,
  add_to_dataset_id: row.add_to_dataset_id,
  add_to_dataset_name: row.add_to_dataset_name,
  add_to_dataset_prefer_correction: row.add_to_dataset_prefer_correction,
  extend_only: row.extend_only,
  webhooks: row.webhooks.map(({ url, headers }) => ({
    url,
    headers: Object.fromEntries(Object.keys(headers).map(name => [name, schema.HIDDEN])),
  })),
  evaluators: row.evaluators.map(({ structured }) => ({ structured })),
  evaluator_id: row.evaluator_id,
  evaluator_name: row.evaluator_name,
  evaluator_type: row.evaluator_id === null ? null : 'llm',
  spend_limit: toLimit(row.spend_limit_usd),
  effective_spend_limit: toLimit(row.spend_limit_usd),
  spend_usd: row.spend_usd,
  alerts: row.alerts.map(({ summary, severity }) => ({
    type: 'pagerduty' as const,
    routing_key: schema.HIDDEN,
    summary,
    severity,
  })),
  backfill_id: row.backfill_id,
  backfill_from: toIsoTime(row.backfill_from),
  backfill_status: row.backfill_status,
  backfill_progress: progressOf(row),
  backfill_error: null,
  backfill_completed_at: toIsoTime(row.backfill_completed_at),
  evaluator_version: 1,
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

const toLimit = (limit_usd: number | null): schema.Rule['spend_limit'] =>
  limit_usd === null ? null : { limit_usd: String(limit_usd), window: 'weekly' }

/** Progress is measured in time, because the number of runs is not known. */
function progressOf({ backfill_status, backfill_from, backfill_until, backfill_cursor }: RuleRow): number | null {
  if (!backfill_status || backfill_status === 'completed') return backfill_status ? 1 : null
  const at = (backfill_cursor as { time: string } | null)?.time
  if (!at) return 0
  const [from, until] = [Date.parse(backfill_from!), Date.parse(backfill_until!)]
  return Math.round(Math.min(1, Math.max(0, (Date.parse(at) - from) / (until - from || 1))) * 1000) / 1000
}

const withSecret = async ({ sealer }: Ctx, row: RuleRow): Promise<schema.Rule> => ({
  ...toWire(row),
  webhook_secret: await sealer.open(row.webhook_secret, row.id, SECRET_PLACE),
})

/** URLs are shown without their query, which may hold a secret, and headers are not shown. */
const RECORD: RecordedMembers = {
  ...recordColumns(runRules, [
    'display_name',
    'is_enabled',
    'session_id',
    'dataset_id',
    'sampling_rate',
    'filter',
    'trace_filter',
    'tree_filter',
    'add_to_annotation_queue_id',
    'add_to_dataset_id',
    'add_to_dataset_prefer_correction',
    'extend_only',
    'backfill_from',
    'evaluator_id',
    'spend_limit_usd',
  ]),
  // Prompts are long. The id of an evaluator follows from its contents.
  evaluators: row => sql`(
    select json_agg(json_build_object(
      'id', e ->> 'id', 'playground_settings_id', e -> 'structured' ->> 'playground_settings_id',
      'title', e -> 'structured' -> 'schema' ->> 'title'
    ) order by place)
    from json_array_elements(${row}.evaluators) with ordinality i(e, place))`,
  alerts: row => sql`(select json_agg(a ->> 'summary') from json_array_elements(${row}.alerts) a)`,
  webhooks: row => sql`(
    select json_agg(split_part(w ->> 'url', '?', 1) order by place)
    from json_array_elements(${row}.webhooks) with ordinality e(w, place))`,
}

const scopeOf = ({ session_id = null, dataset_id = null }: schema.NewRule) => ({
  session_id: sql`${session_id}::uuid`,
  dataset_id: sql`${dataset_id}::uuid`,
})
const OWN_SCOPE = { session_id: sql`run_rules.session_id`, dataset_id: sql`run_rules.dataset_id` }

const isRule = (id: string | Placeholder): SQL => and(eq(runRules.id, id), inTenant(runRules))!
const lockRule = (id: string): SQL => lockRows(runRules, isRule(id))

/** The last of the rows that wait now: the rule begins after it. */
const CURRENT_POSITION = sql`coalesce((
  select max(f.id)
  from finished_runs f
  where f.tenant_id = current_tenant()), 0)`

const HAS_ROOM = refuseUnless(
  'rules_full',
  sql`(select count(*) from run_rules r where r.tenant_id = current_tenant()) < ${schema.MAX_RULES}`,
)
/** Two concurrent requests must not both take the last place. */
const LOCK_WORKSPACE = sql`select from workspaces where id = current_tenant() for no key update`

function requireUsable(ctx: Ctx, input: schema.RulePatch): void {
  const { filter, trace_filter, tree_filter, webhooks, evaluators } = input
  const faults = (evaluators ?? []).flatMap(({ structured }, i) =>
    listPromptFaults(structured, ['body', 'evaluators', i, 'structured']),
  )
  if (faults.length > 0) throw invalidRequest(faults)
  warnOfLongTexts(ctx, readFilters({ filter, trace_filter, tree_filter }, RUN_FIELDS))
  for (const { url } of webhooks ?? []) requireAllowedUrl(ctx.config, ctx.origin, url)
}

async function sealWebhooks({ sealer }: Ctx, id: string, webhooks: schema.NewRule['webhooks']): Promise<RuleWebhook[]> {
  const seal = async ([name, value]: [string, string]) => [name, await sealer.seal(value, id, HEADER_PLACE)] as const
  return Promise.all(
    (webhooks ?? []).map(async ({ url, headers }) => ({
      id: crypto.randomUUID(),
      url,
      headers: Object.fromEntries(await Promise.all(Object.entries(headers ?? {}).map(seal))),
    })),
  )
}

const sealAlerts = async ({ sealer }: Ctx, id: string, alerts: schema.NewRule['alerts']): Promise<RuleAlert[]> =>
  Promise.all(
    (alerts ?? []).map(async ({ routing_key, summary, severity }) => ({
      id: crypto.randomUUID(),
      routing_key: await sealer.seal(routing_key, id, ROUTING_KEY_PLACE),
      summary: summary ?? null,
      severity: severity ?? ('error' as const),
    })),
  )

const withIds = (rule: string, evaluators: schema.NewRule['evaluators']): RuleEvaluator[] =>
  (evaluators ?? []).map(({ structured }) => ({
    id: derivedUuid(`evaluator ${rule} ${JSON.stringify(structured)}`),
    structured,
  }))

const FILTERS = ['filter', 'trace_filter', 'tree_filter'] as const

function givenColumns(input: schema.RulePatch) {
  const { display_name, is_enabled, sampling_rate, extend_only, add_to_dataset_prefer_correction } = input
  const { add_to_dataset_id, add_to_annotation_queue_id, evaluator_id, spend_limit } = input
  const filters = FILTERS.filter(name => input[name] !== undefined).map(name => [name, input[name]?.trim() || null])
  return omitUndefined({
    display_name,
    is_enabled,
    sampling_rate,
    extend_only,
    add_to_dataset_prefer_correction,
    add_to_dataset_id,
    add_to_annotation_queue_id,
    evaluator_id,
    spend_limit_usd: spend_limit === undefined ? undefined : (spend_limit?.limit_usd ?? null),
    ...(Object.fromEntries(filters) as { [Name in (typeof FILTERS)[number]]?: string | null }),
  })
}

const omitUndefined = <Input extends object>(input: Input) =>
  Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined)) as {
    [Name in keyof Input]?: Exclude<Input[Name], undefined>
  }

const listStatement = prepareStatement((query: Placeholders<schema.RuleQuery>) => {
  const { session_id, dataset_id, type, name, name_contains, id, evaluator_id, tag_value_id } = query
  const hasTags = (table: string, column: string) => sql`exists (
    select from ${sql.identifier(table)} t
    where t.id = run_rules.${sql.identifier(column)}
      and t.tenant_id = current_tenant()
      and t.tag_value_ids @> ${tag_value_id}::uuid[])`
  return db
    .select(RULE_COLUMNS)
    .from(runRules)
    .where(
      and(
        inTenant(runRules),
        session_id && eq(runRules.session_id, session_id),
        dataset_id && eq(runRules.dataset_id, dataset_id),
        type &&
          sql`case ${type}::text when 'session' then run_rules.session_id else run_rules.dataset_id end is not null`,
        name_contains && sql`strpos(lower(${runRules.display_name}), lower(${name_contains})) > 0`,
        name && eq(runRules.display_name, name),
        id && sql`${runRules.id} = any(${id}::uuid[])`,
        evaluator_id && eq(runRules.evaluator_id, evaluator_id),
        tag_value_id && sql`(${hasTags('projects', 'session_id')} or ${hasTags('datasets', 'dataset_id')})`,
      ),
    )
    .orderBy(sql`${runRules.created_at} desc`, sql`${runRules.id} desc`)
})

export const findRules = async (ctx: Ctx, query: schema.RuleQuery): Promise<schema.Rule[]> =>
  (await run(ctx, listStatement(query))).map(toWire)

export const listRules = verb('rules:read', findRules)

const ruleStatement = prepareStatement(({ rule_id }: Placeholders<RuleParams>) =>
  db.select(RULE_COLUMNS).from(runRules).where(isRule(rule_id)),
)

export const readRule = verb('rules:read', async (ctx, { rule_id }: RuleParams) =>
  toWire(requireRow(await run(ctx, ruleStatement({ rule_id })), 'rule_not_found')),
)

export const createRule = verb('rules:create', async (ctx, input: schema.NewRule) => {
  requireUsable(ctx, input)
  const id = crypto.randomUUID()
  const { backfill_from } = input
  const change = db
    .insert(runRules)
    .values({
      id,
      organization_id: sql`current_organization()`,
      tenant_id: sql`case when ${HAS_ROOM} and ${isAllowed(input, scopeOf(input))} then current_tenant() end`,
      ...givenColumns(input),
      display_name: input.display_name,
      sampling_rate: input.sampling_rate,
      session_id: input.session_id ?? null,
      dataset_id: input.dataset_id ?? null,
      webhooks: await sealWebhooks(ctx, id, input.webhooks),
      alerts: await sealAlerts(ctx, id, input.alerts),
      evaluators: withIds(id, input.evaluators),
      webhook_secret: await ctx.sealer.seal(newSecret(), id, SECRET_PLACE),
      position: CURRENT_POSITION,
      ...(backfill_from && {
        backfill_id: crypto.randomUUID(),
        backfill_from,
        backfill_until: sql`clock()`,
        backfill_status: 'waiting' as const,
      }),
    })
    .returning(RULE_COLUMNS)
  const parts = { lock: LOCK_WORKSPACE, changes: createdMembers(RECORD) }
  const rows = await commit(ctx, 'rule.created', change, {}, parts)
  return withSecret(ctx, requireRow(rows, 'workspace_not_found'))
})

/** Refuses the same as creation, except for a full workspace, and tries the evaluators on a run. */
export const validateRule = verb('rules:create', async (ctx, input: schema.ValidatedRule) => {
  requireUsable(ctx, input)
  const { evaluator_id } = input
  const shared = sql`(
    select e.structured::text
    from evaluators e
    where e.id = ${evaluator_id ?? null}::uuid and e.tenant_id = current_tenant()
  )`
  const [row] = await run(ctx, sql<Row>`select ${isAllowed(input, scopeOf(input))}, ${shared}`)
  const judges = (input.evaluators ?? []).map(({ structured }) => structured)
  if (evaluator_id) judges.push(JSON.parse(row![1] as string))
  if (judges.length === 0) return []
  const { tryEvaluators } = await import('./try-evaluators.ts')
  return tryEvaluators({ ...ctx, idempotency: null }, input, judges)
})

export const changeRule = verb(
  'rules:update',
  async (ctx, { rule_id, session_id, dataset_id, backfill_from: _, ...patch }: RuleParams & schema.RulePatch) => {
    requireUsable(ctx, patch)
    const { webhooks, alerts, evaluators } = patch
    const isEnabled = sql`run_rules.is_enabled`
    const change = db
      .update(runRules)
      .set({
        ...givenColumns(patch),
        ...(webhooks !== undefined && { webhooks: await sealWebhooks(ctx, rule_id, webhooks) }),
        ...(alerts !== undefined && { alerts: await sealAlerts(ctx, rule_id, alerts) }),
        ...(evaluators !== undefined && { evaluators: withIds(rule_id, evaluators) }),
        // Runs that ended while the rule was off are passed over.
        ...(patch.is_enabled && {
          position: sql`case when ${isEnabled} then run_rules.position else ${CURRENT_POSITION} end`,
        }),
        ...bumpVersion(runRules),
      })
      .where(
        and(
          isRule(rule_id),
          versionMatches(ctx, runRules),
          session_id ? refuseUnless('rule_scope_fixed', sql`session_id = ${session_id}::uuid`) : undefined,
          dataset_id ? refuseUnless('rule_scope_fixed', sql`dataset_id = ${dataset_id}::uuid`) : undefined,
          isAllowed(patch, OWN_SCOPE),
          mayWiden(patch, OWN_SCOPE),
        ),
      )
      .returning(RULE_COLUMNS)
    const parts = { lock: lockRule(rule_id), changes: changedMembers(runRules, RECORD) }
    const rows = await commit(ctx, 'rule.updated', change, { supplied: Object.keys(patch) }, parts)
    const row = requireRow(rows, 'rule_not_found')
    return webhooks ? withSecret(ctx, row) : toWire(row)
  },
)

export const deleteRule = verb('rules:delete', async (ctx, { rule_id }: RuleParams) => {
  const change = db
    .delete(runRules)
    .where(and(isRule(rule_id), versionMatches(ctx, runRules)))
    .returning()
  const parts = { lock: lockRule(rule_id), changes: deletedMembers(RECORD) }
  return { id: requireRow(await commit(ctx, 'rule.deleted', change, {}, parts), 'rule_not_found').id }
})
