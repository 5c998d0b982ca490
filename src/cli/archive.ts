// Packs a folder as an archive that is the same, byte for byte, whenever its files are the same.
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import ignore, { type Ignore } from 'ignore'
import { packTar, type TarEntry } from 'modern-tar'
import { usageError } from './failure.ts'

export type Archive = { bytes: Uint8Array<ArrayBuffer>; sha256: string; files: string[]; unpackedBytes: number }

const ALWAYS_IGNORED = ['.git', 'node_modules', '.slipway', '.DS_Store']
/** The second decides over the first, as those of a folder do over its parent's. */
const IGNORE_FILES = ['.gitignore', '.slipwayignore']
const MAX_UNPACKED_BYTES = 2 * 1024 ** 3

type Rules = { folder: string; rules: Ignore }[]
type FoundFile = { path: string; stats: fs.Stats }

/** `path` is relative to the root, with a slash at the end of a folder's. */
function isIgnored(path: string, all: Rules): boolean {
  let ignored = false
  for (const { folder, rules } of all) {
    const result = rules.test(path.slice(folder.length))
    if (result.ignored) ignored = true
    else if (result.unignored) ignored = false
  }
  return ignored
}

function readRules(root: string, folder: string): Rules {
  const present = IGNORE_FILES.map(name => join(root, folder, name)).filter(fs.existsSync)
  if (present.length === 0) return []
  return [{ folder, rules: ignore().add(present.map(file => fs.readFileSync(file, 'utf8')).join('\n')) }]
}

function* walk(root: string, folder: string, inherited: Rules): Generator<FoundFile> {
  const all = [...inherited, ...readRules(root, folder)]
  for (const name of fs.readdirSync(join(root, folder)).sort()) {
    if (ALWAYS_IGNORED.includes(name)) continue
    const path = folder + name
    const stats = fs.lstatSync(join(root, path))
    if (isIgnored(stats.isDirectory() ? `${path}/` : path, all)) continue
    if (stats.isDirectory()) yield* walk(root, `${path}/`, all)
    else if (stats.isFile() || stats.isSymbolicLink()) yield { path, stats }
  }
}

/** Links stay links, so they have to lead to something that is in the archive too. */
function readLinkTarget(root: string, path: string): string {
  const target = fs.readlinkSync(join(root, path))
  if (!fs.existsSync(join(root, path)))
    throw usageError(`${path} is a link to ${target}, which does not exist. Remove it, or list it in .slipwayignore.`)
  const inside = fs.realpathSync(join(root, path)).startsWith(`${fs.realpathSync(root)}/`)
  if (target.startsWith('/') || !inside)
    throw usageError(`${path} is a link out of the folder, to ${target}. Copy the file, or list it in .slipwayignore.`)
  return target
}

export async function packFolder(root: string): Promise<Archive> {
  const entries: TarEntry[] = []
  let unpackedBytes = 0
  for (const { path, stats } of walk(root, '', [])) {
    const common = { name: path, mtime: new Date(0), uid: 0, gid: 0, uname: '', gname: '' }
    if (stats.isSymbolicLink()) {
      const linkname = readLinkTarget(root, path)
      entries.push({ header: { ...common, type: 'symlink', linkname, size: 0, mode: 0o777 } })
      continue
    }
    unpackedBytes += stats.size
    if (unpackedBytes > MAX_UNPACKED_BYTES)
      throw usageError(`The files of ${root} have more than 2 GB. List what the build does not need in .slipwayignore.`)
    const body = new Uint8Array(fs.readFileSync(join(root, path)))
    const mode = stats.mode & 0o111 ? 0o755 : 0o644
    entries.push({ header: { ...common, type: 'file', size: body.length, mode }, body })
  }
  const bytes = new Uint8Array(gzipSync(await packTar(entries)))
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  return { bytes, sha256, files: entries.map(({ header }) => header.name), unpackedBytes }
}
