// No row of one workspace may contain an id of another. The cases come from the catalog, so new columns are covered.
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'
import { connect } from '../support/postgres.ts'

/** The table that a column refers to, by the name of the column, or by its table and name. */
const REFERENCED_TABLES: Record<string, string> = {
  organization_id: 'organizations',
  tenant_id: 'workspaces',
  scope_id: 'workspaces',
  made_by_workspace: 'workspaces',
  role_id: 'roles',
  member_id: 'members',
  listener_id: 'listeners',
  access_policy_id: 'access_policies',
  tag_key_id: 'tag_keys',
  tag_value_ids: 'tag_values',
  deployment_id: 'deployments',
  deployment_ids: 'deployments',
  webhook_id: 'webhooks',
  channel_id: 'channels',
  run_rule_id: 'run_rules',
  channel_ids: 'channels',
  incident_id: 'incidents',
  project_id: 'projects',
  rule_ids: 'alert_rules',
  'alert_signals.rule_id': 'alert_rules',
  'alert_states.rule_id': 'alert_rules',
  'incidents.rule_id': 'alert_rules',
  drain_id: 'drains',
  dataset_id: 'datasets',
  contents_id: 'example_contents',
  baseline_experiment_id: 'projects',
  parent_id: 'deployments',
  parent_deployment_id: 'deployments',
  revision_id: 'revisions',
  latest_revision_id: 'revisions',
  active_revision_id: 'revisions',
  in_flight_revision_id: 'revisions',
  waiting_revision_id: 'revisions',
  from_revision_id: 'revisions',
  provider_id: 'oauth_providers',
  integration_id: 'integrations',
  preview_id: 'previews',
  actor_id: 'api_keys',
  key_id: 'api_keys',
  owner_id: 'api_keys',
  created_by: 'api_keys',
  made_by_key: 'api_keys',
  granted_by: 'api_keys',
  trusted_issuer_id: 'trusted_issuers',
  approved_by: 'api_keys',
  session_id: 'projects',
  rule_id: 'run_rules',
  queue_id: 'annotation_queues',
  item_id: 'annotation_queue_items',
  reviewer_id: 'api_keys',
  add_to_annotation_queue_id: 'annotation_queues',
  add_to_dataset_id: 'datasets',
  default_dataset_id: 'datasets',
  reference_dataset_id: 'datasets',
  job_id: 'insight_jobs',
  'job_lines.job_id': 'jobs',
  schedule_id: 'schedules',
  config_id: 'insight_configs',
  cluster_id: 'insight_clusters',
  'insight_clusters.parent_id': 'insight_clusters',
  'preview_policies.id': 'deployments',
  'run_rules.evaluator_id': 'evaluators',
  'access_rules.access_policy_id': 'role_access_policies',
}
/** Ids that are not references, and why the id of another tenant does no harm there. */
const NO_REFERENCE: Record<string, string> = {
  'events.subject_id': 'a text in the journal of the tenant that writes it, which no query follows',
  'datasets.share_token': 'a random number',
  'examples.source_run_id': 'only shown: where the example came from',
  'examples.object_ids': 'paths of objects begin with the workspace of the row',
  'model_usage.configuration_id': 'written by the database',
  'rule_applications.run_id': 'only shown, and compared with runs of the own workspace',
  'rule_applications.run_session_id': 'only shown',
  'rule_applications.delivery_ids': 'looked up among the deliveries of the same rule',
  'rule_deliveries.target_id': 'looked up among the webhooks of the same rule',
  'rule_evaluations.evaluator_id': 'looked up among the evaluators of the same rule',
  'rule_evaluations.run_id': 'looked up within the tenant',
  'rule_evaluations.call_run_id': 'only shown',
  'rule_deliveries.run_ids': 'looked up among the runs of the own workspace',
  'finished_runs.run_id': 'written by a trigger of the run',
  'finished_runs.trace_id': 'written by a trigger of the run',
  'run_rules.backfill_id': 'a random number',
  'api_keys.budget_id': 'overwritten by a trigger',
  'alert_signals.subject_id': 'written by the database',
  'alert_states.subject_id': 'written by the database',
  'incidents.subject_id': 'written by the database',
  'drain_states.epoch': 'chosen by an agent for its own counts',
  'jobs.stream': 'chosen by an agent for its own numbering',
  'logs.stream': 'chosen by an agent for its own numbering',
  'run_shares.share_token': 'a random number',
  'thread_shares.share_token': 'a random number',
  'run_shares.run_id': 'looked up within the tenant',
  'run_shares.trace_id': 'looked up within the tenant',
  ...Object.fromEntries(
    [
      'runs.trace_id',
      'runs.parent_run_id',
      'runs.reference_example_id',
      'upgraded_traces.trace_id',
      'trace_objects.trace_id',
      'trace_objects.run_id',
      'waiting_patches.run_id',
    ].map(name => [name, 'chosen by a client, and looked up within the tenant']),
  ),
  'insight_jobs.summary_configuration_id': 'looked up within the tenant',
  'insight_jobs.cluster_configuration_id': 'looked up within the tenant',
  'insight_runs.run_id': 'looked up within the tenant',
  'insight_steps.run_id': 'only shown',
  'comparative_experiments.experiment_ids': 'looked up within the tenant',
  'annotation_queues.reviewer_ids': 'compared with the id of the caller',
  'annotation_queue_items.run_id': 'looked up within the tenant',
  'annotation_queue_items.trace_id': 'looked up within the tenant',
  'annotation_queue_items.source_proposed_example_id': 'only shown',
  'feedbacks.run_id': 'the run may arrive later, and is looked up within the tenant',
  'feedbacks.trace_id': 'the run may arrive later, and is looked up within the tenant',
  'feedbacks.feedback_group_id': 'chosen by a client for its own numbering',
  'feedbacks.comparative_experiment_id': 'looked up within the tenant',
  'feedback_tokens.feedback_id': 'looked up within the tenant, and made by the database',
  'deploy_hooks.last_revision_id': 'written by the database, and looked up within the tenant',
  'feedback_tokens.run_id': 'the run may arrive later, and is looked up within the tenant',
  'open_runs.trace_id': 'an id of the client, looked up within the tenant',
  'open_runs.parent_run_id': 'an id of the client, looked up within the tenant',
  'otlp_spans.trace': 'an id of OpenTelemetry',
  'otlp_spans.span': 'an id of OpenTelemetry',
  'otlp_spans.parent': 'an id of OpenTelemetry',
  'otlp_spans.run_id': 'made from the ids of OpenTelemetry, and looked up within the tenant',
}
/** Values for columns that a check constraint limits. */
const SAMPLES: Record<string, unknown> = {
  scope: 'workspace',
  // A revoked key cannot create other keys.
  revoked_at: null,
  trace_tier: 'shortlived',
  default_trace_tier: 'shortlived',
  longlived_ttl_days: 400,
  source_type: 'api',
  'annotation_queues.reviewer_access_mode': 'any',
  'annotation_queue_items.thread_id': null,
  'annotation_queue_reviews.status': 'viewed',
  'filter_views.type': 'runs',
  'insight_jobs.status': 'queued',
  'insight_jobs.method': 'lexical',
  'insight_steps.state': 'waiting',
  'model_configurations.provider': 'openai',
  'model_configurations.auth_type': 'none',
  'model_proxy_settings.allowed_urls': 'all',
  'model_budgets.period': 'day',
  'deployments.incidents': '[]',
  'drains.kind': 'otlp',
  'access_policies.effect': 'allow',
  'access_policies.condition_groups': '[]',
}
/** Tables that others refer to. Their rows are inserted first. */
const BASE_TABLES = [
  'organizations',
  'workspaces',
  'roles',
  'members',
  'listeners',
  'api_keys',
  'deployments',
  'revisions',
  'datasets',
  'projects',
  'annotation_queues',
  'annotation_queue_items',
]
const ROLES = ['slipway_app', 'slipway_agent'] as const
const REFUSED = ['42501', '23503']

