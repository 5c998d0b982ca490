// Configs of feedback: the values that the feedback of a key may have.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, refuseUnless, run, textArray } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import type { FeedbackConfig } from '../store/store.ts'
import type * as schema from './feedback.schema.ts'
import { feedbackConfigs } from './tables.ts'

type ConfigRow = typeof feedbackConfigs.$inferSelect

const toWire = (row: ConfigRow) => ({
  id: row.id,
  tenant_id: row.tenant_id,
  feedback_key: row.key,
  feedback_config: row.config as FeedbackConfig,
  is_lower_score_better: row.is_lower_score_better,
  modified_at: toIsoTime(row.modified_at),
})

const RECORDED = {
  key: (row: SQL) => sql`${row}.key`,
  config: (row: SQL) => sql`${row}.config`,
  is_lower_score_better: (row: SQL) => sql`${row}.is_lower_score_better`,
}

export const listFeedbackConfigs = verb(
  'feedback:read',
  async (ctx, query: z.output<typeof schema.FeedbackConfigQuery>) => {
    const { key, name_contains, sort_by_desc, limit, offset } = query
    const rows = sql<Row>`
      select to_json(c)
      from feedback_configs c
      where c.tenant_id = current_tenant()
        ${key ? sql`and c.key = any(${textArray(key)})` : sql``}
        ${name_contains ? sql`and strpos(lower(c.key), lower(${name_contains})) > 0` : sql``}
      order by c.key ${sort_by_desc ? sql`desc` : sql`asc`}
      limit ${limit}
      offset ${offset}`
    return (await run(ctx, rows)).map(([json]) => toWire(JSON.parse(json as string)))
  },
)

/** The configuration that exists is the answer, if it is the same. */
export const createFeedbackConfig = verb(
  'feedback-configs:create',
  async (ctx, { feedback_key, feedback_config, ...input }: z.output<typeof schema.NewFeedbackConfig>) => {
    const change = sql<ConfigRow & { is_new: boolean }>`
      insert into feedback_configs as c (organization_id, tenant_id, key, config, is_lower_score_better)
      select current_organization(), current_tenant(), ${feedback_key}, ${JSON.stringify(feedback_config)}::json,
        ${input.is_lower_score_better ?? false}
      on conflict (tenant_id, key) do update set modified_at = c.modified_at
      where ${refuseUnless('feedback_config_differs', sql`c.config::jsonb = excluded.config::jsonb`)}
      returning *, xmax = 0 as is_new`
    const event = sql`case when changed.is_new then 'feedback_config.created' end`
    const rows = await commit(ctx, event, change, {}, { changes: createdMembers(RECORDED) })
    return toWire(requireRow(rows, 'feedback_config_not_found'))
  },
)

const isConfig = (key: string): SQL => sql`tenant_id = current_tenant() and key = ${key}`

export const changeFeedbackConfig = verb(
  'feedback-configs:update',
  async (ctx, { feedback_key, ...patch }: z.output<typeof schema.FeedbackConfigPatch>) => {
    const config = patch.feedback_config ? JSON.stringify(patch.feedback_config) : null
    const change = sql<ConfigRow>`
      update feedback_configs c
      set config = coalesce(${config}::json, c.config),
        is_lower_score_better = coalesce(${patch.is_lower_score_better ?? null}, c.is_lower_score_better),
        modified_at = clock()
      where ${isConfig(feedback_key)}
      returning *`
    const parts = {
      lock: sql`select from feedback_configs where ${isConfig(feedback_key)} for update`,
      changes: changedMembers(feedbackConfigs, RECORDED),
    }
    const rows = await commit(ctx, 'feedback_config.updated', change, {}, parts)
    return toWire(requireRow(rows, 'feedback_config_not_found'))
  },
)

export const deleteFeedbackConfig = verb(
  'feedback-configs:delete',
  async (ctx, { feedback_key }: z.output<typeof schema.FeedbackConfigRef>) => {
    const change = sql<ConfigRow>`delete from feedback_configs where ${isConfig(feedback_key)} returning *`
    const parts = { changes: deletedMembers(RECORDED) }
    requireRow(await commit(ctx, 'feedback_config.deleted', change, {}, parts), 'feedback_config_not_found')
  },
)
