// Creates, reads, changes and deletes alert rules, and the switch of the built-in ones.
import { and, eq, getTableColumns, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { bumpVersion, db, inTenant, lockRows, refuseUnless, run, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { hasOnlyKnownIds } from '../../kernel/db/known-ids.ts'
import {
  changedMembers,
  createdMembers,
  deletedMembers,
  type RecordedMembers,
  recordColumns,
} from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime, withoutNulls } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { verb } from '../../kernel/http/context.ts'
import { afterCursor, hasName, newestFirst, readPage } from '../../kernel/http/paging.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import type { StoredCondition } from '../../protocol/alerts.schema.ts'
import { RUN_FIELDS } from '../../tracing/runs/filter/fields.ts'
import { readFilters } from '../../tracing/runs/filter/resolve.ts'
import type * as schema from './schema.ts'
import { alertRules, alertSettings } from './tables.ts'

type RuleParams = z.output<typeof schema.AlertRuleRef>
type RuleRow = typeof alertRules.$inferSelect & { is_active: boolean }

const IS_ACTIVE = sql<boolean>`is_alert_rule_active(alert_rules)`
const RULE_COLUMNS = { ...getTableColumns(alertRules), is_active: IS_ACTIVE.as('is_active') }

const toWire = (row: RuleRow): schema.AlertRule & { [etagVersion]: number } => ({
  id: row.id,
  name: row.name,
  built_in: row.built_in,
  enabled: row.enabled,
  is_active: row.is_active,
  condition: row.condition,
  deployment_ids: row.deployment_ids,
  tag_value_ids: row.tag_value_ids,
  for_seconds: row.for_seconds,
  resolve_after_seconds: row.resolve_after_seconds,
  severity: row.severity,
  channel_ids: row.channel_ids,
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

const RECORD: RecordedMembers = recordColumns(alertRules, [
  'name',
  'enabled',
  'condition',
  'deployment_ids',
  'tag_value_ids',
  'for_seconds',
  'resolve_after_seconds',
  'severity',
  'channel_ids',
])

const isRule = ({ alert_rule_id }: RuleParams | Placeholders<RuleParams>): SQL =>
  and(eq(alertRules.id, alert_rule_id), inTenant(alertRules))!
const lockRule = (ref: RuleParams): SQL => lockRows(alertRules, isRule(ref))

const RESOLVE_AFTER_S = { metric: 300, log: 600, trace: 600 }
/** Events of one kind are the end of others. Without them, only time is. */
const ENDED_EVENT_S = 60
const UNENDED_EVENT_S = 1800
const defaultResolveAfter = (condition: StoredCondition): number =>
  condition.kind === 'event'
    ? condition.ends.length > 0
      ? ENDED_EVENT_S
      : UNENDED_EVENT_S
    : RESOLVE_AFTER_S[condition.kind]

/** Throws if the filter cannot be read. */
function requireUsable(condition: StoredCondition | null | undefined): void {
  if (condition?.kind === 'trace') readFilters({ filter: condition.filter }, RUN_FIELDS)
}

const projectOf = (condition: StoredCondition | null | undefined): string | null =>
  condition?.kind === 'trace' ? condition.project_id : null

/** A channel that a person keeps, or that an automation rule made, belongs to no alert rule. */
const IS_SHARED_CHANNEL = sql`k.member_id is null and k.run_rule_id is null`

type Named = Pick<schema.AlertRulePatch, 'condition' | 'deployment_ids' | 'tag_value_ids' | 'channel_ids'>
const hasKnownParts = ({ condition, deployment_ids, tag_value_ids, channel_ids }: Named): SQL => {
  const project = projectOf(condition)
  return and(
    hasOnlyKnownIds('deployment_not_found', sql`deployments`, deployment_ids ?? []),
    hasOnlyKnownIds('tag_value_not_found', sql`tag_values`, tag_value_ids ?? []),
    hasOnlyKnownIds('channel_not_found', sql`channels`, channel_ids ?? [], IS_SHARED_CHANNEL),
    hasOnlyKnownIds('project_not_found', sql`projects`, project === null ? [] : [project]),
  )!
}

type RulePage = z.output<typeof schema.AlertRuleQuery>
const pageStatement = prepareStatement((page: Placeholders<RulePage>) =>
  db
    .select(RULE_COLUMNS)
    .from(alertRules)
    .where(
      and(
        inTenant(alertRules),
        hasName(alertRules.name, { name: page.name }),
        page.kind && sql`${alertRules.kind} = ${page.kind}`,
        afterCursor(alertRules, page),
      ),
    )
    .orderBy(...newestFirst(alertRules))
    .limit(page.limit)
    .offset(page.offset),
)

export const listAlertRules = verb('alerts:read', (ctx, page: RulePage) => readPage(ctx, pageStatement, page, toWire))

const ruleStatement = prepareStatement((ref: Placeholders<RuleParams>) =>
  db.select(RULE_COLUMNS).from(alertRules).where(isRule(ref)),
)

export const readAlertRule = verb('alerts:read', async (ctx, ref: RuleParams) =>
  toWire(requireRow(await run(ctx, ruleStatement(ref)), 'alert_rule_not_found')),
)

export const createAlertRule = verb('alerts:manage', async (ctx, input: schema.NewAlertRule) => {
  const { condition, resolve_after_seconds, ...members } = input
  requireUsable(condition)
  const change = db
    .insert(alertRules)
    .values({
      ...members,
      organization_id: sql`current_organization()`,
      tenant_id: sql`case when ${hasKnownParts(input)} then current_tenant() end`,
      kind: condition.kind,
      condition,
      project_id: projectOf(condition),
      resolve_after_seconds: resolve_after_seconds ?? defaultResolveAfter(condition),
      next_look_at: condition.kind === 'trace' ? sql`clock()` : null,
    })
    .returning(RULE_COLUMNS)
  const parts = { lock: LOCK_WORKSPACE, changes: createdMembers(RECORD) }
  const rows = await commit(ctx, 'alert_rule.created', change, {}, parts)
  return toWire(requireRow(rows, 'workspace_not_found'))
})

/** Locks the workspace before the journal: deleting the workspace meanwhile could deadlock otherwise. */
const LOCK_WORKSPACE = sql`select from workspaces w where w.id = current_tenant() for key share`

/** The kind of the condition decides what the rule has seen, and its project who may see it. */
const keepsKind = (condition: StoredCondition): SQL =>
  refuseUnless(
    'alert_rule_kind_fixed',
    sql`alert_rules.kind = ${condition.kind}
      and alert_rules.project_id is not distinct from ${projectOf(condition)}::uuid`,
  )

export const changeAlertRule = verb(
  'alerts:manage',
  async (ctx, { alert_rule_id, ...patch }: RuleParams & schema.AlertRulePatch) => {
    requireUsable(patch.condition)
    const changed = withoutNulls(patch)
    const scoped = [...(changed.deployment_ids ?? []), ...(changed.tag_value_ids ?? [])]
    const change = db
      .update(alertRules)
      .set({ ...changed, ...bumpVersion(alertRules) })
      .where(
        and(
          isRule({ alert_rule_id }),
          versionMatches(ctx, alertRules),
          changed.condition && keepsKind(changed.condition),
          scoped.length > 0 ? refuseUnless('alert_scope_unused', sql`alert_rules.kind <> 'trace'`) : undefined,
          hasKnownParts(changed),
        ),
      )
      .returning(RULE_COLUMNS)
    const parts = { lock: lockRule({ alert_rule_id }), changes: changedMembers(alertRules, RECORD) }
    const rows = await commit(ctx, 'alert_rule.updated', change, { supplied: Object.keys(changed) }, parts)
    return toWire(requireRow(rows, 'alert_rule_not_found'))
  },
)

export const deleteAlertRule = verb('alerts:manage', async (ctx, ref: RuleParams) => {
  const change = db
    .delete(alertRules)
    .where(
      and(
        isRule(ref),
        versionMatches(ctx, alertRules),
        refuseUnless('alert_rule_built_in', sql`alert_rules.built_in is null`),
      ),
    )
    .returning()
  const data = sql`json_build_object('resolved_incidents', resolve_incidents_of_rule(changed.id))`
  const parts = { lock: lockRule(ref), changes: deletedMembers(RECORD) }
  requireRow(await commit(ctx, 'alert_rule.deleted', change, data, parts), 'alert_rule_not_found')
})

// ---- settings

/** Channels that are told where a rule names none. */
const DEFAULT_CHANNELS = sql`default_channel_count()`

type SettingsRow = [defaults_enabled: boolean, default_channels: string]
const SETTINGS = sql`
  select coalesce(s.defaults_enabled, true), ${DEFAULT_CHANNELS}
  from (select) one
  left join alert_settings s on s.tenant_id = current_tenant()`

export const readAlertSettings = verb('alerts:read', async (ctx): Promise<schema.AlertSettings> => {
  const [[defaults_enabled, default_channels]] = (await run(ctx, SETTINGS)) as [SettingsRow]
  return { defaults_enabled, default_channels: Number(default_channels) }
})

export const changeAlertSettings = verb(
  'alerts:manage',
  async (ctx, { defaults_enabled }: schema.AlertSettingsPatch): Promise<schema.AlertSettings> => {
    const change = db
      .insert(alertSettings)
      .values({
        id: sql`current_tenant()`,
        organization_id: sql`current_organization()`,
        tenant_id: sql`current_tenant()`,
        defaults_enabled,
      })
      .onConflictDoUpdate({
        target: alertSettings.tenant_id,
        set: { defaults_enabled, ...bumpVersion(alertSettings) },
      })
      .returning({ ...getTableColumns(alertSettings), default_channels: DEFAULT_CHANNELS.as('default_channels') })
    const parts = {
      lock: [LOCK_WORKSPACE, lockRows(alertSettings, inTenant(alertSettings))],
      changes: changedMembers(alertSettings, recordColumns(alertSettings, ['defaults_enabled'])),
    }
    const rows = await commit(ctx, 'alert_settings.updated', change, {}, parts)
    const row = requireRow(rows, 'workspace_not_found')
    return { defaults_enabled: row.defaults_enabled, default_channels: Number(row.default_channels) }
  },
)
