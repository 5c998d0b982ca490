// The statuses that a report takes a revision through, as the database decides.
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import type { RevisionStatus } from '../../src/protocol/parts.schema.ts'
import type { ReportState } from '../../src/protocol/report.schema.ts'
import { getApp } from './app.ts'

export const movingStates = ['building', 'built', 'deploying', 'deployed', 'failed'] as const satisfies ReportState[]
export type MovingState = (typeof movingStates)[number]

/** Null when the revision has ended otherwise. */
export async function findReportPath(status: RevisionStatus, state: MovingState): Promise<RevisionStatus[] | null> {
  const [[row]] = (await runAsSystem(getApp().database, sql`select to_json(report_path(${status}, ${state}))`)) as [
    [[string | null]],
  ]
  return JSON.parse(row[0] ?? 'null')
}
