// How the agent keeps things on disk: whole or not at all, for its owner's eyes only.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { promisify } from 'node:util'

const MISSING_CODES = new Set(['ENOENT', 'ENOTDIR', 'ELOOP'])

/** Renamed into its place, so that nobody ever reads half a file. */
export function writeAtomically(file: string, text: string): void {
  fs.mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const work = `${file}.${process.pid}`
  fs.writeFileSync(work, text, { mode: 0o600, flush: true })
  fs.renameSync(work, file)
}

export const writeJson = (file: string, value: object) => writeAtomically(file, JSON.stringify(value))

/** Undefined where it is missing or damaged: both mean that nothing is known. */
export function readJson<T extends object>(file: string): T | undefined {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8')) as T
  } catch {
    return undefined
  }
}

/** Of a file in a folder that is not ours: null where there is none, or a link. */
export function readText(folder: string, name: string): string | null {
  return fs.lstatSync(join(folder, name), { throwIfNoEntry: false })?.isFile()
    ? (readInside(folder, name, Number.POSITIVE_INFINITY)?.text ?? null)
    : null
}

/**
 * A file of a folder whose owner may put a link in its place at any moment, so what was opened is judged and not its
 * name. Undefined where there is none.
 */
export function readInside(
  folder: string,
  name: string,
  most: number,
): { text: string } | { text?: undefined; fault: 'outside' | 'unfit' } | undefined {
  let fd: number
  try {
    // A pipe would wait for somebody who writes to it.
    fd = fs.openSync(join(folder, name), fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)
  } catch (error) {
    if (MISSING_CODES.has((error as NodeJS.ErrnoException).code ?? '')) return undefined
    return { fault: 'unfit' }
  }
  try {
    const opened = process.platform === 'linux' ? `/proc/self/fd/${fd}` : join(folder, name)
    if (!fs.realpathSync(opened).startsWith(fs.realpathSync(folder) + sep)) return { fault: 'outside' }
    const stat = fs.fstatSync(fd)
    if (!stat.isFile() || stat.size > most) return { fault: 'unfit' }
    return { text: fs.readFileSync(fd, 'utf8') }
  } finally {
    fs.closeSync(fd)
  }
}

export function listFolder(folder: string): string[] {
  try {
    return fs.readdirSync(folder)
  } catch {
    return []
  }
}

const execFileAsync = promisify(execFile)

/**
 * Also what holds folders that their owner may not write into, as caches of modules do. Root does not walk folders of
 * other users by their names, since a link put in the place of one would lead it away: `rm` walks them by handle.
 */
export async function removeRecursively(path: string): Promise<void> {
  if (process.getuid?.() === 0 && process.platform === 'linux') {
    const removeAll = () => execFileAsync('rm', ['-rf', '--', path])
    // Root without all of its capabilities may not write everywhere either.
    await removeAll().catch(async () => {
      await execFileAsync('chmod', ['-R', 'u+rwX', '--', path])
      await removeAll()
    })
    return
  }
  const gone = () => fs.promises.rm(path, { recursive: true, force: true, maxRetries: 3 })
  await gone().catch(async error => {
    if (error.code !== 'EACCES' && error.code !== 'EPERM') throw error
    await makeWritable(path)
    await gone()
  })
}

/** Links lead elsewhere, and are left as they are. */
async function makeWritable(folder: string): Promise<void> {
  await fs.promises.chmod(folder, 0o700)
  for (const entry of await fs.promises.readdir(folder, { withFileTypes: true }))
    if (entry.isDirectory()) await makeWritable(join(folder, entry.name))
}

/** What an entry takes at least, so that empty files are not without end either. */
const MIN_ENTRY_BYTES = 4096

/**
 * Megabytes below a folder; files with several names count once. It stops counting at the limit. What is so deep that
 * it has no path counts as more than any limit.
 */
export async function measureMegabytes(folder: string, limit = Number.POSITIVE_INFINITY): Promise<number> {
  const seen = new Set<number>()
  let bytes = 0
  const open = [folder]
  const tooDeep = (error: NodeJS.ErrnoException) => {
    if (error.code === 'ENAMETOOLONG') bytes = Number.POSITIVE_INFINITY
    return undefined
  }
  const isOver = () => bytes >= limit * 1024 * 1024 || bytes === Number.POSITIVE_INFINITY
  for (let at = open.pop(); at !== undefined && !isOver(); at = open.pop()) {
    // A folder may have more entries than fit into memory, and may be taken away meanwhile.
    try {
      for await (const entry of await fs.promises.opendir(at, { bufferSize: 512 })) {
        const path = `${at}/${entry.name}`
        if (entry.isDirectory()) open.push(path)
        const stat = await fs.promises.lstat(path).catch(tooDeep)
        if (isOver()) break
        if (!stat || (stat.nlink > 1 && !entry.isDirectory() && seen.has(stat.ino))) continue
        seen.add(stat.ino)
        bytes += Math.max(stat.blocks * 512, MIN_ENTRY_BYTES)
      }
    } catch (error) {
      tooDeep(error as NodeJS.ErrnoException)
    }
  }
  return bytes / 1024 / 1024
}

/** Other where anything below a folder was written, added, taken away or put in the place of something else. */
export async function stampFolder(folder: string): Promise<string> {
  const found: string[] = []
  const open = ['']
  for (let at = open.pop(); at !== undefined; at = open.pop())
    for (const entry of await fs.promises.readdir(join(folder, at), { withFileTypes: true })) {
      const path = join(at, entry.name)
      if (entry.isDirectory()) open.push(path)
      const { mode, size, ctimeNs } = await fs.promises.lstat(join(folder, path), { bigint: true })
      // That of a folder tells what was put into it, too, and its files tell that better.
      found.push(`${path}\0${mode}\0${entry.isDirectory() ? '' : `${size}\0${ctimeNs}`}`)
    }
  return createHash('sha256').update(found.sort().join('\n')).digest('hex')
}
