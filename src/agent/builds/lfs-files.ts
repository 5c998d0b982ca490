// Fetches the files that a repository keeps in Git LFS at the same host, in place of their pointers.
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import * as http from 'node:http'
import * as https from 'node:https'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import * as z from 'zod'
import type { HttpCredential } from '../control-plane/credentials.ts'
import { type BuildTask, PermanentError, SourceUnavailable } from '../engine.ts'
import { cutLine } from '../redaction/redact-paths.ts'
import type { AllowedAddress } from './allowed-address.ts'

type Pointer = { path: string; oid: string; size: number }
type Options = {
  address: AllowedAddress
  credential: HttpCredential | null
  folder: string
  disk_mb: number
  /** A host may echo the credential. */
  redactLine: (line: string) => string
  task: Pick<BuildTask, 'log' | 'signal'>
}

const POINTER_START = 'version https://git-lfs.github.com/spec/v1\n'
const MAX_POINTER_BYTES = 1024
const MAX_FILES = 5000
const BATCH_SIZE = 100
const MAX_ANSWER_BYTES = 1024 * 1024
const MAX_WORDS = 300
const IDLE_MS = 60_000
const MEDIA_TYPE = 'application/vnd.git-lfs+json'

const BatchAnswer = z.object({
  objects: z.array(
    z.object({
      oid: z.string(),
      actions: z
        .object({ download: z.object({ href: z.string(), header: z.record(z.string(), z.string()).optional() }) })
        .optional(),
      error: z.object({ message: z.string() }).optional(),
    }),
  ),
})

/**
 * Looks at every small file: attributes can be in any folder, and outside of the commit. There may be so many that the
 * agent has to do other work in between.
 */
export async function findPointers(folder: string): Promise<Pointer[]> {
  const pointers: Pointer[] = []
  const open = [folder]
  for (let at = open.pop(); at !== undefined; at = open.pop())
    try {
      for await (const entry of await fs.promises.opendir(at, { bufferSize: 512 })) {
        const path = join(at, entry.name)
        if (entry.isDirectory()) open.push(path)
        const pointer = entry.isFile() ? await readPointer(path) : null
        if (pointer) pointers.push(pointer)
      }
    } catch (error) {
      requireMissing(error)
    }
  return pointers
}

async function readPointer(path: string): Promise<Pointer | null> {
  const bytes = (await fs.promises.stat(path).catch(requireMissing))?.size ?? 0
  if (bytes < POINTER_START.length || bytes > MAX_POINTER_BYTES) return null
  const text = await fs.promises.readFile(path, 'latin1')
  if (!text.startsWith(POINTER_START)) return null
  const oid = /\noid sha256:([0-9a-f]{64})\n/.exec(text)?.[1]
  const size = Number(/\nsize (\d{1,15})\n/.exec(text)?.[1] ?? Number.NaN)
  return oid && Number.isFinite(size) ? { path, oid, size } : null
}

/** A name that is not UTF-8 is not found again. Git LFS keeps no such file. */
function requireMissing(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
}

export async function fetchLfsFiles(pointers: Pointer[], options: Options): Promise<void> {
  const { disk_mb, task } = options
  const megabytes = pointers.reduce((sum, { size }) => sum + size, 0) / 1024 ** 2
  if (pointers.length > MAX_FILES || megabytes > disk_mb)
    throw new PermanentError(
      `The repository has ${pointers.length} files of ${Math.ceil(megabytes)} MB in Git LFS. ` +
        `At most ${MAX_FILES} files of ${disk_mb} MB can be fetched.`,
    )
  task.log(`Fetching ${pointers.length} files from Git LFS`)
  for (let at = 0; at < pointers.length; at += BATCH_SIZE)
    await fetchBatch(pointers.slice(at, at + BATCH_SIZE), options)
}

