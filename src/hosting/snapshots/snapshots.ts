// Lists, reads and deletes snapshots, and makes the jobs that take and restore them.
import { and, eq, isNull, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { db, inTenant, run } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { verb } from '../../kernel/http/context.ts'
import { afterCursor, newestFirst, pageBounds, toListPage } from '../../kernel/http/paging.ts'
import type { JobAction } from '../../protocol/snapshots.schema.ts'
import type { DeploymentRef } from '../deployments/schema.ts'
import { insertJob } from '../jobs/jobs.ts'
import type * as schema from './schema.ts'
import { snapshots } from './tables.ts'

type SnapshotParams = z.output<typeof schema.SnapshotRef>
type SnapshotRow = typeof snapshots.$inferSelect

const toWire = (row: SnapshotRow): schema.Snapshot => ({
  id: row.id,
  deployment_id: row.deployment_id,
  deployment_name: row.deployment_name,
  listener_id: row.listener_id,
  store: row.store,
  size_bytes: row.size_bytes,
  reason: row.reason,
  taken_at: toIsoTime(row.created_at),
  expires_at: toIsoTime(row.expires_at),
})

const isThere: SQL = and(inTenant(snapshots), isNull(snapshots.deleting_at))!
const isSnapshot = ({ snapshot_id }: SnapshotParams | Placeholders<SnapshotParams>): SQL =>
  and(eq(snapshots.id, snapshot_id), isThere)!

const pageStatement = prepareStatement((query: Placeholders<schema.SnapshotQuery>) =>
  db
    .select()
    .from(snapshots)
    .where(
      and(
        isThere,
        query.deployment_id && eq(snapshots.deployment_id, query.deployment_id),
        query.store && eq(snapshots.store, query.store),
        afterCursor(snapshots, query),
      ),
    )
    .orderBy(...newestFirst(snapshots))
    .limit(query.limit)
    .offset(query.offset),
)

export const listSnapshots = verb(
  'deployments:read',
  async (ctx, query: schema.SnapshotQuery) =>
    toListPage(await run(ctx, pageStatement({ ...query, ...pageBounds(query) })), query, toWire),
  { byPolicy: true },
)

const snapshotStatement = prepareStatement((ref: Placeholders<SnapshotParams>) =>
  db.select().from(snapshots).where(isSnapshot(ref)),
)

export const readSnapshot = verb(
  'deployments:read',
  async (ctx, { snapshot_id }: SnapshotParams) =>
    toWire(requireRow(await run(ctx, snapshotStatement({ snapshot_id })), 'snapshot_not_found')),
  { byPolicy: true },
)

const RECORDED = recordColumns(snapshots, ['deployment_name', 'store', 'size_bytes', 'reason'])

/** The agent deletes it when it next tells what it has. */
export const deleteSnapshot = verb(
  'deployments:delete',
  async (ctx, ref: SnapshotParams) => {
    const change = db
      .update(snapshots)
      .set({ deleting_at: sql`clock()` as never })
      .where(isSnapshot(ref))
      .returning()
    const lock = sql`select from ${snapshots} where ${isSnapshot(ref)} for update`
    const data = sql`json_build_object('deployment_id', deployment_id)`
    requireRow(
      await commit(ctx, 'snapshot.deleted', change, data, { lock, changes: deletedMembers(RECORDED) }),
      'snapshot_not_found',
    )
  },
  { byPolicy: true },
)

type DeploymentParams = z.output<typeof DeploymentRef>

/** `command` is what lists of jobs show. */
const insertAction = (
  ctx: Parameters<typeof insertJob>[0],
  deployment_id: string,
  action: JobAction,
  timeout_seconds: number,
) =>
  insertJob(ctx, deployment_id, {
    action,
    command: `${action.type} ${action.store}`,
    timeout_seconds,
    deadline_seconds: 3600,
  })

export const takeSnapshot = verb(
  'deployments:update',
  (ctx, { deployment_id, store, timeout_seconds }: DeploymentParams & schema.NewSnapshot) =>
    insertAction(ctx, deployment_id, { type: 'snapshot', store }, timeout_seconds),
)

export const restoreSnapshot = verb(
  'deployments:update',
  (ctx, { deployment_id, store, snapshot_id, timeout_seconds, ...from }: DeploymentParams & schema.NewRestore) => {
    const action: JobAction =
      snapshot_id != null
        ? { type: 'restore', store, snapshot_id }
        : { type: 'restore', store, from_deployment_id: from.from_deployment_id ?? deployment_id, at: from.at! }
    return insertAction(ctx, deployment_id, action, timeout_seconds)
  },
)
