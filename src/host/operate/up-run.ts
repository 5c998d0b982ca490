// State of a run of `slipway up` or `down` in /run, which ends with the machine, as the units do.
import { spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'

const FOLDER = '/run/slipway-up'

/**
 * Throws if another run has the lock. Returns a function that releases it. flock(1) locks the file that this process
 * keeps open, so the lock ends with the process, also when it is killed.
 */
export function lockRun(folder = FOLDER): () => void {
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  const file = fs.openSync(join(folder, 'lock'), 'w', 0o600)
  const { status, error } = spawnSync('flock', ['--exclusive', '--nonblock', '3'], {
    stdio: ['ignore', 'ignore', 'ignore', file],
  })
  if (status === 0) return () => fs.closeSync(file)
  fs.closeSync(file)
  throw new Error(
    error
      ? 'flock is missing. Install the package util-linux.'
      : 'Another `slipway up` or `slipway down` runs on this machine. Wait until it ends.',
  )
}

/** Units with files that changed since they started. A run that is killed leaves them to the next one. */
export function openPendingRestarts(folder = FOLDER) {
  const mark = (unit: string) => join(folder, `${unit}.restart`)
  return {
    /** Must be called before the file is written. */
    add(unit: string): void {
      fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
      fs.writeFileSync(mark(unit), '', { mode: 0o600 })
    },
    has: (unit: string): boolean => fs.existsSync(mark(unit)),
    /** Must be called after the unit was restarted. */
    remove: (unit: string): void => fs.rmSync(mark(unit), { force: true }),
  }
}
