// Tables of model calls: the configurations of a workspace, the settings of the proxy, usage and budgets.
import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  check,
  date,
  doublePrecision,
  index,
  integer,
  json,
  pgTable,
  text,
  unique,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core'
import { deployments } from '../../hosting/deployments/tables.ts'
import { idColumn, instantColumn, newestFirstColumns, versionedColumns } from '../../kernel/db/columns.ts'
import { organizations, tenantColumns } from '../../people/access/tables.ts'

export const modelProviders = ['openai', 'anthropic', 'openai_compatible'] as const
export const modelAuthTypes = ['none', 'secret', 'jwt', 'oauth_client_credentials'] as const
export const allowedUrlModes = ['configurations', 'all', 'none', 'list'] as const
export const budgetPeriods = ['day', 'week', 'month'] as const

export const modelConfigurations = pgTable(
  'model_configurations',
  {
    id: idColumn(),
    ...tenantColumns(),
    name: text().notNull(),
    provider: text({ enum: modelProviders }).notNull(),
    base_url: text().notNull(),
    model: text().notNull(),
    auth_type: text({ enum: modelAuthTypes }).notNull(),
    /** Sealed under the id: the key of the provider, or the secret of the OAuth client. */
    secret: text(),
    token_url: text(),
    client_id: text(),
    scope: text(),
    audience: text(),
    /** USD for a million tokens. */
    input_price: doublePrecision(),
    output_price: doublePrecision(),
    /** The name of the project that calls are traced in. Null: they are not traced. */
    trace_project: text(),
    /** The deployments that may use it. Null: all of the workspace. */
    deployment_ids: uuid().array(),
    last_test: json().$type<Record<string, unknown>>(),
    ...versionedColumns(),
  },
  t => [
    uniqueIndex('model_exists').on(t.tenant_id, sql`lower(name)`),
    index('model_configurations_page').on(t.tenant_id, ...newestFirstColumns(t)),
    check('model_configurations_provider', sql`${t.provider} in ('openai', 'anthropic', 'openai_compatible')`),
    check('model_configurations_auth', sql`${t.auth_type} in ('none', 'secret', 'jwt', 'oauth_client_credentials')`),
  ],
)

/** No row means the defaults. */
export const modelProxySettings = pgTable(
  'model_proxy_settings',
  {
    organization_id: uuid()
      .primaryKey()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    enabled: boolean().notNull().default(true),
    /** The audience of tokens. Null: the origin of the called URL. */
    audience: text(),
    allowed_urls: text({ enum: allowedUrlModes }).notNull().default('configurations'),
    patterns: text().array().notNull().default(sql`'{}'`),
    ...versionedColumns(),
  },
  t => [
    check('model_proxy_settings_allowed_urls', sql`${t.allowed_urls} in ('configurations', 'all', 'none', 'list')`),
  ],
)

/** It outlives the configurations and deployments that it names. Written by `record_model_call()`. */
export const modelUsage = pgTable(
  'model_usage',
  {
    id: idColumn(),
    ...tenantColumns(),
    day: date().notNull(),
    configuration_id: uuid().notNull(),
    configuration_name: text().notNull(),
    deployment_id: uuid(),
    actor_kind: text().notNull(),
    calls: bigint({ mode: 'number' }).notNull().default(0),
    failed: bigint({ mode: 'number' }).notNull().default(0),
    input_tokens: bigint({ mode: 'number' }).notNull().default(0),
    output_tokens: bigint({ mode: 'number' }).notNull().default(0),
    /** Null: no call had a price. */
    cost_usd: doublePrecision(),
  },
  t => [
    unique('model_usage_one')
      .on(t.tenant_id, t.day, t.configuration_id, t.deployment_id, t.actor_kind)
      .nullsNotDistinct(),
    index('model_usage_day').on(t.day),
  ],
)

/** Taken by `take_model_call()`, and charged by `record_model_call()`. */
export const modelBudgets = pgTable(
  'model_budgets',
  {
    id: idColumn(),
    ...tenantColumns(),
    /** Null: of all calls of the workspace. */
    deployment_id: uuid().references(() => deployments.id, { onDelete: 'cascade' }),
    period: text({ enum: budgetPeriods }).notNull(),
    limit_usd: doublePrecision(),
    limit_tokens: bigint({ mode: 'number' }),
    limit_calls: bigint({ mode: 'number' }),
    /** Spending belongs to the period that began then. */
    period_start: instantColumn().notNull(),
    spent_usd: doublePrecision().notNull().default(0),
    spent_tokens: bigint({ mode: 'number' }).notNull().default(0),
    spent_calls: bigint({ mode: 'number' }).notNull().default(0),
    /** The share in percent that an event has told of: 0, 80 or 100. */
    told_percent: integer().notNull().default(0),
    ...versionedColumns(),
  },
  t => [
    check('model_budgets_period', sql`${t.period} in ('day', 'week', 'month')`),
    check('model_budgets_limits', sql`num_nonnulls(${t.limit_usd}, ${t.limit_tokens}, ${t.limit_calls}) >= 1`),
    unique('model_budget_exists').on(t.tenant_id, t.deployment_id, t.period).nullsNotDistinct(),
    index('model_budgets_page').on(t.tenant_id, ...newestFirstColumns(t)),
    index('model_budgets_deployment').on(t.deployment_id),
  ],
)
