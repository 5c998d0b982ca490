// Copies the files that a build made into a folder of the agent's own, hashed and compressed, with a list of them.
import { createHash, randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join, sep } from 'node:path'
import { promisify } from 'node:util'
import * as zlib from 'node:zlib'
import { type BuildTask, PermanentError } from '../engine.ts'
import { removeRecursively, writeJson } from '../system/files.ts'
import type { User } from '../system/users.ts'
import { contentTypeOf, isCompressible } from './content-type.ts'
import { type WalkedFile, walkFolder } from './folder-walk.ts'
import {
  contentFile,
  ENCODINGS,
  type Encoding,
  manifestFile,
  type SiteFile,
  type SiteManifest,
} from './site-manifest.ts'
import { MAX_RULES_BYTES, parseHeaders, parseRedirects } from './site-rules.ts'

export type SiteLimits = { files: number; megabytes: number }
/** `folder` is the part of the tree that is served; `.` is all of it. */
type BuiltSite = { tree: string; folder: string; fallback: string | null; user: User | undefined }

export const MAX_SITE_FILES = 20_000
const RULE_FILES = ['/_headers', '/_redirects']
const WELL_KNOWN = '/.well-known'
const MIB = 1024 * 1024
const CHUNK_BYTES = MIB
const MIN_COMPRESSED_BYTES = 1024
/** A larger file would hold too much memory at its compression. */
const MAX_COMPRESSED_BYTES = 16 * MIB
/** Several files at a time, and fewer than the threads that the agent's own file access shares. */
const CONCURRENT_FILES = 2

