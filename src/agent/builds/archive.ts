// An uploaded archive: downloaded, held against its digest, and unpacked as if it came from an enemy.
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { createTarDecoder, type ParsedTarEntry, type TarHeader } from 'modern-tar'
import { Passing, type Task, Unworkable } from '../engines/engine.ts'
import { faultOf } from '../faults.ts'

export type ArchiveSource = { url: string; sha256: string; size: number }
type ArchiveLimits = { megabytes: number; entries: number; depth: number }

export const ARCHIVE_LIMITS: ArchiveLimits = { megabytes: 2_048, entries: 100_000, depth: 64 }
const DOWNLOAD_MS = 5 * 60_000
const LONGEST_NAME = 255
/** Below the folder that it is unpacked into, whose own path counts, too. */
const LONGEST_PATH = 3000

/** Its address was good for a while; whoever gave it gives another one. */
export class LinkOver extends Passing {}

export async function download(
  { url, sha256, size }: ArchiveSource,
  file: string,
  { log, signal }: Task,
): Promise<void> {
  log(`Downloading the archive of ${size < 1e6 ? `${Math.ceil(size / 1000)} kB` : `${(size / 1e6).toFixed(1)} MB`}`)
  const limit = AbortSignal.any([signal, AbortSignal.timeout(DOWNLOAD_MS)])
  const broken = (error: Error) => {
    const why = limit.aborted ? `it did not come within ${DOWNLOAD_MS / 60_000} minutes` : faultOf(error)
    return signal.aborted ? signal.reason : new Passing(`The archive cannot be downloaded now: ${why}.`)
  }
  const answer = await fetch(url, { signal: limit, redirect: 'error' }).catch(error => {
    throw broken(error)
  })
  if (answer.status >= 429)
    throw new Passing(`The archive cannot be downloaded now: its address answers ${answer.status}.`)
  if (answer.status === 403) {
    const { code } = (await answer.json().catch(() => ({}))) as { code?: string }
    if (code === 'download_link_expired') throw new LinkOver('The link to the archive is over.')
  }
  if (!answer.ok || !answer.body)
    throw new Unworkable(
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
    throw new Unworkable('The archive is not the one that was uploaded: its digest differs. Upload it again.')
}

export async function unpack(file: string, folder: string, { signal }: Task, limits = ARCHIVE_LIMITS): Promise<void> {
  const left = { bytes: limits.megabytes * 1024 * 1024, entries: limits.entries }
  const refused = new AbortController()
  const decoder = createTarDecoder({ strict: true })
  // What decompresses without end is stopped whether or not it ever becomes a file.
  const measured = async function* (chunks: AsyncIterable<Uint8Array>) {
    for await (const chunk of chunks) {
      left.bytes -= chunk.byteLength
      if (left.bytes < 0) throw refusal(`holds more than ${limits.megabytes} MB`)
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
      if (--left.entries < 0) throw refusal(`holds more than ${limits.entries} entries`)
      await place(entry, root, limits)
    }
    await fed
  } catch (error) {
    refused.abort()
    signal.throwIfAborted()
    // What was measured breaks the reading too, in other words.
    const first = await fed.catch(cause => cause)
    for (const one of [error, first]) if (one instanceof Unworkable) throw one
    throw refusal(`is damaged (${faultOf(error)})`)
  }
}

const refusal = (why: string) => new Unworkable(`The archive is refused: it ${why}.`)

async function place({ header, body }: ParsedTarEntry, root: string, limits: ArchiveLimits): Promise<void> {
  const parts = partsOf(header.name, limits)
  if (parts.length === 0) return void (await body.cancel())
  const path = join(root, ...parts)
  // Nothing is written through a link, wherever it may lead.
  for (let at = dirname(path); at !== root; at = dirname(at))
    if (fs.lstatSync(at, { throwIfNoEntry: false })?.isSymbolicLink())
      throw refusal(`writes through the link \`${shown(header.name)}\``)
  fs.mkdirSync(dirname(path), { recursive: true })
  const there = fs.lstatSync(path, { throwIfNoEntry: false })

  if (header.type === 'directory') {
    if (there && !there.isDirectory()) throw refusal(`names \`${shown(header.name)}\` twice`)
    fs.mkdirSync(path, { recursive: true })
    return void (await body.cancel())
  }
  if (there?.isDirectory()) throw refusal(`names \`${shown(header.name)}\` twice`)
  if (there) fs.rmSync(path)
  if (header.type === 'symlink' || header.type === 'link') {
    await body.cancel()
    return header.type === 'link' ? hardLink(header, root, path, limits) : symbolicLink(header, path, parts.length - 1)
  }
  if (header.type !== undefined && header.type !== 'file')
    throw refusal(`holds \`${shown(header.name)}\`, which is neither a file nor a folder (${header.type})`)
  const mode = (header.mode ?? 0o644) & 0o100 ? 0o755 : 0o644
  await pipeline(Readable.fromWeb(body as never), fs.createWriteStream(path, { mode, flags: 'wx' }))
}

function partsOf(name: string, { depth }: ArchiveLimits): string[] {
  if (name.startsWith('/') || name.includes('\\') || name.includes('\0'))
    throw refusal(`holds the absolute path \`${shown(name)}\``)
  const parts = name.split('/').filter(part => part !== '' && part !== '.')
  if (parts.includes('..')) throw refusal(`holds a path that leaves its folder, \`${shown(name)}\``)
  if (parts.length > depth) throw refusal(`nests folders deeper than ${depth}`)
  if (isTooLong(parts)) throw refusal(`holds a name that is too long, \`${shown(name)}\``)
  return parts
}

/** More than a disk takes, which would say so with the whole path. */
const isTooLong = (parts: string[]) =>
  parts.some(part => Buffer.byteLength(part) > LONGEST_NAME) || Buffer.byteLength(parts.join('/')) > LONGEST_PATH

/** As many steps up as there are folders, and only at its beginning: behind another link a step up could lead anywhere. */
function symbolicLink({ name, linkname = '' }: TarHeader, path: string, depth: number): void {
  const parts = linkname.split('/').filter(part => part !== '' && part !== '.')
  const ups = parts.lastIndexOf('..') + 1
  const leading = parts.slice(0, ups).every(part => part === '..')
  if (isTooLong(parts)) throw refusal(`holds a link to a name that is too long, \`${shown(name)}\``)
  if (linkname.startsWith('/') || !leading || ups > depth)
    throw refusal(`holds a link out of its folder, \`${shown(name)}\``)
  fs.symlinkSync(linkname, path)
}

function hardLink({ name, linkname = '' }: TarHeader, root: string, path: string, limits: ArchiveLimits): void {
  const target = join(root, ...partsOf(linkname, limits))
  const inside =
    fs.existsSync(target) && fs.realpathSync(dirname(target)) === dirname(target) && fs.lstatSync(target).isFile()
  if (!inside) throw refusal(`holds a link to what is not in it, \`${shown(name)}\``)
  fs.linkSync(target, path)
}

const shown = (name: string) => name.slice(0, 200).replace(/[^ -~]/g, '?')
