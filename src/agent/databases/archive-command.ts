// The command by which Postgres archives a WAL file, with a shell and the usual commands, and the way back.
import { PermanentError } from '../engine.ts'

/**
 * Paths are relative to the data folder, in which it runs. A file gets its name when it is on the disk. It is written
 * again if the server has forgotten that it was. While the file `paused` exists, WAL is let go.
 */
export const archiveCommand = (folder: string, paused: string): string =>
  `test -e "${paused}" || { cp "%p" "${folder}/%f.part" && { sync "${folder}/%f.part" || sync; } && ` +
  `mv "${folder}/%f.part" "${folder}/%f" && { sync "${folder}" || sync; }; }`

/** A program that runs the WAL of a folder up to a time, or null: all of it. `folder`: relative, too. */
export const recoverySettings = (folder: string, at: Date | null) => ({
  restore_command: `cp "${folder}/%f" "%p"`,
  ...(at && {
    recovery_target_time: at.toISOString().replace('T', ' ').replace('Z', '+00'),
    recovery_target_action: 'promote',
  }),
})

/** For a server that reads a backup and then ends. */
export const RECOVERY_SETTINGS = { archive_mode: 'off', hot_standby: 'off' }

/** The WAL ends before the time. `at`: of its last transaction, or null if it has none. */
export class RecoveryEnded extends PermanentError {
  override name = 'RecoveryEnded'
  readonly at: Date | null

  constructor(at: Date | null) {
    const end = at ? `at ${at.toISOString()}, ` : ''
    super(`The backups of this database end ${end}before that time. Choose an earlier one.`)
    this.at = at
  }
}

/** From the last lines of its log. */
export function recoveryError(lines: string): PermanentError {
  if (!lines.includes('recovery ended before configured recovery target was reached'))
    return new PermanentError(`The backup cannot be restored. The log of Postgres ends with:\n${lines}`)
  const [, text = ''] = /last completed transaction was at log time ([-\d]+ [:.\d]+\+\d\d)/.exec(lines) ?? []
  const at = new Date(text)
  return new RecoveryEnded(Number.isNaN(at.getTime()) ? null : at)
}
