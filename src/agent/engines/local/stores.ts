// The steps that both engines of this machine take with the databases and disks of a deployment.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { listDisks } from '../../../protocol/disks.ts'
import { FolderStore } from '../../archive/archive-store.ts'
import type { BucketStore } from '../../archive/bucket-store.ts'
import { MovingStore } from '../../archive/moving-store.ts'
import { DatabaseBackups } from '../../databases/backups.ts'
import type { DatabaseHost } from '../../databases/database-host.ts'
import { DatabaseHistory } from '../../databases/history.ts'
import type { EngineEvents, LogLevel, RestorePoint, RevisionRef, RevisionSpec } from '../../engine.ts'
import { freeBytesOf, writeJson } from '../../system/files.ts'
import { type DiskRoom, describeOvercommitment } from './disk-room.ts'
import { type DiskChange, DiskSizes } from './disk-sizes.ts'
import type { Limits } from './limits.ts'
import type { Provisioner } from './provisioning.ts'
import type { Replica } from './replica.ts'
import type { ReplicaPool } from './replica-pool.ts'
import type { StoreUse } from './store-use.ts'

/** The parts of an engine that its stores use. */
export type StoreHost = {
  name: string
  home: string
  /** Undefined: backups are in the home. */
  archive: BucketStore | undefined
  limits: Limits
  provisioner: Provisioner
  storeUse: StoreUse
  events(): EngineEvents
  deployments(): Promise<string[]>
  path(deployment_id: string, ...rest: string[]): string
  forEachPoolOf(deployment_id: string, work: (pool: ReplicaPool, ref: RevisionRef) => void): void
  /** Ends the copies, does the work, and lets them start again. */
  withoutCopies(
    deployment_id: string,
    reason: string,
    isLeft: (replica: Replica) => boolean,
    work: () => Promise<void>,
  ): Promise<void>
}

/** Requests wait so long at most while the files of their application are copied. */
const MAX_PAUSE_MS = 10_000
const MIB = 1024 ** 2
const GIB = 1024 ** 3

export function openBackups(
  engine: StoreHost,
  host: DatabaseHost,
  max_bytes: (deployment_id: string) => number,
): DatabaseBackups {
  const { archive, home, name, limits } = engine
  const work = join(home, 'backups.work')
  const inHome = new FolderStore(join(home, 'backups', name))
  const store = archive ? new MovingStore(archive.below(`databases/${name}`), inHome) : inHome
  return new DatabaseBackups({
    host,
    history: new DatabaseHistory(store, work),
    engine: name,
    work,
    removals: join(home, 'backups.removed', name),
    max_waiting: limits.waiting_wal,
    patience_ms: limits.backup_patience_ms,
    changed: id => engine.events().changed(id),
    max_bytes,
    report: (id, message, isProblem) => logToDeployment(engine, id, message, isProblem ? 'ERROR' : 'INFO'),
  })
}

export function logToDeployment(engine: StoreHost, deployment_id: string, message: string, level: LogLevel): void {
  engine.forEachPoolOf(deployment_id, (_, ref) => engine.events().log(ref, message, level))
}

/** Copies end before a disk that is too full fills the disk of the machine. */
export function applyDiskChange(engine: StoreHost, deployment_id: string, { state, message }: DiskChange): void {
  logToDeployment(engine, deployment_id, message, state.full || state.crowding ? 'ERROR' : 'INFO')
  engine.forEachPoolOf(deployment_id, pool => {
    if (state.stopped || state.crowding) pool.killAllForReason(message, pool.replicas(), 'disk_full')
    else if (state.full) pool.recordIncident('disk_full', message)
  })
}

/** `folder`: on the file system of the disks. Nothing if the agent does not see it. */
export function shareRoom(engine: StoreHost, room: DiskRoom, folder: string): void {
  const free_mb = freeMegabytesOf(folder)
  if (free_mb === undefined) return
  for (const { deployment_id, change } of room.share(free_mb)) applyDiskChange(engine, deployment_id, change)
}

/** Sizes are not reserved: together they may be more than there is. */
export async function warnOfSpace(
  engine: StoreHost,
  { resources, ...ref }: RevisionSpec,
  folder: string,
): Promise<void> {
  const free_mb = listDisks(resources).length > 0 ? freeMegabytesOf(folder) : undefined
  if (free_mb === undefined) return
  const used = new Map(engine.storeUse.list().map(one => [`${one.deployment_id}/${one.store}`, one.bytes / GIB]))
  let all_gi = 0
  for (const id of await engine.deployments()) {
    const sizes = new DiskSizes(engine.path(id))
    for (const name of sizes.list()) all_gi += Math.max(0, sizes.sizeOf(name) - (used.get(`${id}/disk:${name}`) ?? 0))
  }
  const warning = describeOvercommitment(all_gi, free_mb)
  if (warning) engine.events().log(ref, warning, 'WARNING')
}

function freeMegabytesOf(folder: string): number | undefined {
  try {
    return freeBytesOf(folder) / MIB
  } catch {
    return undefined
  }
}

export function killCopies(engine: StoreHost, deployment_id: string, reason: string): void {
  engine.forEachPoolOf(deployment_id, pool => pool.killAllForReason(reason))
}

/** Says that data which were made in place of lost ones are not restored yet. */
const emptyMark = (engine: StoreHost, deployment_id: string) => engine.path(deployment_id, 'database-empty.json')
/** The database has no data that anything may use. */
export const isDatabaseEmpty = (engine: StoreHost, deployment_id: string): boolean =>
  fs.existsSync(emptyMark(engine, deployment_id))

/** Rejects instead of an empty database where there was another one. `hasData`: its data are there. */
export async function refuseEmptyDatabase(
  engine: StoreHost,
  backups: DatabaseBackups,
  deployment_id: string,
  hasData: boolean,
): Promise<void> {
  if (isDatabaseEmpty(engine, deployment_id))
    throw new Error('The restore of its database was cut off, or is not done yet. Restore it again.')
  if (!hasData) await backups.refuseEmpty(deployment_id)
}

/**
 * Copies go on with the old data until the new ones are ready, and then start again. `makeEmpty`: makes a database to
 * restore into where the data are gone, and starts it.
 */
export async function restoreDatabase(
  engine: StoreHost,
  backups: DatabaseBackups,
  { deployment_id, hasData, makeEmpty }: { deployment_id: string; hasData: boolean; makeEmpty: () => Promise<void> },
  from: RestorePoint,
  signal: AbortSignal,
): Promise<void> {
  const isEmpty = !hasData || isDatabaseEmpty(engine, deployment_id)
  if (isEmpty) {
    writeJson(emptyMark(engine, deployment_id), {})
    await makeEmpty()
  }
  try {
    await backups.restore(deployment_id, from, signal, isEmpty)
    fs.rmSync(emptyMark(engine, deployment_id), { force: true })
  } finally {
    // The role may not log in now, or has the password of another time or deployment.
    await engine.provisioner.forget(deployment_id)
    engine.provisioner.start(deployment_id, true)
  }
  await engine.provisioner.waitUntilReady(deployment_id, signal)
  killCopies(engine, deployment_id, 'its database was restored')
}

/** So that a copy of their files is of one moment. A copy that takes longer goes on while they run. */
export async function whilePaused(pause: () => Promise<() => Promise<void>>, work: () => Promise<void>): Promise<void> {
  const resume = await pause()
  const timer = setTimeout(() => void resume(), MAX_PAUSE_MS)
  try {
    await work()
  } finally {
    clearTimeout(timer)
    await resume()
  }
}
