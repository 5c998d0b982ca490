// Applies the reports of an agent about jobs, and stores their lines, behind its lease.
import { sql } from 'drizzle-orm'
import { type Row, run } from '../../kernel/db/db.ts'
import { announceEvents } from '../../kernel/db/journal.ts'
import { verb } from '../../kernel/http/context.ts'
import type { JobReportResults, JobReports } from '../../protocol/jobs.schema.ts'

type Result = JobReportResults['results'][number]
type ResultRow = [job_id: string, code: Result['code'], hookedTenant: string | null]

export const reportJobs = verb(
  'listeners:sync',
  async (ctx, { agent_id, fence, reports }: JobReports): Promise<JobReportResults> => {
    const statement = sql<Row>`
      select job_id, code, hooked_tenant
      from apply_job_reports(
        ${agent_id}, ${fence}, ${JSON.stringify(reports)}, ${ctx.config.eventsPerDay || null}::bigint
      )`
    const results = (await run(ctx, statement)) as ResultRow[]
    for (const tenant of new Set(results.map(([, , tenant]) => tenant))) announceEvents(ctx, tenant)
    return { results: results.map(([job_id, code]) => ({ job_id, accepted: code === null, code })) }
  },
)
