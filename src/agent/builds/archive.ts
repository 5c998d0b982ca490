// An uploaded archive: downloaded, held against its digest, and unpacked as if it came from an enemy.
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { createTarDecoder, type ParsedTarEntry, type TarHeader } from 'modern-tar'
import { type BuildTask, PermanentError, TransientError } from '../engines/engine.ts'
import { describeError } from '../redaction/error-messages.ts'

export type ArchiveSource = { url: string; sha256: string; size: number }
type ArchiveLimits = { megabytes: number; entries: number; depth: number }

export const ARCHIVE_LIMITS: ArchiveLimits = { megabytes: 2_048, entries: 100_000, depth: 64 }
const DOWNLOAD_TIMEOUT_MS = 5 * 60_000
const MAX_NAME_BYTES = 255
/** Below the folder that it is unpacked into, whose own path counts, too. */
const MAX_PATH_BYTES = 3000

/** Its address was good for a while; whoever gave it gives another one. */
export class LinkExpired extends TransientError {}

export async function downloadArchive(
  { url, sha256, size }: ArchiveSource,
  file: string,
  { log, signal }: BuildTask,
): Promise<void> {
  log(`Downloading the archive of ${size < 1e6 ? `${Math.ceil(size / 1000)} kB` : `${(size / 1e6).toFixed(1)} MB`}`)
  const limit = AbortSignal.any([signal, AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS)])
  const broken = (error: Error) => {
    const why = limit.aborted ? `it did not come within ${DOWNLOAD_TIMEOUT_MS / 60_000} minutes` : describeError(error)
    return signal.aborted ? signal.reason : new TransientError(`The archive cannot be downloaded now: ${why}.`)
  }
  const answer = await fetch(url, { signal: limit, redirect: 'error' }).catch(error => {
    throw broken(error)
  })
  if (answer.status >= 429)
    throw new TransientError(`The archive cannot be downloaded now: its address answers ${answer.status}.`)
  if (answer.status === 403) {
    const { code } = (await answer.json().catch(() => ({}))) as { code?: string }
    if (code === 'download_link_expired') throw new LinkExpired('The link to the archive is over.')
  }
  if (!answer.ok || !answer.body)
    throw new PermanentError(
      `The archive cannot be downloaded: its address answers ${answer.status}. Redeploy, or upload it again.`,
    )
  const { body } = answer
  const digest = createHash('sha256')
  let bytes = 0
  const counted = async function* () {
    try {
      for await (const chunk of body) {
        bytes += chunk.byteLength
        if (bytes > size) break
        digest.update(chunk)
        yield chunk
      }
    } catch (error) {
      throw broken(error as Error)
    }
  }
  await pipeline(counted, fs.createWriteStream(file, { mode: 0o600 }))
  if (bytes !== size || digest.digest('hex') !== sha256)
    throw new PermanentError('The archive is not the one that was uploaded: its digest differs. Upload it again.')
}

export async function unpackArchive(
  file: string,
  folder: string,
  { signal }: BuildTask,
  limits = ARCHIVE_LIMITS,
): Promise<void> {
  const left = { bytes: limits.megabytes * 1024 * 1024, entries: limits.entries }
  const refused = new AbortController()
  const decoder = createTarDecoder({ strict: true })
  // What decompresses without end is stopped whether or not it ever becomes a file.
  const measured = async function* (chunks: AsyncIterable<Uint8Array>) {
    for await (const chunk of chunks) {
      left.bytes -= chunk.byteLength
      if (left.bytes < 0) throw archiveError(`holds more than ${limits.megabytes} MB`)
      yield chunk
    }
  }
  const fed = pipeline(
    fs.createReadStream(file),
    createGunzip(),
    measured,
    decoder.writable as unknown as NodeJS.WritableStream,
    {
      signal: AbortSignal.any([signal, refused.signal]),
    },
  )
  // Told by whichever side sees it; reading below ends with it.
  fed.catch(() => {})
  fs.mkdirSync(folder, { recursive: true })
  const root = fs.realpathSync(folder)
  try {
    for await (const entry of decoder.readable) {
      signal.throwIfAborted()
      if (--left.entries < 0) throw archiveError(`holds more than ${limits.entries} entries`)
      await writeEntry(entry, root, limits)
    }
    await fed
  } catch (error) {
    refused.abort()
    signal.throwIfAborted()
    // What was measured breaks the reading too, in other words.
    const first = await fed.catch(cause => cause)
    for (const one of [error, first]) if (one instanceof PermanentError) throw one
    throw archiveError(`is damaged (${describeError(error)})`)
  }
}