type Column = { table: string; name: string; type: string; isGenerated: boolean; isKey: boolean }
/** The id of one row in each table. */
type Tenant = Record<string, string>

let databaseUrl: string
let admin: pg.Client
let columns: Column[]
const tenant: Tenant = {}
const otherTenant: Tenant = {}

const isId = ({ type, name, table }: Column) =>
  (type === 'uuid' || type === 'uuid[]') && (name !== 'id' || `${table}.id` in REFERENCED_TABLES)
const referencedTable = ({ table, name }: Column) => REFERENCED_TABLES[`${table}.${name}`] ?? REFERENCED_TABLES[name]
const isReference = (column: Column) => isId(column) && referencedTable(column) !== undefined
const columnsOf = (table: string) => columns.filter(column => column.table === table)

/** The first column of the primary key. */
const keyOf = (table: string) => columnsOf(table).find(({ isKey }) => isKey)!.name

let sampleCount = 0
/** A valid value for the column. For a reference, the id of the owner's row. */
function makeSample(column: Column, owner: Tenant): unknown {
  sampleCount++
  const id = () => owner[referencedTable(column) ?? ''] ?? null
  for (const name of [`${column.table}.${column.name}`, column.name]) if (name in SAMPLES) return SAMPLES[name]
  switch (column.type) {
    case 'uuid':
      return isReference(column) ? id() : crypto.randomUUID()
    case 'uuid[]':
      return id() === null ? [] : [id()]
    case 'text':
      return `text-${sampleCount}`
    case 'text[]':
    case 'integer[]':
      return []
    case 'json':
    case 'jsonb':
      return '{}'
    case 'boolean':
      return false
    default:
      return /^(integer|bigint|numeric|double)/.test(column.type) ? sampleCount : new Date()
  }
}