async function fetchBatch(pointers: Pointer[], options: Options): Promise<void> {
  const { address, credential, redactLine } = options
  const base = address.url.href.replace(/\/$/, '').replace(/\.git$/, '')
  const body = JSON.stringify({
    operation: 'download',
    transfers: ['basic'],
    objects: pointers.map(({ oid, size }) => ({ oid, size })),
  })
  const response = await send(new URL(`${base}.git/info/lfs/objects/batch`), options, {
    method: 'POST',
    headers: { Accept: MEDIA_TYPE, 'Content-Type': MEDIA_TYPE, ...authorization(credential) },
    body,
  })
  const answer = BatchAnswer.safeParse(parseJson(await readText(response)))
  if (!answer.success) throw new PermanentError('The git host gives no list of the files in Git LFS.')
  const links = new Map(answer.data.objects.map(object => [object.oid, object]))
  for (const pointer of pointers) {
    const { actions, error } = links.get(pointer.oid) ?? {}
    const name = pointer.path.slice(options.folder.length + 1)
    if (!actions)
      throw new PermanentError(
        `\`${name}\` is not in Git LFS: ${cutLine(redactLine(error?.message ?? 'the host has no link'), MAX_WORDS)}.`,
      )
    const url = URL.parse(actions.download.href)
    if (url?.origin !== address.url.origin)
      throw new PermanentError(
        `\`${name}\` is in Git LFS at ${url?.host ?? 'an unknown host'}, not at the host of the repository. ` +
          'It is not fetched. Add the file to the repository, or fetch it in `install_command`.',
      )
    await download(url, pointer, name, actions.download.header ?? authorization(credential), options)
  }
}

async function download(
  url: URL,
  { path, oid, size }: Pointer,
  name: string,
  headers: Record<string, string>,
  options: Options,
): Promise<void> {
  const response = await send(url, options, { method: 'GET', headers })
  const hash = createHash('sha256')
  let bytes = 0
  // Beside the files of the commit, which may have any name.
  const part = `${options.folder}.lfs`
  fs.rmSync(part, { force: true })
  async function* check(source: AsyncIterable<Buffer>) {
    for await (const chunk of source) {
      bytes += chunk.length
      if (bytes > size) throw new PermanentError(`\`${name}\` in Git LFS is larger than its pointer says.`)
      hash.update(chunk)
      yield chunk
    }
  }
  try {
    await pipeline(response, check, fs.createWriteStream(part, { flags: 'wx', mode: fs.statSync(path).mode }), {
      signal: options.task.signal,
    })
  } catch (error) {
    fs.rmSync(part, { force: true })
    if (error instanceof PermanentError || options.task.signal.aborted) throw error
    throw new SourceUnavailable(`The host of ${url.origin} stopped sending \`${name}\` from Git LFS.`)
  }
  if (hash.digest('hex') !== oid) {
    fs.rmSync(part, { force: true })
    throw new PermanentError(`\`${name}\` from Git LFS is not the file that its pointer names.`)
  }
  fs.renameSync(part, path)
}

type Sent = { method: string; headers: Record<string, string>; body?: string }

/** Connects to the addresses that were checked, and follows no redirect. */
async function send(url: URL, { address, task }: Options, { method, headers, body }: Sent) {
  const addresses = address.addresses.map(one => ({ address: one, family: isIP(one) }))
  const lookup = (_: string, __: object, done: (error: null, found: typeof addresses) => void) => done(null, addresses)
  const { request } = url.protocol === 'https:' ? https : http
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    const sent = request(
      url,
      {
        method,
        headers,
        signal: task.signal,
        timeout: IDLE_MS,
        ...(addresses.length > 0 && { lookup, autoSelectFamily: true }),
      } as https.RequestOptions,
      resolve,
    )
    sent.on('timeout', () => sent.destroy(new Error('timeout')))
    sent.on('error', reject)
    sent.end(body)
  }).catch(error => {
    throw task.signal.aborted ? error : new SourceUnavailable(`The host of ${url.origin} does not answer for Git LFS.`)
  })
  const { statusCode = 0 } = response
  if (statusCode === 200) return response
  response.destroy()
  if (statusCode >= 500 || statusCode === 429)
    throw new SourceUnavailable(`The host of ${url.origin} answers ${statusCode} for Git LFS.`)
  throw new PermanentError(
    `The files in Git LFS cannot be fetched: ${url.host} answers ${statusCode}. Give the integration access to them.`,
  )
}

async function readText(response: http.IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response) {
    bytes += chunk.length
    if (bytes > MAX_ANSWER_BYTES)
      throw new PermanentError('The git host gives too long a list of the files in Git LFS.')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const authorization = (credential: HttpCredential | null): Record<string, string> =>
  credential
    ? { Authorization: `Basic ${Buffer.from(`${credential.username}:${credential.password}`).toString('base64')}` }
    : {}
