// Creates, lists, reads, changes, deletes and runs schedules. The sweep makes their jobs.
import { and, eq, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { bumpVersion, db, inTenant, refuseUnless, requirePermission, run, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime, withoutNulls } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { verb } from '../../kernel/http/context.ts'
import {
  afterCursor,
  hasName,
  hasOwner,
  newestFirst,
  pageBounds,
  readPage,
  toListPage,
} from '../../kernel/http/paging.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { type Cron, isTimeZone, nextFiring, parseCron } from '../../protocol/cron.ts'
import type { DeploymentRef } from '../deployments/schema.ts'
import { isDeployment } from '../deployments/service.ts'
import { deployments } from '../deployments/tables.ts'
import { insertJob } from './jobs.ts'
import type * as schema from './schema.ts'
import { EARLINESS, schedules } from './tables.ts'

type DeploymentParams = z.output<typeof DeploymentRef>
type ScheduleParams = z.output<typeof schema.ScheduleRef>
type ScheduleRow = typeof schedules.$inferSelect

const SHOWN_RUNS = 5

function listNextRuns({ cron, time_zone, next_due_at }: ScheduleRow): string[] {
  const parsed = tryParse(cron)
  if (!parsed || next_due_at === null || !isTimeZone(time_zone)) return []
  const runs: string[] = []
  let next = nextFiring(parsed, Date.parse(toIsoTime(next_due_at)), time_zone)
  while (next !== null && runs.length < SHOWN_RUNS) {
    runs.push(new Date(next).toISOString())
    next = nextFiring(parsed, next + 1, time_zone)
  }
  return runs
}

/** Undefined for what this release cannot read, such as an expression of a later agent: the sweep reports it. */
function tryParse(cron: string): Cron | undefined {
  try {
    return parseCron(cron)
  } catch {
    return undefined
  }
}

const toWire = (row: ScheduleRow): schema.Schedule & { [etagVersion]: number } => ({
  id: row.id,
  deployment_id: row.deployment_id,
  name: row.name,
  cron: row.cron,
  time_zone: row.time_zone,
  command: row.command,
  action: row.action as schema.Schedule['action'],
  timeout_seconds: row.timeout_seconds,
  overlap: row.overlap,
  jitter_seconds: row.jitter_seconds,
  retries: row.retries,
  deadline_seconds: row.deadline_seconds,
  process: row.process,
  enabled: row.enabled,
  declared: row.is_declared,
  owner: row.owner,
  next_runs: listNextRuns(row),
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

const RECORDED = recordColumns(schedules, [
  'name',
  'cron',
  'time_zone',
  'command',
  'action',
  'timeout_seconds',
  'overlap',
  'jitter_seconds',
  'retries',
  'deadline_seconds',
  'process',
  'enabled',
  'owner',
])

const isSchedule = ({ deployment_id, schedule_id }: ScheduleParams | Placeholders<ScheduleParams>): SQL =>
  and(eq(schedules.id, schedule_id), eq(schedules.deployment_id, deployment_id), inTenant(schedules))!

type ListInput = DeploymentParams & schema.ScheduleQuery

/** Selects from the deployment, to tell an unknown deployment from one without schedules. */
const pageStatement = prepareStatement(({ deployment_id, ...query }: Placeholders<ListInput>) => {
  const page = db
    .select()
    .from(schedules)
    .where(
      and(
        eq(schedules.deployment_id, deployment_id),
        inTenant(schedules),
        hasName(schedules.name, query),
        afterCursor(schedules, query),
      ),
    )
    .orderBy(...newestFirst(schedules))
    .limit(query.limit)
    .offset(query.offset)
    .as('schedule')
  return db.select().from(deployments).leftJoinLateral(page, sql`true`).where(isDeployment(deployment_id))
})

export const listSchedules = verb('deployments:read', async (ctx, input: ListInput) => {
  const rows = await run(ctx, pageStatement({ ...input, ...pageBounds(input) }))
  requireRow(rows, 'deployment_not_found')
  return toListPage(
    rows.flatMap(({ schedule }) => (schedule ? [schedule as ScheduleRow] : [])),
    input,
    toWire,
  )
})

const workspaceStatement = prepareStatement((page: Placeholders<schema.WorkspaceScheduleQuery>) =>
  db
    .select()
    .from(schedules)
    .where(and(inTenant(schedules), hasOwner(schedules.owner, page), afterCursor(schedules, page)))
    .orderBy(...newestFirst(schedules))
    .limit(page.limit)
    .offset(page.offset),
)

export const listWorkspaceSchedules = verb(
  'deployments:read',
  (ctx, page: schema.WorkspaceScheduleQuery) => readPage(ctx, workspaceStatement, page, toWire),
  { byPolicy: true },
)

const scheduleStatement = prepareStatement((ref: Placeholders<ScheduleParams>) =>
  db.select().from(schedules).where(isSchedule(ref)),
)

export const readSchedule = verb('deployments:read', async (ctx, { deployment_id, schedule_id }: ScheduleParams) =>
  toWire(requireRow(await run(ctx, scheduleStatement({ deployment_id, schedule_id })), 'schedule_not_found')),
)

/** A schedule runs its command without asking again, so writing it takes the permission to. */
const MAY_CHANGE_COMMANDS = requirePermission('deployments:change-commands')

export const createSchedule = verb(
  'deployments:update',
  async (ctx, { deployment_id, ...input }: DeploymentParams & schema.NewSchedule) => {
    const change = sql<ScheduleRow>`
      insert into schedules (
        organization_id, tenant_id, deployment_id, name, cron, time_zone, command, action, timeout_seconds, overlap,
        jitter_seconds, retries, deadline_seconds, process, owner, enabled, next_due_at
      )
      select d.organization_id, d.tenant_id, d.id, ${input.name}, ${input.cron}, ${input.time_zone},
        ${JSON.stringify(input.command ?? `snapshot ${input.action!.store}`)}::json,
        ${input.action ? JSON.stringify(input.action) : null}::jsonb, ${input.timeout_seconds}::integer,
        ${input.overlap}, ${input.jitter_seconds}::integer, ${input.retries}::integer,
        ${input.deadline_seconds}::integer, ${input.process ?? null}, ${input.owner ?? null}, ${input.enabled}::boolean,
        case when ${input.enabled}::boolean then clock() end
      from deployments d
      where d.id = ${deployment_id}::uuid
        and d.tenant_id = current_tenant()
        and d.deleting_at is null
        and ${input.action ? sql`true` : MAY_CHANGE_COMMANDS}
      returning *`
    const lock = sql`select from ${deployments} where ${isDeployment(deployment_id)} for key share`
    const parts = { lock, changes: createdMembers(RECORDED) }
    const rows = await commit(ctx, 'schedule.created', change, { deployment_id }, parts)
    return toWire(requireRow(rows, 'deployment_not_found'))
  },
)

const IS_NOT_DECLARED = refuseUnless('schedule_declared', sql`not ${schedules.is_declared}`)

const lockSchedule = (ref: ScheduleParams): SQL => sql`select from ${schedules} where ${isSchedule(ref)} for update`

export const changeSchedule = verb(
  'deployments:update',
  async (
    ctx,
    { deployment_id, schedule_id, owner, process: ofProcess, ...patch }: ScheduleParams & schema.SchedulePatch,
  ) => {
    const ref = { deployment_id, schedule_id }
    const changed = {
      ...withoutNulls(patch),
      ...(ofProcess != null && { process: ofProcess || null }),
      ...(owner != null && { owner: owner || null }),
    }
    const { cron, time_zone, enabled } = patch
    const isSwitch = Object.keys(changed).every(name => name === 'enabled')
    const t = schedules
    // A due time whose job may exist already is not due again: the sweep would fail on it, for all schedules.
    const next_due_at = sql`case
      when not coalesce(${enabled ?? null}::boolean, ${t.enabled}) then null
      when coalesce(${cron ?? null}, ${t.cron}) = ${t.cron}
        and coalesce(${time_zone ?? null}, ${t.time_zone}) = ${t.time_zone}
        and ${t.enabled} then ${t.next_due_at}
      else clock() + ${EARLINESS}
    end`
    const change = db
      .update(schedules)
      .set({
        ...changed,
        ...(changed.command !== undefined && { action: null }),
        next_due_at,
        ...bumpVersion(schedules),
      })
      .where(
        and(
          isSchedule(ref),
          versionMatches(ctx, schedules),
          MAY_CHANGE_COMMANDS,
          isSwitch ? undefined : IS_NOT_DECLARED,
        ),
      )
      .returning()
    const data = { deployment_id, supplied: Object.keys(changed) }
    const parts = { lock: lockSchedule(ref), changes: changedMembers(schedules, RECORDED) }
    return toWire(requireRow(await commit(ctx, 'schedule.updated', change, data, parts), 'schedule_not_found'))
  },
)

export const deleteSchedule = verb('deployments:update', async (ctx, ref: ScheduleParams) => {
  const { deployment_id, schedule_id } = ref
  const change = db
    .delete(schedules)
    .where(and(isSchedule({ deployment_id, schedule_id }), versionMatches(ctx, schedules), IS_NOT_DECLARED))
    .returning()
  const parts = { lock: lockSchedule(ref), changes: deletedMembers(RECORDED) }
  requireRow(await commit(ctx, 'schedule.deleted', change, { deployment_id }, parts), 'schedule_not_found')
})

export const runSchedule = verb('deployments:update', (ctx, { deployment_id, schedule_id }: ScheduleParams) =>
  insertJob(ctx, deployment_id, { schedule_id }),
)