const insertOf = (table: string, row: Record<string, unknown>) => {
  const names = Object.keys(row)
  return {
    text: `insert into ${table} (${names.map(name => `"${name}"`)}) values (${names.map((_, i) => `$${i + 1}`)})`,
    values: Object.values(row),
  }
}

const makeRow = (table: string, owner: Tenant) =>
  Object.fromEntries(columnsOf(table).map(column => [column.name, makeSample(column, owner)]))

beforeAll(async () => {
  databaseUrl = await createMigratedDatabase()
  admin = await connect(databaseUrl)
  const { rows } = await admin.query<Column>(`
    select c.relname as table, a.attname as name, format_type(a.atttypid, null) as type,
      a.attgenerated <> '' as "isGenerated",
      exists (
        select from pg_index i where i.indrelid = c.oid and i.indisprimary and a.attnum = any(i.indkey)
      ) as "isKey"
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    order by c.relname, a.attnum`)
  columns = rows.filter(({ isGenerated }) => !isGenerated)
  const tables = [...new Set(columns.map(({ table }) => table))]
  const otherTables = tables.filter(table => !BASE_TABLES.includes(table)).sort((a, b) => depthOf(a) - depthOf(b))
  for (const owner of [tenant, otherTenant]) {
    for (const table of [...BASE_TABLES, ...otherTables]) {
      const row = makeRow(table, owner)
      const { text, values } = insertOf(table, row)
      // Triggers have already inserted some rows.
      await admin.query(`${text} on conflict do nothing`, values)
      owner[table] = String(row[keyOf(table)])
    }
    // References of the base tables to each other.
    for (const column of columns.filter(column => BASE_TABLES.includes(column.table))) {
      if (!isReference(column) || column.isKey) continue
      const value = makeSample(column, owner)
      await admin.query(`update ${column.table} set "${column.name}" = $1 where id = $2`, [value, owner[column.table]])
    }
    // The key of a job or of a connected client opens no session.
    await admin.query('update api_keys set trusted_issuer_id = null')
    await admin.query('update oauth_grants set key_id = null')
  }
})

