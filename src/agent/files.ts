// How the agent keeps things on disk: whole or not at all, for its owner's eyes only.
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'

/** Renamed into its place, so that nobody ever reads half a file. */
export function write(file: string, text: string): void {
  fs.mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const work = `${file}.${process.pid}`
  fs.writeFileSync(work, text, { mode: 0o600, flush: true })
  fs.renameSync(work, file)
}

export const writeJson = (file: string, value: object) => write(file, JSON.stringify(value))

/** Undefined where it is missing or damaged: both mean that nothing is known. */
export function readJson<T extends object>(file: string): T | undefined {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8')) as T
  } catch {
    return undefined
  }
}

/** Of a file that is not ours: null where there is none, or a link, which could lead anywhere. */
export function readText(file: string): string | null {
  return fs.lstatSync(file, { throwIfNoEntry: false })?.isFile() ? fs.readFileSync(file, 'utf8') : null
}

export function list(folder: string): string[] {
  try {
    return fs.readdirSync(folder)
  } catch {
    return []
  }
}

/** Also what holds folders that their owner may not write into, as caches of modules do. */
export async function remove(path: string): Promise<void> {
  const gone = () => fs.promises.rm(path, { recursive: true, force: true, maxRetries: 3 })
  await gone().catch(async error => {
    if (error.code !== 'EACCES' && error.code !== 'EPERM') throw error
    await unlock(path)
    await gone()
  })
}

/** Links lead elsewhere, and are left as they are. */
async function unlock(folder: string): Promise<void> {
  await fs.promises.chmod(folder, 0o700)
  for (const entry of await fs.promises.readdir(folder, { withFileTypes: true }))
    if (entry.isDirectory()) await unlock(join(folder, entry.name))
}

/** Megabytes below a folder; files with several names count once. It stops counting at the limit. */
export async function sizeOf(folder: string, limit = Number.POSITIVE_INFINITY): Promise<number> {
  const seen = new Set<number>()
  let bytes = 0
  const open = [folder]
  for (let at = open.pop(); at !== undefined && bytes < limit * 1024 * 1024; at = open.pop()) {
    const entries = await fs.promises.readdir(at, { withFileTypes: true }).catch(() => [])
    for (const entry of entries) {
      const path = `${at}/${entry.name}`
      if (entry.isDirectory()) open.push(path)
      else {
        const stat = await fs.promises.lstat(path).catch(() => undefined)
        if (!stat || (stat.nlink > 1 && seen.has(stat.ino))) continue
        seen.add(stat.ino)
        bytes += stat.blocks * 512
      }
    }
  }
  return bytes / 1024 / 1024
}

/** Other where anything below a folder was written, added, taken away or put in the place of something else. */
export async function stampOf(folder: string): Promise<string> {
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
