// Receives log lines of builds and runs from agents. A repeated request adds nothing.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { type LogBatch, type LogReceipt, levels } from '../../protocol/logs.schema.ts'
import { MAX_JOB_BYTES, MAX_JOB_LINES } from '../jobs/job-logs.ts'
import { sanitizeMessage } from '../logs/line-text.ts'
import { appendLogs } from '../logs/logs.ts'
import { lockLease } from './lease.ts'

export const receiveLogs = verb(
  'listeners:sync',
  async (ctx, input: LogBatch): Promise<z.output<typeof LogReceipt>> => {
    const { revision_id, deployment_id, kind, stream, from, lines, job_id } = input
    if (job_id) return { next: await appendJobLines(ctx, job_id, input) }
    const revision = sql`
      select r.tenant_id, r.id
      from revisions r
      join deployments d on d.id = r.deployment_id
      where r.id = ${revision_id}::uuid and d.id = ${deployment_id}::uuid and d.listener_id = current_listener()`
    const forStore = ctx.logs.append !== null
    // A concurrent repeat waits for the first request, and then sees its lines.
    const lockRevision = sql`select from revisions where id = ${revision_id}::uuid for no key update`
    const statement = appendLogs({ revision, kind, stream, from, forStore }, lines)
    const rows = await run(ctx, statement, [lockLease(input), lockRevision])
    const [next, , isQueued] = requireRow(rows, 'revision_not_found') as Row
    if (kind === 'deploy' && ctx.lookAtAlerts) ctx.waitUntil?.(ctx.lookAtAlerts())
    if (isQueued === true) ctx.storeLines?.(ctx.waitUntil)
    return { next: Number(next) }
  },
)

async function appendJobLines(ctx: Ctx, job_id: string, { lines, ...batch }: LogBatch): Promise<number> {
  const stored = lines.map(({ timestamp, level, message }) => ({
    timestamp,
    severity: levels.indexOf(level),
    message: sanitizeMessage(message),
  }))
  const statement = sql<Row>`
    select append_job_lines(
      ${job_id}::uuid, ${batch.stream}::uuid, ${batch.from}::integer, ${JSON.stringify(stored)}::jsonb,
      ${MAX_JOB_LINES}::integer, ${MAX_JOB_BYTES}::bigint
    )`
  const [[next]] = (await run(ctx, statement, lockLease(batch))) as [[string | null]]
  if (next === null) throw fail('job_not_found')
  return Number(next)
}
