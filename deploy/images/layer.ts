// One layer of an image: a compressed tar whose bytes depend on its files only, not on the machine that packs it.
import { createHash } from 'node:crypto'
import { gzipSync } from 'fflate'
import { packTar, type TarEntry } from 'modern-tar'

export type ImageFile =
  | { path: string; mode: number; body: Uint8Array }
  | { path: string; link: string }
  /** A folder needs an entry only if it is empty, or not 755 of root. */
  | { path: string; folderMode: number; owner?: number }
export type Layer = { title: string; digest: string; diffId: string; blob: Uint8Array; size: number }

/** The time of everything that is not of a commit. npm packs with the same one. */
export const FIXED_TIME = new Date('1985-10-26T08:15:00Z')

export const sha256 = (bytes: Uint8Array | string) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
const byPath = (a: { path: string }, b: { path: string }) => Buffer.compare(Buffer.from(a.path), Buffer.from(b.path))

export async function packLayer(title: string, files: ImageFile[], mtime = FIXED_TIME): Promise<Layer> {
  const tar = await packTar(listEntries(files).map(file => toTarEntry(file, mtime)))
  // Node's own zlib compresses differently on processors with other instructions.
  const blob = gzipSync(tar, { level: 6, mtime: 0 })
  return { title, digest: sha256(blob), diffId: sha256(tar), blob, size: tar.length }
}

/** Sorted, with the parents of each file, so that no folder depends on what unpacks the layer. */
export function listEntries(files: ImageFile[]): ImageFile[] {
  const entries = new Map<string, ImageFile>()
  for (const file of files) {
    for (let end = file.path.indexOf('/'); end > 0; end = file.path.indexOf('/', end + 1)) {
      const path = file.path.slice(0, end)
      if (!entries.has(path)) entries.set(path, { path, folderMode: 0o755 })
    }
    const other = entries.get(file.path)
    if (other && !('folderMode' in other)) throw new Error(`Two files of a layer have the path ${file.path}.`)
    entries.set(file.path, file)
  }
  return [...entries.values()].sort(byPath)
}

function toTarEntry(file: ImageFile, mtime: Date): TarEntry {
  const common = { mtime, uid: 0, gid: 0, uname: '', gname: '', size: 0 }
  if ('body' in file) {
    const { path: name, mode, body } = file
    return { header: { ...common, name, mode, size: body.length, type: 'file' }, body }
  }
  if ('link' in file)
    return { header: { ...common, name: file.path, mode: 0o777, type: 'symlink', linkname: file.link } }
  const { path, folderMode, owner = 0 } = file
  return { header: { ...common, name: `${path}/`, mode: folderMode, uid: owner, gid: owner, type: 'directory' } }
}
