// Decides which due times of a schedule start now, and which came too late (pure).
import { nextFiring, parseCron } from '../../protocol/cron.ts'

/** Times in milliseconds. The first due time at or after `from` is the next one. */
export type DueSchedule = { cron: string; time_zone: string; deadline_seconds: number; from: number }

/** Due times that came too late are one job together. Beyond the limit, there is no count. */
type MissedRuns = { from: string; until: string; count: number | null; reason?: string }
export type DueRuns = { due: string[]; missed: MissedRuns | null; upcoming: string }

const MAX_COUNTED = 2000

export function planDueRuns({ cron: text, time_zone, deadline_seconds, from }: DueSchedule, now: number): DueRuns {
  const cron = parseCron(text)
  /** parseCron() refuses an expression that never fires. */
  const nextAfter = (time: number) => nextFiring(cron, time, time_zone)!
  const firstInTime = now - deadline_seconds * 1000 + 1
  let next = nextAfter(from)

  let missed: MissedRuns | null = null
  for (const first = next; next < firstInTime && missed?.count !== null; next = nextAfter(next + 1)) {
    const count: number = (missed?.count ?? 0) + 1
    missed = { from: toText(first), until: toText(next), count }
    if (count === MAX_COUNTED) missed = { from: toText(first), until: toText(firstInTime - 1), count: null }
  }
  if (missed?.count === null) next = nextAfter(firstInTime)

  const due: string[] = []
  for (; next <= now; next = nextAfter(next + 1)) due.push(toText(next))
  return { due, missed, upcoming: toText(next) }
}

const toText = (time: number) => new Date(time).toISOString()