const brotli = promisify(zlib.brotliCompress)
const gzip = promisify(zlib.gzip)
/** The highest levels take ten times as long for a tenth of the size. */
const COMPRESS: Record<Encoding, (bytes: Buffer) => Promise<Buffer>> = {
  br: bytes =>
    brotli(bytes, {
      params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5, [zlib.constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
    }),
  gzip: bytes => gzip(bytes, { level: 6 }),
}

export async function copySite(
  { tree, folder, fallback, user }: BuiltSite,
  to: string,
  task: Pick<BuildTask, 'log' | 'signal'>,
  limits: SiteLimits,
): Promise<void> {
  const root = await fs.promises.realpath(tree)
  const base = await findBuiltFolder(root, folder)
  await removeRecursively(to)
  await fs.promises.mkdir(join(to, 'content'), { recursive: true, mode: 0o700 })
  await fs.promises.chmod(to, 0o700)
  const files: [string, SiteFile][] = []
  const rules = new Map<string, string>()
  let left = limits.megabytes * MIB
  const tooLarge = () => new PermanentError(`The files in \`${folder}\` have more than ${limits.megabytes} MB.`)
  const isSkipped = (path: string) => isHidden(path) || (folder === '.' && path === '/node_modules')
  if (base)
    for await (const file of walkFolder(root, base, { name: folder, user, isSkipped, maxEntries: limits.files })) {
      try {
        task.signal.throwIfAborted()
        if (file.size > left) throw tooLarge()
        if (RULE_FILES.includes(file.path)) rules.set(file.path, await readRules(file))
        else {
          const copied = await copyFile(file, to, left)
          if (!copied) throw tooLarge()
          left -= copied.size
          files.push([file.path, { ...copied, type: contentTypeOf(file.path), encoded: {} }])
        }
      } finally {
        await file.handle.close()
      }
    }
  if (files.length === 0)
    throw new PermanentError(
      `The build made no files in \`${folder}\`. Check that the build command writes there, and deploy again.`,
    )
  await compressFiles(files, to, task.signal)
  const warn = (warning: string) => task.log(warning, 'WARNING')
  const hasFallback = fallback !== null && files.some(([path]) => path === `/${fallback}`)
  if (fallback !== null && !hasFallback)
    warn(`There is no \`${fallback}\` in \`${folder}\`, so other paths answer 404.`)
  const redirects = parseRedirects(rules.get('/_redirects') ?? '')
  const headers = parseHeaders(rules.get('/_headers') ?? '')
  for (const warning of [...redirects.warnings, ...headers.warnings]) warn(warning)
  writeJson(manifestFile(to), {
    built_at: Date.now(),
    fallback: hasFallback ? fallback : null,
    files,
    redirects: redirects.rules,
    headers: headers.rules,
  } satisfies SiteManifest)
  const size = Math.ceil((limits.megabytes * MIB - left) / 1024)
  task.log(
    files.length === 1 ? `The site has one file of ${size} KB` : `The site has ${files.length} files of ${size} KB`,
  )
}

/** Undefined: the build made no such folder. A link within the tree may lead there. */
async function findBuiltFolder(root: string, folder: string): Promise<string | undefined> {
  const base = await fs.promises.realpath(join(root, folder)).catch(() => undefined)
  if (base !== undefined && base !== root && !base.startsWith(root + sep))
    throw new PermanentError(`The folder \`${folder}\` leads out of the application. Name a folder inside it.`)
  return base
}

const isHidden = (path: string): boolean => path !== WELL_KNOWN && path.slice(path.lastIndexOf('/') + 1).startsWith('.')

async function readRules({ path, handle, size }: WalkedFile): Promise<string> {
  const tooLong = new PermanentError(`\`${path.slice(1)}\` has more than ${MAX_RULES_BYTES / 1024} kB. Shorten it.`)
  if (size > MAX_RULES_BYTES) throw tooLong
  // It may grow while it is read.
  const buffer = Buffer.alloc(MAX_RULES_BYTES + 1)
  let length = 0
  for (;;) {
    const { bytesRead } = await handle.read(buffer, length, buffer.length - length, length)
    length += bytesRead
    if (length > MAX_RULES_BYTES) throw tooLong
    if (bytesRead === 0) return buffer.toString('utf8', 0, length)
  }
}

/** Undefined if it has more bytes than are left: it may grow while it is read. */
async function copyFile(
  { handle }: WalkedFile,
  to: string,
  left: number,
): Promise<Omit<SiteFile, 'type' | 'encoded'> | undefined> {
  const temporary = contentFile(to, randomBytes(6).toString('hex'))
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
  let size = 0
  const copy = await fs.promises.open(temporary, 'wx', 0o600)
  try {
    for (;;) {
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, size)
      if (bytesRead === 0) break
      size += bytesRead
      if (size > left) return undefined
      const chunk = buffer.subarray(0, bytesRead)
      hash.update(chunk)
      await copy.writeFile(chunk)
    }
  } finally {
    await copy.close()
  }
  const content = hash.digest('hex').slice(0, 32)
  await fs.promises.rename(temporary, contentFile(to, content))
  return { content, size }
}

async function compressFiles(files: [string, SiteFile][], to: string, signal: AbortSignal): Promise<void> {
  /** Files with equal content are compressed once. */
  const contents = new Map<string, SiteFile['encoded']>()
  const pending = files.flatMap(([, file]) => {
    const { size, type, content } = file
    if (size < MIN_COMPRESSED_BYTES || size > MAX_COMPRESSED_BYTES || !isCompressible(type)) return []
    const known = contents.get(content)
    file.encoded = known ?? {}
    contents.set(content, file.encoded)
    return known ? [] : [file]
  })
  const compressNext = async () => {
    for (let file = pending.pop(); file; file = pending.pop()) {
      signal.throwIfAborted()
      const bytes = await fs.promises.readFile(contentFile(to, file.content))
      for (const encoding of ENCODINGS) {
        const compressed = await COMPRESS[encoding](bytes)
        if (compressed.length >= bytes.length) continue
        await fs.promises.writeFile(contentFile(to, file.content, encoding), compressed, { mode: 0o600 })
        file.encoded[encoding] = compressed.length
      }
    }
  }
  await Promise.all(Array.from({ length: CONCURRENT_FILES }, compressNext))
}
