// Compares what was acknowledged with what is there.
import { check, note } from '../../support/trial.ts'
import type { Job } from './installation.ts'
import type { Acknowledged, Report } from './use.ts'

const MINUTE_MS = 60_000

const list = (name: string, keys: string[]) => (keys.length > 0 ? `${keys.length} ${name}: ${keys.slice(0, 5)}` : '')

/** Files that are there. */
export function checkFiles(what: string, report: Report, acknowledged: Acknowledged): void {
  const lost = [...acknowledged.files].filter(([key, sha256]) => report.files[key] !== sha256)
  check(
    `${what}: no acknowledged file is lost`,
    lost.length === 0,
    list(
      'lost',
      lost.map(([key]) => key),
    ),
  )
}

/** Rows that are there, and tasks that were done once. */
export function checkRows(what: string, report: Report, acknowledged: Acknowledged): void {
  const rows = new Set(report.rows)
  const lostRows = [...acknowledged.rows].filter(key => !rows.has(key))
  check(`${what}: no acknowledged row is lost`, lostRows.length === 0, list('lost', lostRows))
  const lostTasks = [...acknowledged.tasks].filter(key => !report.effects[key])
  check(`${what}: no acknowledged task is lost`, lostTasks.length === 0, list('lost', lostTasks))
  const doubles = Object.entries(report.effects).filter(([, count]) => count !== 1)
  check(
    `${what}: no task has written its row twice`,
    doubles.length === 0,
    list(
      'twice',
      doubles.map(([key]) => key),
    ),
  )
  check(`${what}: no task is left`, report.open.length === 0, list('open', report.open))
  note(`${Object.keys(report.effects).length} tasks done; ${report.repeated} of them were delivered more than once`)
}

/** Beat of one process ends before that of another begins, and each time without a call is recorded as missed. */
export function checkTicks({ ticks }: Report): void {
  const spans = new Map<string, { from: number; to: number }>()
  for (const { beat, sent_at } of ticks) {
    if (beat === null || sent_at === null) continue
    const span = spans.get(beat) ?? { from: sent_at, to: sent_at }
    spans.set(beat, { from: Math.min(span.from, sent_at), to: Math.max(span.to, sent_at) })
  }
  const inOrder = [...spans].toSorted(([, a], [, b]) => a.from - b.from)
  const overlaps = inOrder.slice(1).flatMap(([name, { from }], i) => {
    const [before, { to }] = inOrder[i]!
    return from < to ? [`${before} until ${to}, ${name} from ${from}`] : []
  })
  check('beat never ran twice at once', overlaps.length === 0, overlaps.join('; '))
  const gaps = ticks.slice(1).filter(({ slot }, i) => slot !== ticks[i]!.slot + 1)
  const missed = ticks.filter(({ beat }) => beat === null).length
  check(
    'each call of beat came, or is recorded as missed',
    spans.size > 0 && gaps.length === 0,
    `${ticks.length} calls, ${gaps.length} gaps`,
  )
  note(`${ticks.length} calls of beat were due, of which ${missed} are recorded as missed; ${spans.size} processes`)
}

const countBy = (values: string[]) => {
  const counts = new Map<string, number>()
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1)
  return [...counts].map(([value, n]) => `${n} ${value}`).join(', ')
}

/** A job that succeeded has written its row once; of another one the platform says why it did not. */
export function checkJobs(jobs: Job[], { runs }: Report): void {
  const twice = jobs.filter(({ id }) => (runs[id] ?? 0) > 1)
  check(
    'no job of the platform ran twice',
    twice.length === 0,
    list(
      'twice',
      twice.map(({ id }) => id),
    ),
  )
  const empty = jobs.filter(({ id, status }) => status === 'SUCCEEDED' && !runs[id])
  check(
    'each job that succeeded has written its row',
    empty.length === 0,
    list(
      'empty',
      empty.map(({ id }) => id),
    ),
  )
  const open = jobs.filter(({ status }) => status === 'QUEUED' || status === 'RUNNING')
  check(
    'no job is left',
    open.length === 0,
    list(
      'open',
      open.map(({ id }) => id),
    ),
  )
  note(`jobs: ${countBy(jobs.map(({ status }) => status))}`)
}

/** Each minute between two times has a job, or is part of a reported gap. */
export function checkSchedule(jobs: Job[], from: number, to: number): void {
  const spans = jobs.flatMap(({ due_at, missed_until }) =>
    due_at === null ? [] : [{ from: Date.parse(due_at), to: Date.parse(missed_until ?? due_at) }],
  )
  const due: number[] = []
  for (let at = Math.ceil(from / MINUTE_MS) * MINUTE_MS; at <= to; at += MINUTE_MS) due.push(at)
  const missing = due.filter(at => !spans.some(span => span.from <= at && at <= span.to))
  const doubled = due.filter(at => spans.filter(span => span.from <= at && at <= span.to).length > 1)
  check(
    'each due time of the schedule ran or is reported',
    due.length > 0 && missing.length === 0,
    `${due.length} due, missing: ${missing.map(at => new Date(at).toISOString())}`,
  )
  check('no due time ran twice', doubled.length === 0, doubled.map(at => new Date(at).toISOString()).join())
  note(`${due.length} due times: ${countBy(jobs.map(({ status }) => status))}`)
}
