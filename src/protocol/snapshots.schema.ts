// Schemas of snapshots: copies of what lasts of a deployment, which agents keep and tell the control plane of.
import * as z from 'zod'
import { AgentId, Fence } from './sync-fields.schema.ts'
import { arrayOf, boundedText, Instant, Uuid } from './wire.ts'

export const StoreName = boundedText(80)
  .regex(/^(database|redis|disk:[a-z0-9][-a-z0-9.]{0,62})$/, { error: 'must be database, redis or disk:NAME' })
  .meta({ description: '`database`, `redis`, or `disk:` and the name of a claim.', example: 'disk:media' })
export type StoreName = z.output<typeof StoreName>

export type StoreKind = 'database' | 'redis' | 'disk'
export const kindOfStore = (store: string): StoreKind =>
  store.startsWith('disk:') ? 'disk' : (store as 'database' | 'redis')
export const diskOfStore = (store: string): string | null => (store.startsWith('disk:') ? store.slice(5) : null)

const snapshotReasons = ['manual', 'schedule', 'automatic', 'before_release', 'before_restore', 'last'] as const
export type SnapshotReason = (typeof snapshotReasons)[number]
export const SnapshotReason = z.enum(snapshotReasons).meta({
  description:
    '`before_release`: before the release command of a revision. `before_restore`: what a restore replaced. `last`: ' +
    'before the data were removed. `automatic`: by the agent itself.',
})

export const TakeAction = z.object({ type: z.literal('snapshot'), store: StoreName })
const restore = { type: z.literal('restore'), store: StoreName }
const RestoreAction = z.union([
  z.object({ ...restore, snapshot_id: Uuid }),
  z.object({ ...restore, from_deployment_id: Uuid, at: Instant }),
])
/** Runs instead of a command. */
export const JobAction = z
  .union([TakeAction, RestoreAction])
  .meta({ id: 'JobAction', description: 'What the platform does itself, instead of a command.' })
export type JobAction = z.output<typeof JobAction>

/** The most that a workspace has in the control plane. */
export const MAX_SNAPSHOTS = 10_000
export const MAX_HELD = 200

export const HeldSnapshot = z.object({
  id: Uuid,
  deployment_id: Uuid,
  store: StoreName,
  size_bytes: z.int().min(0).max(Number.MAX_SAFE_INTEGER),
  reason: SnapshotReason,
  taken_at: Instant,
  expires_at: Instant.nullish().meta({ description: 'Null: kept while it is the newest of its store.' }),
})
export type HeldSnapshot = z.output<typeof HeldSnapshot>

export const HeldSnapshots = z
  .object({
    agent_id: AgentId,
    fence: Fence,
    held: arrayOf(HeldSnapshot, MAX_HELD).meta({ description: 'In the order of their ids.' }),
    after: Uuid.nullish().meta({ description: 'These are all with an id above it. Null: from the first.' }),
    until: Uuid.nullish().meta({ description: 'These are all with an id up to it. Null: to the last.' }),
  })
  .meta({
    id: 'HeldSnapshots',
    description: 'The snapshots that an agent has, in pages by their ids.',
    example: { agent_id: 'agent-1', fence: 1, held: [], after: null, until: null },
  })
export type HeldSnapshots = z.output<typeof HeldSnapshots>

export const SnapshotReceipt = z
  .object({ forget: z.array(Uuid).meta({ description: 'Delete these: they were deleted by a user.' }) })
  .meta({ id: 'SnapshotReceipt' })
export type SnapshotReceipt = z.output<typeof SnapshotReceipt>
