// The databases of an engine, as backups see them.
import type { Readable } from 'node:stream'

/**
 * `wal`: a folder of WAL files to read up to `at`, or to their end. Without it, the base backup alone is restored.
 * `gap`: the first WAL file that should be there and is not, and the time from which the base backup can be restored.
 */
export type RestoreSource = { base: string; history?: { wal: string; at: Date | null; gap?: Gap } }
type Gap = { missing: string; after: Date }

export interface DatabaseHost {
  /** Names the data folder. Undefined: there is no database that can be backed up. */
  generationOf(deployment_id: string): string | undefined
  /** The major version of Postgres that it runs. */
  majorVersion(deployment_id: string): Promise<number>
  /** The first row, as texts. */
  query(deployment_id: string, sql: string): Promise<string[]>
  /** Ends the sessions of applications, and lets no other in until the database is opened again. */
  closeToApplications(deployment_id: string): Promise<void>
  /** A tar of the data folder, with the WAL that makes it consistent. */
  openBackup(deployment_id: string): Promise<Readable>
  /** WAL files that Postgres has archived and that were not removed yet. */
  listWal(deployment_id: string): Promise<string[]>
  openWal(deployment_id: string, name: string): Promise<Readable>
  removeWal(deployment_id: string, name: string): Promise<void>
  /** Rejects if Postgres cannot archive. False: it could not for long, and goes on without until `resumeArchiving`. */
  isArchiving(deployment_id: string): Promise<boolean>
  /** Postgres lets its WAL go. The next agent finds it so. */
  pauseArchiving(deployment_id: string): Promise<void>
  resumeArchiving(deployment_id: string): Promise<void>
  /**
   * Makes a new data folder of a backup, and puts it into the place of the present one as the last step. `beforeSwitch`
   * is called with the name of the old one.
   */
  restore(
    deployment_id: string,
    source: RestoreSource,
    beforeSwitch: (generation: string | undefined) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void>
}
