// Tables of webhooks: the endpoints of a workspace, and their deliveries.

import { sql } from 'drizzle-orm'
import { bigint, boolean, index, integer, json, pgTable, text, unique, uuid } from 'drizzle-orm/pg-core'
import {
  createdAtColumn,
  idColumn,
  instantColumn,
  newestFirstColumns,
  parentTenantColumns,
  versionedColumns,
} from '../../kernel/db/columns.ts'
import { tenantColumns } from '../../people/access/tables.ts'

/** Secrets and the signing key are sealed under the row's id. */
export const webhooks = pgTable(
  'webhooks',
  {
    id: idColumn(),
    ...tenantColumns(),
    url: text().notNull(),
    description: text().notNull(),
    event_types: text().array().notNull(),
    deployment_ids: uuid().array().notNull(),
    tag_value_ids: uuid().array().notNull(),
    enabled: boolean().notNull().default(true),
    secret: text().notNull(),
    /** Signs beside the current one until that time. */
    previous_secret: text(),
    previous_secret_until: instantColumn(),
    signing_key: text().notNull(),
    public_key: text().notNull(),
    /** The number of the last event of the workspace for which the deliveries are stored. */
    position: bigint({ mode: 'number' }).notNull(),
    /** The first failure since the last success. */
    failing_since: instantColumn(),
    disabled_reason: text({ enum: ['gone', 'failing'] }),
    disabled_at: instantColumn(),
    /** Attempts in a row that the receiver was too slow or too busy for. */
    throttled: integer().notNull().default(0),
    /** The end of the current worker's lease, or of the pause that the receiver gets. */
    next_send_at: createdAtColumn(),
    owner: text(),
    ...versionedColumns(),
  },
  t => [index('webhooks_page').on(t.tenant_id, ...newestFirstColumns(t))],
)

export const deliveryStates = ['waiting', 'delivered', 'failed'] as const

export const webhookDeliveries = pgTable(
  'webhook_deliveries',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    webhook_id: uuid()
      .notNull()
      .references(() => webhooks.id, { onDelete: 'cascade' }),
    /** The number of the event in the journal of the workspace. */
    seq: bigint({ mode: 'number' }).notNull(),
    type: text().notNull(),
    /** The deployment that the event is about, as it was when the delivery was stored. */
    deployment: json(),
    state: text({ enum: deliveryStates }).notNull().default('waiting'),
    attempts: integer().notNull().default(0),
    /** The end of the current worker's lease, or the time of the next attempt. */
    next_attempt_at: instantColumn(),
    /** These describe the last attempt. */
    attempted_at: instantColumn(),
    request_headers: json().$type<Record<string, string>>(),
    answer_status: integer(),
    answer_body: text(),
    duration_ms: integer(),
    error: text(),
    created_at: createdAtColumn(),
  },
  t => [
    unique('webhook_deliveries_one').on(t.webhook_id, t.seq),
    index('webhook_deliveries_retries').on(t.webhook_id, t.next_attempt_at).where(sql`state = 'waiting'`),
    index('webhook_deliveries_new').on(t.webhook_id, t.seq).where(sql`state = 'waiting' and attempts = 0`),
    index('webhook_deliveries_page').on(t.webhook_id, ...newestFirstColumns(t)),
    index('webhook_deliveries_age').using('brin', t.created_at),
  ],
)
