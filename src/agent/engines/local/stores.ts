// The steps that both engines of this machine take with the databases and disks of a deployment.
import { join } from 'node:path'
import { FolderStore } from '../../databases/archive-store.ts'
import { DatabaseBackups, type DatabaseHost } from '../../databases/backups.ts'
import { DatabaseHistory } from '../../databases/history.ts'
import type { EngineEvents, LogLevel, RevisionRef } from '../../engine.ts'
import type { DiskChange } from './disk-sizes.ts'
import type { Limits } from './limits.ts'
import type { Provisioner } from './provisioning.ts'
import type { Replica, ReplicaPool } from './replica-pool.ts'
import type { StoreUse } from './store-use.ts'

/** The parts of an engine that its stores use. */
export type StoreHost = {
  name: string
  home: string
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

export function openBackups(
  engine: StoreHost,
  host: DatabaseHost,
  max_bytes: (deployment_id: string) => number,
): DatabaseBackups {
  const work = join(engine.home, 'backups.work')
  return new DatabaseBackups({
    host,
    history: new DatabaseHistory(new FolderStore(join(engine.home, 'backups', engine.name)), work),
    engine: engine.name,
    work,
    max_waiting: engine.limits.waiting_wal,
    max_bytes,
    report: (id, message, isProblem) => logToDeployment(engine, id, message, isProblem ? 'ERROR' : 'INFO'),
  })
}

export function logToDeployment(engine: StoreHost, deployment_id: string, message: string, level: LogLevel): void {
  engine.forEachPoolOf(deployment_id, (_, ref) => engine.events().log(ref, message, level))
}

/** Copies end before a disk that is too full fills the disk of the machine. */
export function applyDiskChange(engine: StoreHost, deployment_id: string, { state, message }: DiskChange): void {
  logToDeployment(engine, deployment_id, message, state.full ? 'ERROR' : 'INFO')
  engine.forEachPoolOf(deployment_id, pool => {
    if (state.stopped) pool.killAllForReason(message, pool.replicas(), 'disk_full')
    else if (state.full) pool.recordIncident('disk_full', message)
  })
}

export function killCopies(engine: StoreHost, deployment_id: string, reason: string): void {
  engine.forEachPoolOf(deployment_id, pool => pool.killAllForReason(reason))
}

/** Copies go on with the old data until the new ones are ready, and then start again. */
export async function replaceDatabase(
  engine: StoreHost,
  deployment_id: string,
  replace: () => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  try {
    await replace()
  } finally {
    // The role may not log in now, or has the password of another time or deployment.
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
