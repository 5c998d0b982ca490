// Reads the refs of a repository by git's own protocol over HTTP, version 2, and version 0 of older servers.
// A control plane on Workers cannot run git.
import { type Failure, fail } from '../../kernel/http/errors.ts'
import type { GuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { requestBytes, unusableResponse } from './request.ts'

/** `symref`: the ref that HEAD is, also where that has no commit yet. */
export type ListedRef = { name: string; sha: string | null; peeled: string | null; symref: string | null }
type Advertisement = { version: 2; objectFormat: string | null } | { version: 0; refs: ListedRef[] }
type Address = { client: GuardedClient; url: string; headers: Record<string, string> }

const SERVICE = 'git-upload-pack'
const FLUSH = '0000'
const DELIMITER = '0001'
const MAX_PREFIX_LENGTH = 300
export const FULL_SHA = /^([0-9a-f]{40}|[0-9a-f]{64})$/

/** Null where there is no such repository, or the server hides it. Lists the refs that begin with one of `prefixes`. */
export async function listRefs(address: Address, prefixes: string[]): Promise<ListedRef[] | null> {
  const advertisement = await fetchAdvertisement(address)
  if (advertisement === null) return null
  const isAsked = ({ name }: ListedRef) => prefixes.some(prefix => name.startsWith(prefix))
  if (advertisement.version === 0) return advertisement.refs.filter(isAsked)
  const { client, url, headers } = address
  const { objectFormat } = advertisement
  const body = [
    encodeLine('command=ls-refs\n'),
    ...(objectFormat === null ? [] : [encodeLine(`object-format=${objectFormat}\n`)]),
    DELIMITER,
    ...['peel\n', 'symrefs\n', 'unborn\n'].map(encodeLine),
    ...prefixes.map(prefix => encodeLine(`ref-prefix ${prefix.slice(0, MAX_PREFIX_LENGTH)}\n`)),
    FLUSH,
  ].join('')
  const { status, bytes } = await requestBytes(client, `${url}/${SERVICE}`, {
    method: 'POST',
    headers: {
      ...headers,
      'Git-Protocol': 'version=2',
      'Content-Type': `application/x-${SERVICE}-request`,
      Accept: `application/x-${SERVICE}-result`,
    },
    body,
  })
  if (status !== 200) throw unusableResponse(url, `it answered ${status}`)
  // A server may list more than it was asked for.
  return decodeLines(bytes, url).flatMap(readRef).filter(isAsked)
}

async function fetchAdvertisement({ client, url, headers }: Address): Promise<Advertisement | null> {
  const { status, bytes } = await requestBytes(client, `${url}/info/refs?service=${SERVICE}`, {
    headers: { ...headers, 'Git-Protocol': 'version=2' },
  })
  if (status === 404) return null
  const lines = decodeLines(bytes, url).filter(line => !line.startsWith('# service='))
  if (lines[0] === 'version 2') {
    const format = lines.find(line => line.startsWith('object-format='))
    return { version: 2, objectFormat: format === undefined ? null : format.slice('object-format='.length) }
  }
  if (lines[0] === 'version 1') lines.shift()
  return { version: 0, refs: readOldRefs(lines) }
}

/** A line of version 2: `<id> <name>`, with `symref-target:` and `peeled:`. */
function readRef(line: string): ListedRef[] {
  const [sha = '', name = '', ...attributes] = line.split(' ')
  if (name === '' || (sha !== 'unborn' && !FULL_SHA.test(sha))) return []
  const attribute = (key: string) => attributes.find(one => one.startsWith(key))?.slice(key.length) ?? null
  return [
    { name, sha: sha === 'unborn' ? null : sha, peeled: attribute('peeled:'), symref: attribute('symref-target:') },
  ]
}

/** The lines of version 0: `<id> <name>`, the first with capabilities, and `<name>^{}` for what a tag points to. */
function readOldRefs(lines: string[]): ListedRef[] {
  const [, capabilities = ''] = lines[0]?.split('\0') ?? []
  const head = capabilities.split(' ').find(one => one.startsWith('symref=HEAD:'))
  const refs = new Map<string, ListedRef>()
  for (const line of lines) {
    const [sha = '', name = ''] = line.split('\0')[0]!.split(' ')
    if (!FULL_SHA.test(sha) || name === '') continue
    const tag = name.endsWith('^{}') ? refs.get(name.slice(0, -3)) : undefined
    if (tag) tag.peeled = sha
    else refs.set(name, { name, sha, peeled: null, symref: name === 'HEAD' ? (head?.slice(12) ?? null) : null })
  }
  return [...refs.values()]
}

// ---- lines of the protocol: their length in four hexadecimal digits, then the text

const encoder = new TextEncoder()
const encodeLine = (text: string): string => {
  const length = encoder.encode(text).byteLength + 4
  return length.toString(16).padStart(4, '0') + text
}

/** Lengths are of bytes: the name of a branch need not be UTF-8. */
function decodeLines(bytes: Uint8Array, url: string): string[] {
  const decoder = new TextDecoder()
  const lines: string[] = []
  for (let at = 0; at < bytes.length; ) {
    const prefix = decoder.decode(bytes.subarray(at, at + 4))
    const length = /^[0-9a-f]{4}$/.test(prefix) ? Number.parseInt(prefix, 16) : Number.NaN
    // Flush and delimiter have no text.
    if (length < 4) at += 4
    else if (Number.isNaN(length) || at + length > bytes.length) throw notGit(url)
    else {
      const line = decoder.decode(bytes.subarray(at + 4, at + length)).replace(/\n$/, '')
      if (line.startsWith('ERR ')) throw unusableResponse(url, line.slice(0, 200))
      lines.push(line)
      at += length
    }
  }
  if (lines.length === 0 && decoder.decode(bytes) !== FLUSH) throw notGit(url)
  return lines
}

const notGit = (url: string): Failure =>
  fail('upstream_error', { about: `${new URL(url).host} does not speak git’s smart protocol at this URL` })
