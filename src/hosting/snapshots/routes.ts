// Routes of snapshots.
import { slice } from '../../kernel/http/routes.ts'
import { DeploymentRef } from '../deployments/schema.ts'
import { Job } from '../jobs/schema.ts'
import * as s from './schema.ts'
import * as snapshots from './snapshots.ts'

const REFUSALS = [
  'deployment_not_found',
  'deployment_deleting',
  'snapshots_not_supported',
  'jobs_not_supported',
  'store_not_found',
  'job_queue_full',
] as const
const locationOf = (job: { deployment_id: string; id: string }) => `/v2/deployments/${job.deployment_id}/jobs/${job.id}`

export const snapshotRoutes = slice('Snapshots', 'Copies of what lasts of deployments: disks and databases.')
  .get('/v2/snapshots', {
    id: 'listSnapshots',
    summary: 'List snapshots, newest first',
    description: 'Also those of deleted deployments, which are kept for a time.',
    query: s.SnapshotQuery,
    reply: s.SnapshotList,
    verb: snapshots.listSnapshots,
  })
  .get('/v2/snapshots/{snapshot_id}', {
    id: 'readSnapshot',
    summary: 'Read a snapshot',
    description: 'Its store, size and reason, and when it expires.',
    params: s.SnapshotRef,
    reply: s.Snapshot,
    errors: ['snapshot_not_found'],
    verb: snapshots.readSnapshot,
  })
  .delete('/v2/snapshots/{snapshot_id}', {
    id: 'deleteSnapshot',
    summary: 'Delete a snapshot',
    description: 'It is gone at once; its agent frees the space within some minutes.',
    params: s.SnapshotRef,
    errors: ['snapshot_not_found'],
    verb: snapshots.deleteSnapshot,
  })
  .post('/v2/deployments/{deployment_id}/snapshots', {
    id: 'takeSnapshot',
    summary: 'Take a snapshot of a disk or the database',
    description: 'The answer is the job that takes it. The snapshot has the id of the job, and is kept for 30 days.',
    params: DeploymentRef,
    body: s.NewSnapshot,
    status: 202,
    reply: Job,
    errors: [...REFUSALS],
    location: locationOf,
    verb: snapshots.takeSnapshot,
  })
  .post('/v2/deployments/{deployment_id}/restores', {
    id: 'restoreSnapshot',
    summary: 'Replace the data of a disk or the database by a snapshot',
    description: [
      'The answer is the job that does it. Copies of the deployment stop for a moment.',
      'What was there is kept as a snapshot for 7 days.',
    ].join(' '),
    params: DeploymentRef,
    body: s.NewRestore,
    status: 202,
    reply: Job,
    errors: [...REFUSALS, 'snapshot_not_found', 'snapshot_elsewhere', 'history_not_supported'],
    location: locationOf,
    verb: snapshots.restoreSnapshot,
  })
