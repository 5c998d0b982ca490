// Schemas of snapshots, and of requests to take and restore them.
import * as z from 'zod'
import { MAX_TIMEOUT_SECONDS } from '../../protocol/jobs.schema.ts'
import { SnapshotReason, StoreName } from '../../protocol/snapshots.schema.ts'
import { Instant, listOf, optionalFilter, Page, Uuid } from '../../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })

export const SnapshotRef = z.object({ snapshot_id: Uuid })

export const Snapshot = z
  .object({
    id: Uuid,
    deployment_id: Uuid,
    deployment_name: z.string().meta({ description: 'Its name when the snapshot was taken.' }),
    listener_id: Uuid,
    store: StoreName,
    size_bytes: z.int(),
    reason: SnapshotReason,
    taken_at: Time,
    expires_at: Time.nullable().meta({
      description: 'It is deleted then, unless it is the newest of a store that still exists.',
    }),
  })
  .meta({ id: 'Snapshot', description: 'A copy of a disk or a database, which outlives its deployment.' })
export type Snapshot = z.output<typeof Snapshot>
export const SnapshotList = listOf(Snapshot).meta({ id: 'SnapshotList' })

export const SnapshotQuery = Page.extend({
  deployment_id: optionalFilter(Uuid).meta({ description: 'Snapshots of this deployment, which may be deleted.' }),
  store: optionalFilter(StoreName).meta({ description: 'Snapshots of this store.' }),
})
export type SnapshotQuery = z.output<typeof SnapshotQuery>

const TIMEOUT_DEFAULT = 4 * 3600
const timeout_seconds = z.int().min(1).max(MAX_TIMEOUT_SECONDS).default(TIMEOUT_DEFAULT)

export const NewSnapshot = z
  .object({ store: StoreName, timeout_seconds })
  .meta({ id: 'NewSnapshot', description: 'A store to copy.', example: { store: 'disk:media' } })
export type NewSnapshot = z.output<typeof NewSnapshot>

export const NewRestore = z
  .object({
    store: StoreName.meta({ description: 'Its data are replaced. A snapshot of them is kept.' }),
    snapshot_id: Uuid.nullish().meta({ description: 'May be of another deployment of the same listener.' }),
    from_deployment_id: Uuid.nullish().meta({ description: 'With `at`: the database of this deployment.' }),
    at: Instant.nullish().meta({ description: 'The data as they were at this time. Of a database only.' }),
    timeout_seconds,
  })
  .superRefine(({ store, snapshot_id, from_deployment_id, at }, check) => {
    const fault = (path: string, message: string) => check.addIssue({ code: 'custom', path: [path], message })
    if (snapshot_id != null && (at ?? from_deployment_id) != null) fault('at', 'excludes `snapshot_id`')
    if (snapshot_id == null && at == null) fault('snapshot_id', 'is required, or `at`')
    if (at != null && store !== 'database') fault('at', 'is only for `database`')
    if (from_deployment_id != null && at == null) fault('at', 'is required with `from_deployment_id`')
  })
  .meta({
    id: 'NewRestore',
    description: 'A snapshot, or a time, to bring a store back to.',
    example: { store: 'disk:media', snapshot_id: '6512bd43-d9ca-4a6e-8c99-2adbb0b2d0e1' },
  })
export type NewRestore = z.output<typeof NewRestore>
