// Downloads an uploaded archive, verifies its digest, and unpacks it as untrusted input.
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { addAbortSignal, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { streamedFetch } from '../../kernel/db/streamed-fetch.ts'
import { ARCHIVE_BOUNDS, createTarReader, type TarEntry } from '../../protocol/tar-reader.ts'
import { type BuildTask, PermanentError, TransientError } from '../engine.ts'
import { describeError } from '../redaction/error-messages.ts'

export type ArchiveSource = { url: string; sha256: string; size: number }
type ArchiveLimits = { megabytes: number; entries: number; depth: number }

const { entries, depth, pathLength } = ARCHIVE_BOUNDS
export const ARCHIVE_LIMITS: ArchiveLimits = { megabytes: 2_048, entries, depth }
const DOWNLOAD_TIMEOUT_MS = 5 * 60_000
const MAX_NAME_BYTES = 255
/** The limit of a path in the target folder, whose own path also counts towards the limit of the system. */
const MAX_PATH_BYTES = pathLength

/** The download link has expired; the control plane issues a new one. */
export class LinkExpired extends TransientError {}

const describeSize = (bytes: number) => {
  if (bytes < 1024) return `${bytes} B`
  return bytes < 1024 ** 2 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / 1024 ** 2).toFixed(1)} MB`
}

export async function downloadArchive(
  { url, sha256, size }: ArchiveSource,
  file: string,
  { log, signal }: BuildTask,
): Promise<void> {
  log(`Downloading the archive of ${describeSize(size)}`)
  const limit = AbortSignal.any([signal, AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS)])
  const asTransient = (error: Error) => {
    const reason = limit.aborted ? `it took more than ${DOWNLOAD_TIMEOUT_MS / 60_000} minutes` : describeError(error)
    return signal.aborted ? signal.reason : new TransientError(`The archive cannot be downloaded: ${reason}.`)
  }
  const response = await streamedFetch(url, { signal: limit }).catch(error => {
    throw asTransient(error)
  })
  if (response.status >= 429)
    throw new TransientError(`The archive cannot be downloaded: the server answers ${response.status}.`)
  if (response.status === 403) {
    const { code } = (await response.json().catch(() => ({}))) as { code?: string }
    if (code === 'download_link_expired') throw new LinkExpired('The download link of the archive has expired.')
  }
  if (!response.ok || !response.body)
    throw new PermanentError(
      `The archive cannot be downloaded: the server answers ${response.status}. Upload it again, then redeploy.`,
    )
  const { body } = response
  const digest = createHash('sha256')
  let bytes = 0
  const verified = async function* () {
    try {
      for await (const chunk of body) {
        bytes += chunk.byteLength
        if (bytes > size) break
        digest.update(chunk)
        yield chunk
      }
    } catch (error) {
      throw asTransient(error as Error)
    }
  }
  await pipeline(verified, fs.createWriteStream(file, { mode: 0o600 }))
  if (bytes !== size || digest.digest('hex') !== sha256)
    throw new PermanentError('The archive’s digest differs from the uploaded one. Upload it again, then redeploy.')
}

export const unpackArchive = (file: string, folder: string, task: BuildTask, limits = ARCHIVE_LIMITS): Promise<void> =>
  unpackTar(unzip(file), folder, task, limits)

function unzip(file: string): Readable {
  const unzipped = createGunzip()
  // A failure also destroys the stream, whose reader throws it.
  pipeline(fs.createReadStream(file), unzipped).catch(() => {})
  return unzipped
}

export async function unpackTar(
  source: Readable,
  folder: string,
  { signal }: Pick<BuildTask, 'signal'>,
  limits: ArchiveLimits,
): Promise<void> {
  const remaining = { bytes: limits.megabytes * 1024 * 1024, entries: limits.entries }
  const reader = createTarReader()
  fs.mkdirSync(folder, { recursive: true })
  const root = fs.realpathSync(folder)
  let file: FileHandle | null = null
  try {
    for await (const chunk of addAbortSignal(signal, source)) {
      remaining.bytes -= chunk.byteLength
      if (remaining.bytes < 0) throw archiveError(`contains more than ${limits.megabytes} MB`)
      for (const part of reader.read(chunk)) {
        if ('body' in part) {
          await file?.writeFile(part.body)
          continue
        }
        await file?.close()
        file = null
        if (--remaining.entries < 0) throw archiveError(`contains more than ${limits.entries} entries`)
        file = await createEntry(part.entry, root, limits)
      }
    }
    reader.end()
  } catch (error) {
    signal.throwIfAborted()
    throw error instanceof PermanentError ? error : archiveError(`is damaged (${describeError(error)})`)
  } finally {
    await file?.close()
  }
}

const archiveError = (fault: string) =>
  new PermanentError(`The archive is not accepted: it ${fault}. Correct it and upload it again.`)

/** Returns the file whose body follows. */
async function createEntry(entry: TarEntry, root: string, limits: ArchiveLimits): Promise<FileHandle | null> {
  const parts = splitEntryPath(entry.name, limits)
  if (parts.length === 0) return null
  const path = join(root, ...parts)
  for (let at = dirname(path); at !== root; at = dirname(at))
    if (fs.lstatSync(at, { throwIfNoEntry: false })?.isSymbolicLink())
      throw archiveError(`writes through the link \`${printableName(entry.name)}\``)
  fs.mkdirSync(dirname(path), { recursive: true })
  const existing = fs.lstatSync(path, { throwIfNoEntry: false })

  if (entry.type === 'folder') {
    if (existing && !existing.isDirectory()) throw archiveError(`names \`${printableName(entry.name)}\` twice`)
    fs.mkdirSync(path, { recursive: true })
    return null
  }
  if (existing?.isDirectory()) throw archiveError(`names \`${printableName(entry.name)}\` twice`)
  if (existing) fs.rmSync(path)
  if (entry.type === 'hard link') writeHardLink(entry, root, path, limits)
  else if (entry.type === 'symbolic link') writeSymbolicLink(entry, path, parts.length - 1)
  else if (entry.type === 'file') return open(path, 'wx', entry.mode & 0o100 ? 0o755 : 0o644)
  else throw archiveError(`contains \`${printableName(entry.name)}\`, which is neither a file nor a folder`)
  return null
}

