// Error codes of snapshots.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const snapshotsCodes = {
  snapshot_not_found: {
    status: 404,
    title: 'Snapshot not found',
    problem: 'This workspace has no such snapshot.',
    remedy: 'GET /v2/snapshots lists its snapshots.',
  },
  snapshot_elsewhere: {
    status: 409,
    title: 'Snapshot is elsewhere',
    problem: 'The snapshot is on the machine of another listener.',
    remedy: 'Download it, or restore it into a deployment of its own listener.',
  },
  snapshots_not_supported: {
    status: 409,
    title: 'Snapshots not supported',
    problem: 'The agent of the deployment takes no snapshots of this store.',
    remedy: 'docs/reference/engines.md shows which engines do. Have the operator update the agent, if it is older.',
  },
  history_not_supported: {
    status: 409,
    title: 'Points in time not supported',
    problem: 'The agent of the deployment restores no database to a time.',
    remedy: 'Restore a snapshot: GET /v2/snapshots lists them. docs/reference/engines.md shows which engines do.',
  },
  store_not_found: {
    status: 409,
    title: 'Store not found',
    problem: 'The deployment has no such disk, database or cache.',
    remedy: 'Name one that its `resource_spec` asks for: `database`, `redis`, or `disk:` and the `claimName`.',
  },
} as const satisfies ErrorCodes
