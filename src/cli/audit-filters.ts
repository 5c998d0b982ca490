// The part of the audit log that `slipway audit list` and `export` read.
import type { Command } from 'commander'
import { collect } from './flags.ts'
import type { Session } from './session.ts'
import { parseTime } from './times.ts'

export type AuditFilters = {
  since: string
  until?: string
  operation?: string[]
  actor?: string
  subject?: string
}

export const withFilters = (command: Command): Command =>
  command
    .option('--since <time>', 'from this time on, such as 2h or 2026-11-22', '30d')
    .option('--until <time>', 'up to this time. Default: now')
    .option('--operation <name>', 'only this operation. Can be repeated', collect)
    .option('--actor <id>', 'only what this key, person or listener did')
    .option('--subject <id>', 'only what changed this resource')

/** The clock of the installation may be ahead. */
const CLOCK_MARGIN_MS = 3_600_000

export const toQuery = ({ login }: Session, { since, until, operation, actor, subject }: AuditFilters) => ({
  start_time: parseTime(since, '--since'),
  end_time: until === undefined ? new Date(Date.now() + CLOCK_MARGIN_MS).toISOString() : parseTime(until, '--until'),
  ...(login.workspace && { workspace_id: login.workspace }),
  ...(operation && { operations: operation }),
  ...(actor && { actor_id: actor }),
  ...(subject && { subject_id: subject }),
})
