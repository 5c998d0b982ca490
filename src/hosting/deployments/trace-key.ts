// Ends the trace key of an application. The next one has another version.
import { and, isNull, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { bumpVersion, db, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import { lockDeployment } from './revision-queue.ts'
import type { DeploymentRef } from './schema.ts'
import { isDeployment } from './service.ts'
import { deployments } from './tables.ts'

const RECORD = recordColumns(deployments, ['trace_key_version'])

export const rotateTraceKey = verb(
  'deployments:update',
  async (ctx, { deployment_id }: z.output<typeof DeploymentRef>) => {
    const change = db
      .update(deployments)
      .set({
        trace_key_version: sql`${deployments.trace_key_version} + 1`,
        generation: sql`${deployments.generation} + 1`,
        remote_reconciled: false,
        ...bumpVersion(deployments),
      })
      .where(and(isDeployment(deployment_id), isNull(deployments.deleting_at), versionMatches(ctx, deployments)))
      .returning()
    const parts = { lock: lockDeployment(deployment_id), changes: changedMembers(deployments, RECORD) }
    requireRow(await commit(ctx, 'deployment.trace_key_rotated', change, {}, parts), 'deployment_not_found')
  },
)
