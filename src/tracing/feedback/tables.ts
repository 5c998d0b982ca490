// Tables of feedback on runs and projects, the configs of its keys, and links that take it without a key.
import { sql } from 'drizzle-orm'
import { boolean, index, json, numeric, pgTable, primaryKey, text, unique, uuid } from 'drizzle-orm/pg-core'
import {
  actorNameColumn,
  createdAtColumn,
  idColumn,
  instantColumn,
  parentTenantColumns,
} from '../../kernel/db/columns.ts'
import { tenantColumns } from '../../people/access/tables.ts'

/** Feedback on a run, or on a whole project where `run_id` is null. It may arrive before its run. */
export const feedbacks = pgTable(
  'feedbacks',
  {
    ...parentTenantColumns(),
    id: uuid().notNull(),
    run_id: uuid(),
    trace_id: uuid(),
    session_id: uuid(),
    /** The start of the run. */
    start_time: instantColumn(),
    /** True if the run was found: then `trace_id` and `session_id` are its own. */
    is_attached: boolean().notNull(),
    key: text().notNull(),
    score: numeric({ precision: 14, scale: 4 }),
    /** JSON as the client sent it, like `correction` and `source_metadata`. */
    value: text(),
    /** `value` if it is a short text. Statistics count them. */
    category: text(),
    comment: text(),
    correction: text(),
    source_type: text({ enum: ['api', 'model', 'app', 'auto_eval'] }).notNull(),
    source_metadata: text(),
    /** Null if it came by a link. */
    actor_id: uuid().default(sql`current_actor()`),
    actor_name: actorNameColumn(),
    feedback_group_id: uuid(),
    comparative_experiment_id: uuid(),
    is_error: boolean().notNull().default(false),
    extends_retention: boolean().notNull(),
    is_upgraded: boolean().notNull().default(false),
    created_at: createdAtColumn(),
    modified_at: createdAtColumn(),
    received_at: createdAtColumn(),
  },
  t => [
    primaryKey({ columns: [t.tenant_id, t.id] }),
    index('feedbacks_page').on(t.tenant_id, t.created_at.desc().nullsFirst(), t.id.desc().nullsFirst()),
    index('feedbacks_run').on(t.tenant_id, t.run_id),
    index('feedbacks_session').on(t.tenant_id, t.session_id, t.created_at),
    index('feedbacks_waiting').on(t.tenant_id, t.run_id).where(sql`not is_attached`),
    index('feedbacks_to_upgrade').on(t.received_at).where(sql`extends_retention and is_attached and not is_upgraded`),
    index('feedbacks_unattached').on(t.received_at).where(sql`not is_attached`),
    index('feedbacks_age').on(t.received_at),
  ],
)

export const feedbackConfigs = pgTable(
  'feedback_configs',
  {
    id: idColumn(),
    ...tenantColumns(),
    key: text().notNull(),
    /** A `FeedbackConfig`. */
    config: json().notNull(),
    is_lower_score_better: boolean().notNull().default(false),
    modified_at: createdAtColumn(),
  },
  t => [unique('feedback_configs_key').on(t.tenant_id, t.key)],
)

/** The id is the secret of the link. */
export const feedbackTokens = pgTable(
  'feedback_tokens',
  {
    id: idColumn(),
    /** The id of the feedback that the link stores. Readers of feedback see it. */
    feedback_id: uuid().notNull().defaultRandom(),
    ...parentTenantColumns(),
    run_id: uuid().notNull(),
    key: text().notNull(),
    created_at: createdAtColumn(),
    expires_at: instantColumn().notNull(),
  },
  t => [
    index('feedback_tokens_run').on(t.tenant_id, t.run_id, t.created_at.desc().nullsFirst(), t.id.desc().nullsFirst()),
    index('feedback_tokens_age').on(t.expires_at),
  ],
)
