// Fills a database with the data of another one, without touching its sessions: from its history, or from a snapshot.
import type { HeldSnapshot } from '../../protocol/snapshots.schema.ts'
import { type Engine, PermanentError, type RevisionSpec, type WriteLog } from '../engine.ts'
import { describeError } from '../redaction/error-messages.ts'
import type { Snapshots } from './snapshots.ts'

export type CopiedSnapshots = Pick<Snapshots, 'storesOf' | 'restore' | 'listHeld' | 'take' | 'remove' | 'requireSpace'>
type Place = { engine: Engine; snapshots: CopiedSnapshots }
type DatabaseSource = { deployment_id: string; name: string }

/** A snapshot that is older is not used: another one is taken first. */
const MAX_SNAPSHOT_AGE_MS = 24 * 3600_000
/** The compressed backup and the files that are unpacked of it. */
const NEEDED_SHARE = 2
const BYTES_PER_GI = 1024 ** 3

export async function copyDatabase(
  { engine, snapshots }: Place,
  spec: RevisionSpec,
  from: DatabaseSource,
  log: WriteLog,
  signal: AbortSignal,
): Promise<void> {
  const { deployment_id, name } = from
  if (!(await snapshots.storesOf(deployment_id)).includes('database'))
    throw new PermanentError(`\`${name}\` has no database with backups on this agent`)
  const size = engine.storeUsage?.().find(one => one.deployment_id === deployment_id && one.store === 'database')?.bytes
  if (size !== undefined) requireRoom(snapshots, spec, size)
  const restore = (snapshot_id: string) => snapshots.restore(spec, 'database', { snapshot_id }, signal)
  const take = () => snapshots.take({ deployment_id, store: 'database', reason: 'automatic' }, signal)
  if (engine.policy.features?.includes('database_history')) {
    const at = new Date()
    const error = await snapshots.restore(spec, 'database', { deployment_id, at }, signal).then(
      () => null,
      (error: Error) => error,
    )
    if (error === null) return log(`The database is a copy of that of ${name} at ${at.toISOString()}.`)
    signal.throwIfAborted()
    log(`The backups of the database of ${name} give no copy: ${describeError(error)}. A snapshot is taken.`, 'WARNING')
    const { id, taken_at } = await take()
    await restore(id).finally(() => snapshots.remove([id]))
    return log(`The database is a copy of that of ${name} at ${taken_at}.`)
  }
  const { id, taken_at } = findNewest(snapshots, deployment_id) ?? (await take())
  await restore(id)
  log(`The database is a copy of that of ${name} at ${taken_at}.`)
}

function requireRoom(snapshots: CopiedSnapshots, { resources }: RevisionSpec, bytes: number): void {
  if (bytes > resources.db_storage_gi * BYTES_PER_GI)
    throw new PermanentError(
      `it has ${(bytes / BYTES_PER_GI).toFixed(1)} GiB, more than the db_storage_gi of the copy, ` +
        `${resources.db_storage_gi}. Raise that in the resource_spec of the preview policy.`,
    )
  snapshots.requireSpace(bytes * NEEDED_SHARE, 'a copy of it')
}

function findNewest(snapshots: CopiedSnapshots, deployment_id: string): HeldSnapshot | undefined {
  const newest = snapshots
    .listHeld(deployment_id, 'database')
    .toSorted((a, b) => Date.parse(a.taken_at) - Date.parse(b.taken_at))
    .at(-1)
  // Its data were replaced on purpose.
  if (newest?.reason === 'before_restore') return undefined
  return newest && Date.now() - Date.parse(newest.taken_at) <= MAX_SNAPSHOT_AGE_MS ? newest : undefined
}
