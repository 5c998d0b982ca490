// Packs a folder as an archive that is the same, byte for byte, whenever its files are the same.
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import { createGzip } from 'node:zlib'
import ignore, { type Ignore } from 'ignore'
import { createTarPacker, type TarHeader } from 'modern-tar'
import { usageError } from './failure.ts'

export type Archive = { content: Blob; sha256: string; files: string[]; unpackedBytes: number }

const ALWAYS_IGNORED = ['.git', 'node_modules', '.slipway', '.DS_Store']
/** The second decides over the first, as those of a folder do over its parent's. */
const IGNORE_FILES = ['.gitignore', '.slipwayignore']
const EXAMPLES = ['.env.example', '.env.sample', '.env.template']
export function mayHoldSecrets(file: string): boolean {
  const name = basename(file)
  return (name === '.env' || name.startsWith('.env.')) && !EXAMPLES.includes(name)
}

const MAX_UNPACKED_BYTES = 2 * 1024 ** 3
const LARGE_FILE_BYTES = 1024 ** 2
const CHUNK_BYTES = 256 * 1024

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
  // As git does, which follows no links to them: another kind of file could have no end.
  const present = IGNORE_FILES.map(name => join(root, folder, name)).filter(isRegularFile)
  if (present.length === 0) return []
  return [{ folder, rules: ignore().add(present.map(file => fs.readFileSync(file, 'utf8')).join('\n')) }]
}

function* walk(root: string, folder: string, inherited: Rules): Generator<FoundFile> {
  const all = [...inherited, ...readRules(root, folder)]
  for (const name of fs.readdirSync(join(root, folder)).sort()) {
    if (ALWAYS_IGNORED.includes(name)) continue
    const path = folder + name
    const stats = statEntry(join(root, path), name)
    if (isIgnored(stats.isDirectory() ? `${path}/` : path, all)) continue
    if (stats.isDirectory()) yield* walk(root, `${path}/`, all)
    else if (stats.isFile() || stats.isSymbolicLink()) yield { path, stats }
  }
}

const isRegularFile = (file: string): boolean => fs.lstatSync(file, { throwIfNoEntry: false })?.isFile() === true

function statEntry(file: string, name: string): fs.Stats {
  const stats = fs.lstatSync(file, { throwIfNoEntry: false })
  if (stats) return stats
  if (name.includes('\ufffd')) throw usageError(`${file} has a name that is not UTF-8. Rename it.`)
  throw changedError(file)
}

const changedError = (file: string) => usageError(`${file} changed while it was read. Run the command again.`)

/** The files that a deploy would pack. */
export const listFiles = (root: string): string[] => [...walk(root, '', [])].map(({ path }) => path)

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

/** Calls `onFile` with the count of files so far. Holds the packed archive and one file at a time. */
export async function packFolder(root: string, onFile: (count: number) => void = () => {}): Promise<Archive> {
  const found = [...walk(root, '', [])]
  const unpackedBytes = found.reduce((sum, { stats }) => sum + (stats.isFile() ? stats.size : 0), 0)
  if (unpackedBytes > MAX_UNPACKED_BYTES)
    throw usageError(`The files of ${root} have more than 2 GB. List what the build does not need in .slipwayignore.`)
  const headers = found.map(file => describeFile(root, file))

  const { readable, controller } = createTarPacker()
  const hash = createHash('sha256')
  const chunks: Uint8Array<ArrayBuffer>[] = []
  async function collect(packed: AsyncIterable<Buffer<ArrayBuffer>>) {
    for await (const chunk of packed) {
      chunks.push(chunk)
      hash.update(chunk)
    }
  }
  async function addFiles() {
    for (const [i, header] of headers.entries()) {
      const entry = controller.add(header)
      if (header.type === 'symlink') await entry.close()
      else await pipeFile(join(root, header.name), header.size, entry)
      onFile(i + 1)
    }
    controller.finalize()
  }
  await Promise.all([pipeline(inLargeChunks(readable), createGzip(), collect), addFiles()])
  const files = headers.map(({ name }) => name)
  return { content: new Blob(chunks), sha256: hash.digest('hex'), files, unpackedBytes }
}

/** Each chunk costs the compression a switch of threads. */
async function* inLargeChunks(small: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let [pending, size]: [Uint8Array[], number] = [[], 0]
  for await (const chunk of small) {
    pending.push(chunk)
    size += chunk.length
    if (size < CHUNK_BYTES) continue
    yield Buffer.concat(pending)
    ;[pending, size] = [[], 0]
  }
  yield Buffer.concat(pending)
}

function describeFile(root: string, { path, stats }: FoundFile): TarHeader {
  const common = { name: path, mtime: new Date(0), uid: 0, gid: 0, uname: '', gname: '' }
  if (stats.isSymbolicLink())
    return { ...common, type: 'symlink', linkname: readLinkTarget(root, path), size: 0, mode: 0o777 }
  return { ...common, type: 'file', size: stats.size, mode: stats.mode & 0o111 ? 0o755 : 0o644 }
}

/** A file may have become a link or a pipe since it was found. Windows has neither of these. */
const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = fs.constants
const READ_FLAGS = O_RDONLY | O_NOFOLLOW | O_NONBLOCK

/** A file that is written to meanwhile has another size than its header says. */
async function pipeFile(file: string, size: number, entry: WritableStream<Uint8Array>): Promise<void> {
  try {
    if (size > LARGE_FILE_BYTES)
      return await (Readable.toWeb(fs.createReadStream(file, { flags: READ_FLAGS as never })) as ReadableStream).pipeTo(
        entry,
      )
    const writer = entry.getWriter()
    await writer.write(new Uint8Array(fs.readFileSync(file, { flag: READ_FLAGS as never })))
    await writer.close()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code && !['ENOENT', 'ELOOP'].includes(code)) throw error
    throw changedError(file)
  }
}