function splitEntryPath(name: string, { depth }: ArchiveLimits): string[] {
  if (name.startsWith('/') || name.includes('\\') || name.includes('\0'))
    throw archiveError(`contains the absolute path \`${printableName(name)}\``)
  const parts = name.split('/').filter(part => part !== '' && part !== '.')
  if (parts.includes('..')) throw archiveError(`contains a path that leaves its folder, \`${printableName(name)}\``)
  if (parts.length > depth) throw archiveError(`nests folders deeper than ${depth}`)
  if (isTooLong(parts)) throw archiveError(`contains a name that is too long, \`${printableName(name)}\``)
  return parts
}

/** Checked before the file system does, whose error would contain the agent's own path. */
const isTooLong = (parts: string[]) =>
  parts.some(part => Buffer.byteLength(part) > MAX_NAME_BYTES) || Buffer.byteLength(parts.join('/')) > MAX_PATH_BYTES

/** `..` is allowed only at the beginning of the target: after another link it could lead anywhere. */
function writeSymbolicLink({ name, target }: TarEntry, path: string, depth: number): void {
  const parts = target.split('/').filter(part => part !== '' && part !== '.')
  const upCount = parts.lastIndexOf('..') + 1
  const isLeading = parts.slice(0, upCount).every(part => part === '..')
  if (isTooLong(parts)) throw archiveError(`contains a link to a name that is too long, \`${printableName(name)}\``)
  if (target.startsWith('/') || !isLeading || upCount > depth)
    throw archiveError(`contains a link out of its folder, \`${printableName(name)}\``)
  fs.symlinkSync(target, path)
}

function writeHardLink({ name, target }: TarEntry, root: string, path: string, limits: ArchiveLimits): void {
  const file = join(root, ...splitEntryPath(target, limits))
  const isInside =
    fs.existsSync(file) && fs.realpathSync(dirname(file)) === dirname(file) && fs.lstatSync(file).isFile()
  if (!isInside) throw archiveError(`contains a hard link to a file that is not in it, \`${printableName(name)}\``)
  fs.linkSync(file, path)
}

const printableName = (name: string) => name.slice(0, 200).replace(/[^ -~]/g, '?')
