// Keeps the temporary files of tests in memory on Linux. Postgres and builds make and remove thousands of files, and on
// a disk that takes a sixth of the CPU time of such tests.
import { mkdirSync, readdirSync, readFileSync, rmSync, statfsSync } from 'node:fs'
import { join } from 'node:path'

const MEMORY = '/dev/shm'
const PREFIX = 'slipway-tests-'
/** Several times the need of a run. */
const NEEDED_BYTES = 6 * 2 ** 30

/** Sets TMPDIR for this process and those it starts, unless it is set. Removes the folder when this process ends. */
export function useMemoryFolder(): void {
  if (process.env.TMPDIR || !hasRoom()) return
  for (const name of readdirSync(MEMORY)) {
    const [, pid] = new RegExp(`^${PREFIX}(\\d+)$`).exec(name) ?? []
    if (pid && !isRunning(Number(pid))) remove(join(MEMORY, name))
  }
  const folder = join(MEMORY, `${PREFIX}${process.pid}`)
  // Postgres and applications run as other users, if tests run as root.
  mkdirSync(folder, { mode: 0o755 })
  process.env.TMPDIR = folder
  process.once('exit', () => remove(folder))
}

/** Containers often have a small one, or none in which programs can run. */
function hasRoom(): boolean {
  if (process.platform !== 'linux') return false
  const mount = readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map(line => line.split(' '))
    .find(([, path, type]) => path === MEMORY && type === 'tmpfs')
  if (!mount || mount[3]!.split(',').includes('noexec')) return false
  const { bavail, bsize } = statfsSync(MEMORY)
  return bavail * bsize >= NEEDED_BYTES
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

const remove = (folder: string) => rmSync(folder, { recursive: true, force: true, maxRetries: 9 })