const archiveError = (why: string) => new PermanentError(`The archive is refused: it ${why}.`)

async function writeEntry({ header, body }: ParsedTarEntry, root: string, limits: ArchiveLimits): Promise<void> {
  const parts = splitEntryPath(header.name, limits)
  if (parts.length === 0) return void (await body.cancel())
  const path = join(root, ...parts)
  // Nothing is written through a link, wherever it may lead.
  for (let at = dirname(path); at !== root; at = dirname(at))
    if (fs.lstatSync(at, { throwIfNoEntry: false })?.isSymbolicLink())
      throw archiveError(`writes through the link \`${printableName(header.name)}\``)
  fs.mkdirSync(dirname(path), { recursive: true })
  const there = fs.lstatSync(path, { throwIfNoEntry: false })

  if (header.type === 'directory') {
    if (there && !there.isDirectory()) throw archiveError(`names \`${printableName(header.name)}\` twice`)
    fs.mkdirSync(path, { recursive: true })
    return void (await body.cancel())
  }
  if (there?.isDirectory()) throw archiveError(`names \`${printableName(header.name)}\` twice`)
  if (there) fs.rmSync(path)
  if (header.type === 'symlink' || header.type === 'link') {
    await body.cancel()
    return header.type === 'link'
      ? writeHardLink(header, root, path, limits)
      : writeSymbolicLink(header, path, parts.length - 1)
  }
  if (header.type !== undefined && header.type !== 'file')
    throw archiveError(`holds \`${printableName(header.name)}\`, which is neither a file nor a folder (${header.type})`)
  const mode = (header.mode ?? 0o644) & 0o100 ? 0o755 : 0o644
  await pipeline(Readable.fromWeb(body as never), fs.createWriteStream(path, { mode, flags: 'wx' }))
}

function splitEntryPath(name: string, { depth }: ArchiveLimits): string[] {
  if (name.startsWith('/') || name.includes('\\') || name.includes('\0'))
    throw archiveError(`holds the absolute path \`${printableName(name)}\``)
  const parts = name.split('/').filter(part => part !== '' && part !== '.')
  if (parts.includes('..')) throw archiveError(`holds a path that leaves its folder, \`${printableName(name)}\``)
  if (parts.length > depth) throw archiveError(`nests folders deeper than ${depth}`)
  if (isTooLong(parts)) throw archiveError(`holds a name that is too long, \`${printableName(name)}\``)
  return parts
}

/** More than a disk takes, which would say so with the whole path. */
const isTooLong = (parts: string[]) =>
  parts.some(part => Buffer.byteLength(part) > MAX_NAME_BYTES) || Buffer.byteLength(parts.join('/')) > MAX_PATH_BYTES

/** As many steps up as there are folders, and only at its beginning: behind another link a step up could lead anywhere. */
function writeSymbolicLink({ name, linkname = '' }: TarHeader, path: string, depth: number): void {
  const parts = linkname.split('/').filter(part => part !== '' && part !== '.')
  const ups = parts.lastIndexOf('..') + 1
  const leading = parts.slice(0, ups).every(part => part === '..')
  if (isTooLong(parts)) throw archiveError(`holds a link to a name that is too long, \`${printableName(name)}\``)
  if (linkname.startsWith('/') || !leading || ups > depth)
    throw archiveError(`holds a link out of its folder, \`${printableName(name)}\``)
  fs.symlinkSync(linkname, path)
}

function writeHardLink({ name, linkname = '' }: TarHeader, root: string, path: string, limits: ArchiveLimits): void {
  const target = join(root, ...splitEntryPath(linkname, limits))
  const inside =
    fs.existsSync(target) && fs.realpathSync(dirname(target)) === dirname(target) && fs.lstatSync(target).isFile()
  if (!inside) throw archiveError(`holds a link to what is not in it, \`${printableName(name)}\``)
  fs.linkSync(target, path)
}

const printableName = (name: string) => name.slice(0, 200).replace(/[^ -~]/g, '?')
