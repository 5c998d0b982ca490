// Files and folders: atomic writes readable only by their owner, safe reads in untrusted folders, sizes, removal.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { promisify } from 'node:util'

const MISSING_CODES = new Set(['ENOENT', 'ENOTDIR', 'ELOOP'])

/** The space that is free on the file system of a folder. */
export function freeBytesOf(folder: string): number {
  const { bavail, bsize } = fs.statfsSync(folder)
  return bavail * bsize
}

function writeAtomically(file: string, text: string): void {
  fs.mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const temporary = `${file}.${process.pid}`
  fs.writeFileSync(temporary, text, { mode: 0o600, flush: true })
  fs.renameSync(temporary, file)
}

export const writeJson = (file: string, value: object) => writeAtomically(file, JSON.stringify(value))

export function readJson<T extends object>(file: string): T | undefined {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8')) as T
  } catch {
    return undefined
  }
}

export function readText(folder: string, name: string): string | null {
  return fs.lstatSync(join(folder, name), { throwIfNoEntry: false })?.isFile()
    ? (readInside(folder, name, Number.POSITIVE_INFINITY)?.text ?? null)
    : null
}

/** Undefined if there is no file. Checks the opened file, because its owner may replace the path by a link. */
export function readInside(
  folder: string,
  name: string,
  maxBytes: number,
): { text: string } | { text?: undefined; fault: 'outside' | 'unfit' } | undefined {
  let fd: number
  try {
    fd = fs.openSync(join(folder, name), fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)
  } catch (error) {
    if (MISSING_CODES.has((error as NodeJS.ErrnoException).code ?? '')) return undefined
    return { fault: 'unfit' }
  }
  try {
    const opened = process.platform === 'linux' ? `/proc/self/fd/${fd}` : join(folder, name)
    if (!fs.realpathSync(opened).startsWith(fs.realpathSync(folder) + sep)) return { fault: 'outside' }
    const stat = fs.fstatSync(fd)
    if (!stat.isFile() || stat.size > maxBytes) return { fault: 'unfit' }
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
 * Also removes read-only folders, which module caches contain. As root it uses `rm`, which walks by file handle, so
 * that no other user can redirect it with a link.
 */
export async function removeRecursively(path: string): Promise<void> {
  const isMissing = await fs.promises.lstat(path).then(
    () => false,
    ({ code }) => MISSING_CODES.has(code),
  )
  if (isMissing) return
  if (process.getuid?.() === 0 && process.platform === 'linux') {
    const removeAll = () => execFileAsync('rm', ['-rf', '--', path])
    // Root without CAP_DAC_OVERRIDE needs write permission too.
    await removeAll().catch(async () => {
      await execFileAsync('chmod', ['-R', 'u+rwX', '--', path])
      await removeAll()
    })
    return
  }
  const removeAll = () => fs.promises.rm(path, { recursive: true, force: true, maxRetries: 3 })
  await removeAll().catch(async error => {
    if (error.code !== 'EACCES' && error.code !== 'EPERM') throw error
    await makeWritable(path)
    await removeAll()
  })
}

async function makeWritable(folder: string): Promise<void> {
  await fs.promises.chmod(folder, 0o700)
  for (const entry of await fs.promises.readdir(folder, { withFileTypes: true }))
    if (entry.isDirectory()) await makeWritable(join(folder, entry.name))
}

/** The minimum that an entry counts, so the number of empty files is limited too. */
const MIN_ENTRY_BYTES = 4096

/** Counts hard links once and stops at the limit. A folder nested too deeply for a path counts as infinite. */
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
    // Reads entry by entry, because a folder may have millions. It may be removed while it is read.
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

/** A hash that changes whenever anything below the folder is written, added, removed or replaced. */
export async function stampFolder(folder: string): Promise<string> {
  const entries: string[] = []
  const open = ['']
  for (let at = open.pop(); at !== undefined; at = open.pop())
    for (const entry of await fs.promises.readdir(join(folder, at), { withFileTypes: true })) {
      const path = join(at, entry.name)
      if (entry.isDirectory()) open.push(path)
      const { mode, size, ctimeNs } = await fs.promises.lstat(join(folder, path), { bigint: true })
      entries.push(`${path}\0${mode}\0${entry.isDirectory() ? '' : `${size}\0${ctimeNs}`}`)
    }
  return createHash('sha256').update(entries.sort().join('\n')).digest('hex')
}
