// Receives log lines of builds and runs from agents. A repeated request adds nothing.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import type { LogBatch, LogReceipt } from '../../protocol/logs.schema.ts'
import { appendLogs } from '../logs/logs.ts'
import { lockLease } from './lease.ts'

export const receiveLogs = verb(
  'listeners:sync',
  async (ctx, input: LogBatch): Promise<z.output<typeof LogReceipt>> => {
    const { revision_id, deployment_id, kind, stream, from, lines } = input
    const revision = sql`
      select r.tenant_id, r.id
      from revisions r
      join deployments d on d.id = r.deployment_id
      where r.id = ${revision_id}::uuid and d.id = ${deployment_id}::uuid and d.listener_id = current_listener()`
    // A concurrent repeat waits for the first request, and then sees its lines.
    const lockRevision = sql`select from revisions where id = ${revision_id}::uuid for no key update`
    const rows = await run(ctx, appendLogs({ revision, kind, stream, from }, lines), [lockLease(input), lockRevision])
    const [next] = requireRow(rows, 'revision_not_found') as Row
    return { next: Number(next) }
  },
)
