// Opens the files of a folder that belongs to an application's user, who may change it at the same time. On Linux each
// name is opened in the open folder above it, and never through a link, so that no change leads the agent elsewhere.
import * as fs from 'node:fs'
import { basename, dirname, join, relative, sep } from 'node:path'
import { PermanentError } from '../engine.ts'
import type { User } from '../system/users.ts'

export type WalkedFile = { path: string; handle: fs.promises.FileHandle; size: number }
type WalkOptions = {
  /** For messages, such as `dist`. */
  name: string
  user: User | undefined
  /** Folders and files that are left out, by their path such as `/.git`. */
  isSkipped: (path: string) => boolean
  maxEntries: number
}
type Folder = { handle: fs.promises.FileHandle; real: string }
type Kind = 'file' | 'folder' | 'link' | 'other'

const MAX_DEPTH = 64
const { O_RDONLY, O_NONBLOCK, O_NOFOLLOW, O_DIRECTORY } = fs.constants

/** `base` is a real path below `tree`, whose own parents belong to the agent. The caller closes the files. */
export async function* walkFolder(tree: string, base: string, options: WalkOptions): AsyncGenerator<WalkedFile> {
  const { name, user, isSkipped, maxEntries } = options
  const nameOf = (path: string) => (path === '' ? `\`${name}\`` : `\`${path.slice(1)}\` in \`${name}\``)
  /** It may be removed, or replaced by a link, at any time. */
  const asReadable = <T>(path: string, reading: Promise<T>): Promise<T> =>
    reading.catch(() => {
      throw new PermanentError(`${nameOf(path)} cannot be read. Check its name and mode, and deploy again.`)
    })
  let entries = 0

  async function* walk(path: string, folder: Folder, above: string[]): AsyncGenerator<WalkedFile> {
    if (above.includes(folder.real))
      throw new PermanentError(`${nameOf(path)} is a link to a folder above it. Remove it.`)
    if (above.length > MAX_DEPTH) throw new PermanentError(`${nameOf(path)} is more than ${MAX_DEPTH} folders deep.`)
    for (const entry of await asReadable(path, listSorted(folder, maxEntries))) {
      const child = `${path}/${entry.name}`
      if (isSkipped(child)) continue
      if (++entries > maxEntries)
        throw new PermanentError(`\`${name}\` has more than ${maxEntries} files. A static site cannot have more.`)
      if (kindOf(entry) === 'link') yield* follow(child, folder, entry.name, above)
      else yield* visit(child, folder, entry.name, kindOf(entry), above)
    }
  }

  async function* follow(path: string, folder: Folder, name: string, above: string[]): AsyncGenerator<WalkedFile> {
    const target = await fs.promises.realpath(pathIn(folder, name)).catch(() => '')
    if (!target.startsWith(base + sep)) throw new PermanentError(leadsOut(nameOf(path)))
    const holder = await openFolders(tree, dirname(target)).catch(() => {
      throw new PermanentError(leadsOut(nameOf(path)))
    })
    try {
      const stat = await fs.promises.lstat(pathIn(holder, basename(target))).catch(() => undefined)
      yield* visit(path, holder, basename(target), stat ? kindOf(stat) : 'other', [...above, folder.real])
    } finally {
      await holder.handle.close()
    }
  }

  async function* visit(path: string, folder: Folder, name: string, kind: Kind, above: string[]) {
    if (kind === 'file') yield await openFile(path, folder, name)
    else if (kind === 'folder') {
      const inner = await asReadable(path, openFolder(folder, name))
      try {
        yield* walk(path, inner, [...above, folder.real])
      } finally {
        await inner.handle.close()
      }
    } else throw new PermanentError(`${nameOf(path)} is neither a file nor a folder. Remove it.`)
  }

  async function openFile(path: string, folder: Folder, name: string): Promise<WalkedFile> {
    const opening = fs.promises.open(pathIn(folder, name), O_RDONLY | O_NONBLOCK | O_NOFOLLOW)
    const handle = await asReadable(path, opening)
    try {
      const real = await asReadable(path, realPathOf(handle, join(folder.real, name)))
      if (!real.startsWith(base + sep)) throw new PermanentError(leadsOut(nameOf(path)))
      const stat = await handle.stat()
      if (!stat.isFile()) throw new PermanentError(`${nameOf(path)} is neither a file nor a folder. Remove it.`)
      // A hard link gives a file of another user a path inside.
      if (user && stat.uid !== user.uid)
        throw new PermanentError(`${nameOf(path)} belongs to another user than the build. Remove it.`)
      return { path, handle, size: stat.size }
    } catch (error) {
      await handle.close()
      throw error
    }
  }

  const start = await asReadable('', openFolders(tree, base))
  try {
    yield* walk('', start, [])
  } finally {
    await start.handle.close()
  }
}

const leadsOut = (name: string) =>
  `${name} is a link that leads out of the folder. Replace it by the file, or remove it, and deploy again.`

const isLinux = process.platform === 'linux'
const pathIn = ({ handle, real }: Folder, name: string) => join(isLinux ? `/proc/self/fd/${handle.fd}` : real, name)
const realPathOf = (handle: fs.promises.FileHandle, path: string) =>
  fs.promises.realpath(isLinux ? `/proc/self/fd/${handle.fd}` : path)

const kindOf = (entry: fs.Dirent | fs.Stats): Kind =>
  entry.isFile() ? 'file' : entry.isDirectory() ? 'folder' : entry.isSymbolicLink() ? 'link' : 'other'

const openFolder = async (parent: Folder, name: string): Promise<Folder> => ({
  handle: await fs.promises.open(pathIn(parent, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW),
  real: join(parent.real, name),
})

/** Opens each folder between the two in the one above it. */
async function openFolders(tree: string, real: string): Promise<Folder> {
  let at: Folder = { handle: await fs.promises.open(tree, O_RDONLY | O_DIRECTORY | O_NOFOLLOW), real: tree }
  for (const name of relative(tree, real).split(sep)) {
    if (name === '') continue
    const above = at
    try {
      at = await openFolder(above, name)
    } finally {
      await above.handle.close()
    }
  }
  return at
}

/** Reads entry by entry, because a folder may have millions. Sorted, so that the same files are the same site. */
async function listSorted(folder: Folder, max: number): Promise<fs.Dirent[]> {
  const entries: fs.Dirent[] = []
  for await (const entry of await fs.promises.opendir(pathIn(folder, '.'))) if (entries.push(entry) > max) break
  return entries.sort((a, b) => (a.name < b.name ? -1 : 1))
}
