// Crons: a request for a run, and when it is due. Any copy may start what is due.
import type { User } from './auth.ts'
import { type CronSchedule, isTimeZone, nextDate, parseCron } from './cron-schedule.ts'
import type { Database, Query, Row } from './database.ts'
import { HttpError, notFound } from './errors.ts'
import { CALLER, configOfCaller, insertRun, type RunRequest } from './runs.ts'
import type { Searchable } from './search.ts'
import type { Server } from './server.ts'
import { type JsonObject, toJsonb, uuid7 } from './values.ts'

export type CronFields = {
  schedule: string
  timezone: string | null
  enabled: boolean
  end_time: string | null
  on_run_completed: 'delete' | 'keep' | null
  metadata: JsonObject
  payload: JsonObject
}

const COLUMNS = `cron_id, assistant_id, thread_id, schedule, timezone, enabled, on_run_completed, end_time, payload,
  metadata, next_run_date, created_at, updated_at, null as user_id`

function readSchedule({ schedule, timezone }: Pick<CronFields, 'schedule' | 'timezone'>): CronSchedule {
  if (timezone !== null && !isTimeZone(timezone))
    throw new HttpError(422, `\`timezone\`: "${timezone}" is not a time zone, such as Europe/Berlin.`)
  try {
    return parseCron(schedule)
  } catch (error) {
    throw new HttpError(422, (error as Error).message)
  }
}

function nextRunDate(fields: Pick<CronFields, 'schedule' | 'timezone' | 'end_time'>, after: Date): Date | null {
  const next = nextDate(readSchedule(fields), after, fields.timezone ?? 'UTC')
  if (!next) throw new HttpError(422, `\`schedule\`: "${fields.schedule}" fits no date in the next five years.`)
  return next && fields.end_time && next > new Date(fields.end_time) ? null : next
}

/** A schedule that was accepted once must not stop the others. */
function nextRunDateOrNone(fields: CronFields): Date | null {
  try {
    return nextRunDate(fields, new Date())
  } catch (error) {
    console.error(`cron ended: ${(error as Error).message}`)
    return null
  }
}

export async function createCron(
  db: Database,
  assistantId: string,
  threadId: string | null,
  fields: CronFields,
): Promise<Row> {
  const next = nextRunDate(fields, new Date())
  const [row] = await db.query(
    `insert into graphs.crons (
      cron_id, assistant_id, thread_id, schedule, timezone, enabled, end_time, on_run_completed, metadata, payload,
      next_run_date
    )
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
    returning ${COLUMNS}`,
    [uuid7(), assistantId, threadId, ...fieldValues(fields), next],
  )
  return row!
}

const fieldValues = (fields: CronFields) => [
  fields.schedule,
  fields.timezone,
  fields.enabled,
  fields.end_time,
  fields.on_run_completed,
  toJsonb(fields.metadata) ?? '{}',
  toJsonb(fields.payload) ?? '{}',
]

/** The runs of a cron are of the user who last wrote it. */
export function asUser(payload: JsonObject, user: User | undefined): JsonObject {
  if (!user) return payload
  const config = (payload.config ?? {}) as { configurable?: JsonObject }
  return { ...payload, config: { ...config, configurable: { ...config.configurable, ...configOfCaller(user) } } }
}

export const patchCron = (db: Database, id: string, patch: Partial<CronFields>, user?: User): Promise<Row> =>
  db.transaction(async query => {
    const [current] = await query('select * from graphs.crons where cron_id = $1 for update', [id])
    if (!current) throw notFound('Cron', id)
    const fields: CronFields = {
      schedule: patch.schedule ?? current.schedule,
      timezone: patch.timezone ?? current.timezone,
      enabled: patch.enabled ?? current.enabled,
      end_time: patch.end_time ?? current.end_time,
      on_run_completed: patch.on_run_completed ?? current.on_run_completed,
      metadata: { ...current.metadata, ...patch.metadata },
      payload: asUser({ ...current.payload, ...patch.payload }, user),
    }
    const [row] = await query(
      `update graphs.crons
      set schedule = $2, timezone = $3, enabled = $4, end_time = $5, on_run_completed = $6, metadata = $7, payload = $8,
        next_run_date = $9, updated_at = now()
      where cron_id = $1
      returning ${COLUMNS}`,
      [id, ...fieldValues(fields), nextRunDate(fields, new Date())],
    )
    return row!
  })

export async function deleteCron(query: Query, id: string): Promise<void> {
  const deleted = await query('delete from graphs.crons where cron_id = $1 returning 1', [id])
  if (deleted.length === 0) throw notFound('Cron', id)
}

export const CRONS: Searchable = {
  table: 'graphs.crons',
  columns: COLUMNS,
  key: 'cron_id',
  conditions: {
    assistant_id: 'assistant_id = ?::uuid',
    thread_id: 'thread_id = ?::uuid',
    enabled: 'enabled = ?::boolean',
    metadata: 'metadata @> ?::jsonb',
  },
}

/** Starts what is due, each once: its next date and its run are one transaction. Missed dates are not made up. */
export const startDueCrons = (server: Server): Promise<number> =>
  server.db.transaction(async query => {
    const due = await query(
      `select *
      from graphs.crons
      where enabled and next_run_date <= now()
      order by next_run_date
      limit 100
      for update skip locked`,
    )
    for (const cron of due) {
      const fields = { ...cron, end_time: cron.end_time?.toISOString() ?? null } as unknown as CronFields
      const next = nextRunDateOrNone(fields)
      await query('update graphs.crons set next_run_date = $2 where cron_id = $1', [cron.cron_id, next])
      await startCron(server, query, cron).catch(error => {
        // Such as an assistant that was deleted, or a queue that is full. A fault of the database ends the transaction.
        if (!(error instanceof HttpError)) throw error
        console.error(`cron failed cron=${cron.cron_id}: ${error.message}`)
      })
    }
    return due.length
  })

async function startCron(server: Server, query: Query, cron: Row): Promise<void> {
  server.usage.admitRun(cron.thread_id !== null)
  // The payload has the user who made the cron. Its threads are that user's.
  const caller = server.auth ? { [CALLER]: { marks: cron.metadata } } : {}
  await insertRun(server, query, cron.thread_id, { ...toRequest(cron), ...caller })
}

const toRequest = (cron: Row): RunRequest => ({
  ...cron.payload,
  assistant_id: cron.assistant_id,
  metadata: { ...cron.payload.metadata, cron_id: cron.cron_id },
  on_completion: cron.on_run_completed === 'keep' ? 'keep' : 'delete',
})
