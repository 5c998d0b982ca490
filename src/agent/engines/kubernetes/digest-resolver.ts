// Asks a registry what a tag means now, as the Distribution specification has it. A registry is a foreign server: time, bytes and redirects are bounded.
import { createHash } from 'node:crypto'
import type { RegistryLogin } from '../../images/registry-logins.ts'
import type { Reference } from './image-reference.ts'

/** It was not told: why, as the end of a sentence. */
export class DigestUnavailable extends Error {
  override name = 'DigestUnavailable'
}

type ResolveOptions = {
  /** Registries that are asked without TLS. */
  httpRegistries: readonly string[]
  within_ms?: number
}
type RegistryRequest = { url: URL; method: 'HEAD' | 'GET'; authorization: string | null; signal: AbortSignal }

const RESOLVE_TIMEOUT_MS = 20_000
const MAX_TOKEN_BYTES = 64 * 1024
const MAX_MANIFEST_BYTES = 4 * 1024 * 1024
const MAX_REDIRECTS = 3
const DIGEST = /^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/
/** An index before a manifest of one platform: each node takes its own out of it. */
const MANIFEST_TYPES = [
  ...['application/vnd.oci.image.index.v1+json', 'application/vnd.docker.distribution.manifest.list.v2+json'],
  ...['application/vnd.oci.image.manifest.v1+json', 'application/vnd.docker.distribution.manifest.v2+json'],
].join(', ')
const REGISTRY_HOSTS = { 'docker.io': 'registry-1.docker.io' } as Record<string, string>

/** With one login after the other, and at last with none, until the registry tells. */
export async function resolveDigest(
  reference: Reference,
  logins: RegistryLogin[],
  signal: AbortSignal,
  { httpRegistries: plain, within_ms = RESOLVE_TIMEOUT_MS }: ResolveOptions,
): Promise<string> {
  const bounds = AbortSignal.any([signal, AbortSignal.timeout(within_ms)])
  let refused: DigestUnavailable | undefined
  for (const login of [...logins, null]) {
    try {
      return await requestDigest(reference, login, plain, bounds)
    } catch (error) {
      if (signal.aborted) throw signal.reason
      const untold =
        error instanceof DigestUnavailable ? error : new DigestUnavailable(explainFailure(reference.registry, error))
      // What the first one is told says most.
      refused ??= untold
    }
  }
  throw refused
}

async function requestDigest(
  { registry, repository, tag, digest }: Reference,
  login: RegistryLogin | null,
  plain: readonly string[],
  signal: AbortSignal,
): Promise<string> {
  const open = plain.includes(registry)
  const at = `${open ? 'http' : 'https'}://${REGISTRY_HOSTS[registry] ?? registry}/v2/${repository}/manifests/${digest ?? tag}`
  const wish: RegistryRequest = { url: parseRegistryUrl(at), method: 'HEAD', authorization: null, signal }
  let answer = await send(wish)
  if (answer.status === 401) {
    const challenge = answer.headers.get('WWW-Authenticate') ?? ''
    wish.authorization = await authorizationOf(challenge, `repository:${repository}:pull`, login, open, signal)
    if (wish.authorization) answer = await send(wish)
  }
  if (answer.status !== 200) throw new DigestUnavailable(`${registry} answers ${answer.status}`)
  const said = answer.headers.get('Docker-Content-Digest')
  if (said !== null) {
    if (!DIGEST.test(said)) throw new DigestUnavailable(`${registry} names no digest`)
    return said
  }
  const whole = await send({ ...wish, method: 'GET' })
  if (whole.status !== 200) throw new DigestUnavailable(`${registry} answers ${whole.status}`)
  return `sha256:${createHash('sha256')
    .update(await readBounded(whole, MAX_MANIFEST_BYTES))
    .digest('hex')}`
}

/** Where it sends us for a manifest is followed, and told nothing of who we are. */
async function send({ url, method, authorization, signal }: RegistryRequest): Promise<Response> {
  let to = url
  for (let hops = 0; ; hops++) {
    const own = to.origin === url.origin && authorization !== null
    const answer = await fetch(to, {
      method,
      headers: { Accept: MANIFEST_TYPES, ...(own && { Authorization: authorization }) },
      redirect: 'manual',
      signal,
    })
    const location = [301, 302, 303, 307, 308].includes(answer.status) && answer.headers.get('Location')
    if (method === 'HEAD' || location) await answer.body?.cancel()
    if (!location) return answer
    if (hops === MAX_REDIRECTS) throw new DigestUnavailable(`${url.host} leads from one address to the next`)
    to = parseRegistryUrl(location, to)
    if (to.protocol !== 'https:' && to.protocol !== url.protocol)
      throw new DigestUnavailable(`${url.host} leads out of TLS`)
  }
}

/** A registry says who gives out its tokens: only over TLS, unless it is asked without itself, and only for reading this one. */
async function authorizationOf(
  challenge: string,
  scope: string,
  login: RegistryLogin | null,
  open: boolean,
  signal: AbortSignal,
): Promise<string | null> {
  const basic = login && `Basic ${Buffer.from(`${login.username}:${login.password}`).toString('base64')}`
  if (/^basic\b/i.test(challenge)) return basic
  const { realm, service } = Object.fromEntries(
    [...challenge.matchAll(/\b(\w+)="([^"]*)"/g)].map(([, name, value]) => [name!.toLowerCase(), value!]),
  )
  if (!/^bearer\b/i.test(challenge) || !realm) return null
  const url = parseRegistryUrl(realm)
  if (url.protocol !== 'https:' && !(open && url.protocol === 'http:'))
    throw new DigestUnavailable(`its registry gives out tokens without TLS`)
  if (service !== undefined) url.searchParams.set('service', service)
  url.searchParams.set('scope', scope)
  const answer = await fetch(url, { headers: basic ? { Authorization: basic } : {}, redirect: 'error', signal })
  if (answer.status !== 200) {
    await answer.body?.cancel()
    throw new DigestUnavailable(`${url.host} gives no token (${answer.status})`)
  }
  const said = Object(JSON.parse((await readBounded(answer, MAX_TOKEN_BYTES)).toString()))
  const token = said.token ?? said.access_token
  if (typeof token !== 'string') throw new DigestUnavailable(`${url.host} gives no token`)
  return `Bearer ${token}`
}

async function readBounded({ body }: Response, most: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body ?? []) {
    size += chunk.byteLength
    if (size > most) throw new DigestUnavailable('its registry says more than there is to say')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function parseRegistryUrl(address: string, from?: URL): URL {
  const url = URL.canParse(address, from?.href) ? new URL(address, from) : null
  if (!url || url.username || url.password) throw new DigestUnavailable('its registry names an address that is none')
  return url
}

function explainFailure(registry: string, error: unknown): string {
  const { name, message, cause } = error as Error & { cause?: { code?: string; message?: string } }
  if (name === 'TimeoutError') return `${registry} does not answer in time`
  return `${registry} cannot be asked (${cause?.code ?? cause?.message ?? message})`
}
