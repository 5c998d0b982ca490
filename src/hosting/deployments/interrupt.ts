// Interrupts a revision. hosting/sync/report.ts applies what an agent reports.
import { sql } from 'drizzle-orm'
import type { Row } from '../../kernel/db/db.ts'
import { describeWrite, runWrite } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import type { Ctx } from '../../kernel/http/context.ts'

const MESSAGE = 'Interrupted on request.'

type RevisionIds = { deployment_id: string; revision_id: string }
export async function interrupt(ctx: Ctx, { deployment_id, revision_id }: RevisionIds): Promise<void> {
  const interruptRevision = sql<Row>`
    select answer, has_webhooks
    from interrupt_revision(${deployment_id}, ${revision_id}, ${MESSAGE}, ${describeWrite(ctx)})`
  requireRow(await runWrite(ctx, interruptRevision), 'revision_not_found')
}
