// Creates, lists, reads, changes and deletes feedback. It is data: not journaled, like runs.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run, textArray, uuidArray } from '../../kernel/db/db.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import type { Fault } from '../../kernel/http/errors.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import type * as schema from './feedback.schema.ts'
import {
  readFeedbackRows,
  requireFittingScore,
  storeConfigs,
  storeFeedback,
  toCategory,
  toFeedbackRows,
  toJsonText,
  toNewFeedback,
  toScore,
} from './store-feedback.ts'
import type { feedbacks } from './tables.ts'

/** The row that `to_json()` writes. */
type FeedbackRow = Omit<typeof feedbacks.$inferSelect, 'score'> & { score: number | null }
type WithUserNames = z.output<typeof schema.WithUserNames>
type FeedbackParams = z.output<typeof schema.FeedbackRef>

const parseJson = (text: string | null): unknown => text && JSON.parse(text)

const toWire = (row: FeedbackRow, { include_user_names = false }: Partial<WithUserNames> = {}): schema.Feedback => ({
  id: row.id,
  run_id: row.run_id,
  trace_id: row.trace_id,
  session_id: row.session_id,
  start_time: toIsoTime(row.start_time),
  is_root: row.run_id !== null && row.run_id === row.trace_id,
  key: row.key,
  score: row.score,
  value: parseJson(row.value),
  comment: row.comment,
  correction: parseJson(row.correction),
  feedback_group_id: row.feedback_group_id,
  comparative_experiment_id: row.comparative_experiment_id,
  feedback_source: {
    type: row.source_type,
    metadata: parseJson(row.source_metadata) as Record<string, unknown> | null,
    user_id: row.actor_id,
    user_name: include_user_names ? row.actor_name : null,
  },
  error: row.is_error,
  created_at: toIsoTime(row.created_at),
  modified_at: toIsoTime(row.modified_at),
})

const parseRow = ([json]: Row): FeedbackRow => JSON.parse(json as string) as FeedbackRow

const isFeedback = (id: string): SQL => sql`f.tenant_id = current_tenant() and f.id = ${id}::uuid`

export const createFeedback = verb(
  'feedback:create',
  async (ctx, body: z.output<typeof schema.NewFeedbackBody>): Promise<schema.Feedback> => {
    const faults: Fault[] = []
    const feedback = toNewFeedback(body, ['body'], faults)
    if (faults.length > 0) throw invalidRequest(faults)
    const found = await ctx.traces.findRuns(ctx, feedback.run_id ? [feedback.run_id] : [])
    const query = sql<Row>`
      with
      ${sql.join(storeFeedback(readFeedbackRows(toFeedbackRows([feedback])), { found }), sql`,`)}
      select to_json(stored_feedback)
      from stored_feedback`
    return toWire(parseRow(requireRow(await run(ctx, query), 'feedback_not_found')))
  },
)

/** A level is null for any feedback. */
const isOfLevel = (level: 'run' | 'session' | undefined): SQL | undefined =>
  level && (level === 'run' ? sql`f.run_id is not null` : sql`f.run_id is null`)

const isPresent = (column: SQL, has: boolean | undefined): SQL | undefined =>
  has === undefined ? undefined : has ? sql`${column} is not null` : sql`${column} is null`

const conditionsOf = (query: z.output<typeof schema.FeedbackQuery>): SQL => {
  const { run, session, key, source, user, level, comparative_experiment_id: experiment } = query
  const conditions = [
    sql`f.tenant_id = current_tenant()`,
    run && sql`f.run_id = any(${uuidArray(run)})`,
    session && sql`f.session_id = any(${uuidArray(session)})`,
    key && sql`f.key = any(${textArray(key)})`,
    source && sql`f.source_type = any(${textArray(source)})`,
    user && sql`f.actor_id = any(${uuidArray(user)})`,
    isOfLevel(level),
    isPresent(sql`f.comment`, query.has_comment),
    isPresent(sql`f.score`, query.has_score),
    experiment && sql`f.comparative_experiment_id = ${experiment}::uuid`,
    query.min_created_at && sql`f.created_at >= ${query.min_created_at}::timestamptz`,
    query.max_created_at && sql`f.created_at <= ${query.max_created_at}::timestamptz`,
  ]
  return sql.join(
    conditions.filter(condition => condition !== undefined),
    sql`
        and `,
  )
}

export const listFeedback = verb('feedback:read', (ctx, query: z.output<typeof schema.FeedbackQuery>) =>
  findFeedback(ctx, query),
)

export async function findFeedback(ctx: Ctx, query: z.output<typeof schema.FeedbackQuery>): Promise<schema.Feedback[]> {
  const rows = sql<Row>`
      select to_json(f)
      from feedbacks f
      where ${conditionsOf(query)}
      order by f.created_at desc, f.id desc
      limit ${query.limit}
      offset ${query.offset}`
  return (await run(ctx, rows)).map(row => toWire(parseRow(row), query))
}

export const readFeedback = verb(
  'feedback:read',
  async (ctx, { feedback_id, ...names }: FeedbackParams & WithUserNames) => {
    const rows = await run(ctx, sql<Row>`select to_json(f) from feedbacks f where ${isFeedback(feedback_id)}`)
    return toWire(parseRow(requireRow(rows, 'feedback_not_found')), names)
  },
)

export const changeFeedback = verb(
  'feedback:update',
  async (ctx, { feedback_id, ...patch }: FeedbackParams & z.output<typeof schema.FeedbackPatch>) => {
    const faults: Fault[] = []
    const score = patch.score === undefined ? sql`f.score` : sql`${toScore(patch.score) ?? null}::numeric`
    const json = (member: 'value' | 'correction') =>
      patch[member] === undefined
        ? sql`f.${sql.identifier(member)}`
        : sql`${toJsonText(patch[member], ['body', member], faults) ?? null}::text`
    const category = patch.value === undefined ? sql`f.category` : sql`${toCategory(patch.value) ?? null}::text`
    const comment = patch.comment === undefined ? sql`f.comment` : sql`${patch.comment}::text`
    const [value, correction] = [json('value'), json('correction')]
    if (faults.length > 0) throw invalidRequest(faults)
    const config = sql`${patch.feedback_config ? JSON.stringify(patch.feedback_config) : null}::json`
    const query = sql<Row>`
      with found as (
        select f.key, c.config
        from feedbacks f
        left join feedback_configs c on c.tenant_id = f.tenant_id and c.key = f.key
        where ${isFeedback(feedback_id)}
      ),
      ${storeConfigs(sql`(select key, ${config} as config from found)`)},
      changed as (
        update feedbacks f
        set score = ${score}, value = ${value}, category = ${category}, comment = ${comment},
          correction = ${correction}, modified_at = clock()
        from found
        where ${isFeedback(feedback_id)}
          and ${requireFittingScore({ key: sql`f.key`, stored: sql`found.config`, given: config, score })}
        returning f.*
      )
      select to_json(changed)
      from changed`
    return toWire(parseRow(requireRow(await run(ctx, query), 'feedback_not_found')))
  },
)

export const deleteFeedback = verb('feedback:delete', async (ctx, { feedback_id }: FeedbackParams) => {
  const rows = await run(ctx, sql<Row>`delete from feedbacks f where ${isFeedback(feedback_id)} returning f.id`)
  requireRow(rows, 'feedback_not_found')
})
