// Makes the jobs of schedules that are due, gives up jobs that did not start or end in time, and deletes old ones.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { setSystemSettings } from '../../kernel/db/journal.ts'
import { deleteExpired, type SweepServices } from '../../kernel/db/sweep.ts'
import { type DueRuns, type DueSchedule, planDueRuns } from './due-runs.ts'
import { EARLINESS } from './tables.ts'

const MAX_SCHEDULES = 200
/** Due times that one statement takes, also those that came too late, but for those of the last schedule. */
const MAX_RUNS = 1000
const MAX_JOBS = 1000
/** Workspaces of one transaction, which locks the journals of those with room for more jobs. */
const MAX_WORKSPACES = 100
const BEFORE_ALL = '00000000-0000-0000-0000-000000000000'
const BUDGET_MS = 20_000
/** Each has up to 5,000 lines, which are deleted with it. */
const DELETED_JOBS = 100

export async function sweepJobs(services: SweepServices): Promise<void> {
  await startDueJobs(services)
  const { platform, database, config } = services
  await runAsSystem(database, systemSettings(services), sql<Row>`select sweep_jobs(${MAX_JOBS})`)
  await dispatchWaiting(services)
  const isOld = sql`finished_at < clock() - make_interval(days => ${config.jobRetentionDays})`
  await deleteExpired({ ...services, platform }, 'jobs', [{ table: 'jobs', where: isOld }], DELETED_JOBS)
}

/** Begins anywhere and goes round, so that each workspace is reached though the time is over before. */
async function dispatchWaiting(services: SweepServices): Promise<void> {
  const { platform, database } = services
  const end = Date.now() + BUDGET_MS
  const first = crypto.randomUUID()
  let hasWrapped = false
  for (let after: string = first; Date.now() < end && !platform.stopping?.aborted; ) {
    const dispatch = sql<[string | null]>`select dispatch_waiting_jobs(${after}::uuid, ${MAX_WORKSPACES})`
    const [, [row]] = (await runAsSystem(database, systemSettings(services), dispatch)) as [unknown, [string | null][]]
    const last = row?.[0] ?? null
    if (hasWrapped && (last === null || last > first)) return
    hasWrapped ||= last === null
    after = last ?? BEFORE_ALL
  }
}

const systemSettings = ({ platform }: SweepServices) => setSystemSettings(platform, `sweep-${crypto.randomUUID()}`)

/** A time zone that this runtime does not know, such as one that another instance has stored. */
const RETRY_MS = 3_600_000

const NOW = sql`(clock() + ${EARLINESS})`
const milliseconds = (time: string) => sql`(extract(epoch from ${sql.raw(time)}) * 1000)::bigint`

/** The schedule that waits longest in each workspace is first, then the second of each. */
const selectDue = sql<Row>`
  select id, next_due_at, version, cron, time_zone, deadline_seconds, ${milliseconds('next_due_at')},
    (extract(epoch from ${NOW}) * 1000)::bigint
  from (
    select *, row_number() over (partition by tenant_id order by next_due_at, id) as place
    from (
      select *
      from schedules
      where next_due_at <= ${NOW}
      order by next_due_at
      limit ${10 * MAX_SCHEDULES}
    ) due
  ) placed
  order by place, next_due_at, id
  limit ${MAX_SCHEDULES}`

type DueRow = [
  id: string,
  seen: string,
  version: string,
  cron: string,
  time_zone: string,
  deadline_seconds: string,
  from: string,
  now: string,
]

/** One statement reads what is due, and another makes the jobs: see start_due_jobs() for what happens in between. */
async function startDueJobs(services: SweepServices): Promise<void> {
  const { platform, database } = services
  const end = Date.now() + BUDGET_MS
  for (let isLast = false; !isLast && Date.now() < end && !platform.stopping?.aborted; ) {
    const [, rows] = (await runAsSystem(database, systemSettings(services), selectDue)) as [unknown, DueRow[]]
    if (rows.length === 0) return
    const planned = planRows(rows)
    isLast = planned.length === rows.length && rows.length < MAX_SCHEDULES
    const start = sql<Row>`select start_due_jobs(${JSON.stringify(planned)}::jsonb)`
    await runAsSystem(database, systemSettings(services), start)
  }
}

function planRows(rows: DueRow[]) {
  const planned = []
  let runs = 0
  for (const [id, seen, version, cron, time_zone, deadline_seconds, from, now] of rows) {
    if (runs >= MAX_RUNS) break
    const schedule = { cron, time_zone, deadline_seconds: Number(deadline_seconds), from: Number(from) }
    const plan = planOrReport(schedule, Number(now))
    runs += plan.due.length + (plan.missed ? (plan.missed.count ?? MAX_RUNS) : 0)
    planned.push({ id, seen, version, ...plan })
  }
  return planned
}

/** One schedule that cannot be planned must not stop the others. */
function planOrReport(schedule: DueSchedule, now: number): DueRuns {
  try {
    return planDueRuns(schedule, now)
  } catch (error) {
    const reason = `The next run cannot be computed: ${(error as Error).message}. Change \`time_zone\` or \`cron\`.`
    const [from, until, upcoming] = [schedule.from, now, now + RETRY_MS].map(time => new Date(time).toISOString())
    return { due: [], missed: { from: from!, until: until!, count: null, reason }, upcoming: upcoming! }
  }
}
