// Tables of channels: the places where people are told, and the notices for them.
import { sql } from 'drizzle-orm'
import { bigint, boolean, index, integer, jsonb, pgTable, text, unique, uuid } from 'drizzle-orm/pg-core'
import {
  createdAtColumn,
  idColumn,
  instantColumn,
  newestFirstColumns,
  parentTenantColumns,
  versionedColumns,
} from '../../kernel/db/columns.ts'
import { members, tenantColumns } from '../../people/access/tables.ts'
import {
  channelKinds,
  deployChoices,
  disabledReasons,
  type NoticeContent,
  noticePhases,
  noticeStates,
  type severities,
} from '../../protocol/notice.schema.ts'
import { runRules } from '../../tracing/rules/tables.ts'

/** Members without secrets, by the kind of the channel. An alert of a rule has words of its own. */
export type ChannelConfig = {
  address?: string
  slack_channel?: string
  region?: 'us' | 'eu'
  url?: string
  summary?: string
  severity?: (typeof severities)[number]
}

export const channels = pgTable(
  'channels',
  {
    id: idColumn(),
    ...tenantColumns(),
    name: text().notNull(),
    kind: text({ enum: channelKinds }).notNull(),
    /** The person whose own channel it is. Others do not see it. */
    member_id: uuid().references(() => members.id, { onDelete: 'cascade' }),
    /** The automation rule whose alert it is. Lists leave it out. */
    run_rule_id: uuid().references(() => runRules.id, { onDelete: 'cascade' }),
    config: jsonb().$type<ChannelConfig>().notNull(),
    /** `ChannelCredentials` as JSON, sealed under the row's id. */
    credentials: text().notNull(),
    deploys: text({ enum: deployChoices }).notNull().default('none'),
    /** Alerts that name no channel are told here. */
    is_default: boolean().notNull().default(false),
    enabled: boolean().notNull().default(true),
    /** Null while the owner of an address has not agreed to e-mails. */
    confirmed_at: instantColumn().default(sql`clock()`),
    confirmation_hash: text().unique('channels_confirmation'),
    confirmation_expires_at: instantColumn(),
    /** The hash of the token with which every e-mail can end the channel. */
    unsubscribe_hash: text().unique('channels_unsubscribe'),
    /** The number of the last event of the workspace that was looked at for deploy notifications. */
    position: bigint({ mode: 'number' }).notNull().default(0),
    /** The first failure since the last success. */
    failing_since: instantColumn(),
    disabled_reason: text({ enum: disabledReasons }),
    disabled_at: instantColumn(),
    /** Attempts in a row that the receiver was too slow or too busy for. */
    throttled: integer().notNull().default(0),
    /** The end of the current worker's lease, or of the pause that the receiver gets. */
    next_send_at: createdAtColumn(),
    /** These describe the last attempt. A null error is a success. */
    attempted_at: instantColumn(),
    last_error: text(),
    ...versionedColumns(),
  },
  t => [
    unique('channel_name_taken').on(t.tenant_id, t.member_id, t.run_rule_id, t.name).nullsNotDistinct(),
    index('channels_page').on(t.tenant_id, ...newestFirstColumns(t)),
    index('channels_member').on(t.member_id),
    index('channels_run_rule').on(t.run_rule_id),
  ],
)

export const notices = pgTable(
  'notices',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    channel_id: uuid()
      .notNull()
      .references(() => channels.id, { onDelete: 'cascade' }),
    /** Notices of one thread are one conversation at the receiver. They are sent in their order. */
    thread: text().notNull(),
    sequence: bigint({ mode: 'number' }).notNull(),
    phase: text({ enum: noticePhases }).notNull(),
    content: jsonb().$type<NoticeContent>().notNull(),
    state: text({ enum: noticeStates }).notNull().default('waiting'),
    attempts: integer().notNull().default(0),
    /** The end of the current worker's lease, or the time of the next attempt. */
    next_attempt_at: instantColumn().default(sql`clock()`),
    attempted_at: instantColumn(),
    /** The name that the receiver gave to the message of the thread. */
    remote: jsonb().$type<Record<string, string>>(),
    answer_status: integer(),
    duration_ms: integer(),
    error: text(),
    created_at: createdAtColumn(),
  },
  t => [
    unique('notices_once').on(t.channel_id, t.thread, t.sequence),
    index('notices_due').on(t.channel_id, t.next_attempt_at).where(sql`state = 'waiting'`),
    index('notices_page').on(t.channel_id, ...newestFirstColumns(t)),
    index('notices_age').using('brin', t.created_at),
  ],
)

/** Counts e-mails of a workspace and to an address, so that no workspace floods a mailbox. */
export const mailWindows = pgTable(
  'mail_windows',
  {
    scope: text().primaryKey(),
    started_at: createdAtColumn(),
    mails: integer().notNull(),
  },
  t => [index('mail_windows_age').on(t.started_at)],
)
