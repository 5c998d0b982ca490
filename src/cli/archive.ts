// Packs a folder as an archive. The same files give the same bytes.
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import { createGzip } from 'node:zlib'
import { createTarPacker, type TarHeader } from 'modern-tar'
import * as rules from '../client/archive-rules.ts'
import { usageError } from './failure.ts'
import { formatBytes } from './output.ts'

/** Texts by name, in place of files of that name. */
export type AddedFiles = Record<string, string>
export type Archive = {
  content: Blob
  sha256: string
  files: string[]
  added: AddedFiles
  unpackedBytes: number
}
/** `secretFiles` are left out, because they may hold secrets. */
export type FoundFiles = { found: FoundFile[]; added: AddedFiles; secretFiles: string[]; bytes: number }

const LARGE_FILE_BYTES = 1024 ** 2
const CHUNK_BYTES = 256 * 1024

type FoundFile = { path: string; stats: fs.Stats }

function readRules(root: string, folder: string): rules.IgnoreRules[] {
  // Reads regular files only, as git does: a pipe behind a link could have no end.
  const present = rules.IGNORE_FILES.map(name => join(root, folder, name)).filter(isRegularFile)
  return rules.readRules(
    folder,
    present.map(file => fs.readFileSync(file, 'utf8')),
  )
}

function* walk(
  root: string,
  folder: string,
  inherited: rules.IgnoreRules[],
  secretFiles: string[],
): Generator<FoundFile> {
  const all = [...inherited, ...readRules(root, folder)]
  for (const name of fs.readdirSync(join(root, folder)).sort()) {
    if (rules.ALWAYS_IGNORED.includes(name)) continue
    const path = folder + name
    const stats = statEntry(join(root, path), name)
    if (rules.isIgnored(stats.isDirectory() ? `${path}/` : path, all)) {
      if (rules.mayHoldSecrets(path)) secretFiles.push(path)
      continue
    }
    if (stats.isDirectory()) yield* walk(root, `${path}/`, all, secretFiles)
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

export const listFiles = (root: string): string[] => findFiles(root).found.map(({ path }) => path)

/** The files that are packed, and their size. Fails at once if they are too many bytes. */
export function findFiles(root: string, added: AddedFiles = {}, only: string[] = []): FoundFiles {
  const secretFiles: string[] = []
  const all = [rules.MADE_RULES, rules.SECRET_RULES]
  const starts = only.length === 0 ? [''] : only.filter(one => !only.some(other => one.startsWith(`${other}/`)))
  const walked = [...new Set(starts)].flatMap(start => [...walk(root, start && `${start}/`, all, secretFiles)])
  const found = walked.filter(({ path }) => added[path] === undefined)
  const addedBytes = Object.values(added).reduce((sum, text) => sum + Buffer.byteLength(text), 0)
  const bytes = found.reduce((sum, { stats }) => sum + sizeOf(stats), addedBytes)
  if (bytes > rules.MAX_UNPACKED_BYTES) throw tooLarge(root, found, 'The files', '2 GB')
  return { found, added, secretFiles, bytes }
}

const sizeOf = (stats: fs.Stats) => (stats.isFile() ? stats.size : 0)

const MAX_NAMED = 3
function tooLarge(root: string, found: FoundFile[], subject: string, limit: string) {
  const sizes = new Map<string, number>()
  for (const { path, stats } of found) {
    const name = path.replace(/\/.*$/s, '/')
    sizes.set(name, (sizes.get(name) ?? 0) + sizeOf(stats))
  }
  const largest = [...sizes].sort(([, a], [, b]) => b - a).slice(0, MAX_NAMED)
  const named = largest.map(([name, size]) => `${name} (${formatBytes(size)})`).join(', ')
  return usageError(
    `${subject} of ${root} have more than ${limit}. The largest are ${named}. ` +
      'List what the build does not need in .slipwayignore.',
    'slipway deploy --dry-run',
  )
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

/** Calls `onFile` with the count of files so far. Holds the packed archive and one file at a time. */
export async function packFolder(
  root: string,
  onFile: (count: number) => void = () => {},
  { found, bytes: unpackedBytes, added }: FoundFiles = findFiles(root),
): Promise<Archive> {
  const headers = found.map(file => describeFile(root, file))

  const { readable, controller } = createTarPacker()
  const hash = createHash('sha256')
  const chunks: Uint8Array<ArrayBuffer>[] = []
  let packedBytes = 0
  async function collect(packed: AsyncIterable<Buffer<ArrayBuffer>>) {
    for await (const chunk of packed) {
      packedBytes += chunk.length
      if (packedBytes > rules.MAX_ARCHIVE_BYTES) throw tooLarge(root, found, 'Packed, the files', '200 MB')
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
    for (const [name, text] of Object.entries(added)) {
      const bytes = new TextEncoder().encode(text)
      const writer = controller.add(rules.describeFile(name, bytes.length, false)).getWriter()
      await writer.write(bytes)
      await writer.close()
    }
    controller.finalize()
  }
  await Promise.all([pipeline(inLargeChunks(readable), createGzip(), collect), addFiles()])
  const files = [...headers.map(({ name }) => name), ...Object.keys(added)]
  return { content: new Blob(chunks), sha256: hash.digest('hex'), files, added, unpackedBytes }
}

/** Joins small chunks, because the compression of each chunk costs a switch of threads. */
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

const describeFile = (root: string, { path, stats }: FoundFile): TarHeader =>
  stats.isSymbolicLink()
    ? rules.describeLink(path, readLinkTarget(root, path))
    : rules.describeFile(path, stats.size, (stats.mode & 0o111) !== 0)

/** Prevents a file that was replaced by a link or a pipe from being followed. Windows has neither flag. */
const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = fs.constants
const READ_FLAGS = O_RDONLY | O_NOFOLLOW | O_NONBLOCK

/** Fails if the file no longer has the size that its header says. */
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