/** A table has a greater depth than the tables that it refers to. */
const depthOf = (table: string): number =>
  1 +
  Math.max(
    0,
    ...columnsOf(table)
      .filter(isId)
      .map(referencedTable)
      .filter(target => target !== undefined && target !== table && !BASE_TABLES.includes(target))
      .map(target => depthOf(target!)),
  )

afterAll(async () => {
  await admin.end()
})

/** Runs a statement as a request of `tenant` would, and rolls it back. Returns the row count or the error code. */
async function runAs(role: (typeof ROLES)[number], hasWorkspace: boolean, statement: pg.QueryConfig, before?: string) {
  await admin.query('begin')
  try {
    if (before) await admin.query(before)
    const settings = {
      organization_id: tenant.organizations!,
      tenant_id: hasWorkspace ? tenant.workspaces! : '',
      actor_id: tenant.api_keys!,
      listener_id: role === 'slipway_agent' ? tenant.listeners! : '',
    }
    for (const [name, value] of Object.entries(settings))
      await admin.query('select set_config($1, $2, true)', [`app.${name}`, value])
    await admin.query(`set local role ${role}`)
    return (await admin.query(statement)).rowCount ?? 0
  } catch (error) {
    return (error as pg.DatabaseError).code!
  } finally {
    await admin.query('rollback')
  }
}

const hasPrivilege = async (role: string, table: string, privilege: string): Promise<boolean> =>
  (await admin.query('select has_any_column_privilege($1, $2, $3) as granted', [role, table, privilege])).rows[0]
    .granted

const isTenantRow = (table: string) => `"${keyOf(table)}" = '${tenant[table]}'`
/** A table may allow only one row per parent. Then the second row would be refused for that reason alone. */
const deleteExisting = (table: string) =>
  Object.values(REFERENCED_TABLES).includes(table) && table !== 'role_access_policies'
    ? undefined
    : `delete from ${table} where ${isTenantRow(table)}`

it('for every id column this test knows the table that it refers to', () => {
  const unknown = columns
    .filter(isId)
    .filter(column => !isReference(column) && !(`${column.table}.${column.name}` in NO_REFERENCE))
    .filter(({ table }) => !['sync_items', 'sync_cursors', 'attempt_windows', 'rate_windows'].includes(table))
  expect(unknown.map(({ table, name }) => `${table}.${name}`)).toEqual([])
})

describe.each(ROLES)('the role %s', role => {
  it('cannot insert a row with an id of another tenant', async () => {
    const inserted: string[] = []
    for (const table of new Set(columns.map(({ table }) => table))) {
      if (!(await hasPrivilege(role, table, 'insert'))) continue
      const outcomes = []
      for (const hasWorkspace of [true, false])
        outcomes.push(await runAs(role, hasWorkspace, insertOf(table, makeRow(table, tenant)), deleteExisting(table)))
      expect(outcomes, `${table}: a row of the own tenant is inserted`).toContain(1)
      for (const column of columnsOf(table).filter(isReference))
        for (const hasWorkspace of [true, false]) {
          const row = { ...makeRow(table, tenant), [column.name]: makeSample(column, otherTenant) }
          const outcome = await runAs(role, hasWorkspace, insertOf(table, row), deleteExisting(table))
          if (!REFUSED.includes(String(outcome))) inserted.push(`${table}.${column.name}: ${outcome}`)
        }
    }
    expect(inserted).toEqual([])
  })

  it('cannot update a row to an id of another tenant', async () => {
    const updated: string[] = []
    for (const column of columns.filter(isReference)) {
      const { table, name } = column
      if (!(await hasPrivilege(role, table, 'update'))) continue
      for (const hasWorkspace of [true, false]) {
        const text = `update ${table} set "${name}" = $1 where ${isTenantRow(table)}`
        const outcome = await runAs(role, hasWorkspace, { text, values: [makeSample(column, otherTenant)] })
        const isHidden = outcome === 0 && !hasWorkspace
        if (!REFUSED.includes(String(outcome)) && !isHidden) updated.push(`${table}.${name}: ${outcome}`)
      }
    }
    expect(updated).toEqual([])
  })
})
