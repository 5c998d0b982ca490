// Resolves a tag to its digest by the Distribution API. A registry is untrusted: time, size and redirects are bounded.
import { createHash } from 'node:crypto'
import type { RegistryLogin } from '../../images/registry-logins.ts'
import type { Reference } from './image-reference.ts'

/** The registry did not return a digest. The message is the cause, in lower case. */
export class DigestUnavailable extends Error {
  override name = 'DigestUnavailable'
}

type ResolveOptions = {
  /** Registries without TLS. */
  httpRegistries: readonly string[]
  within_ms?: number
}
type RegistryRequest = { url: URL; method: 'HEAD' | 'GET'; authorization: string | null; signal: AbortSignal }

const RESOLVE_TIMEOUT_MS = 20_000
const MAX_TOKEN_BYTES = 64 * 1024
const MAX_MANIFEST_BYTES = 4 * 1024 * 1024
const MAX_REDIRECTS = 3
const DIGEST = /^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/
/** Indexes come first, so that each node picks the manifest of its platform. */
const MANIFEST_TYPES = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.v2+json',
].join(', ')
const REGISTRY_HOSTS = { 'docker.io': 'registry-1.docker.io' } as Record<string, string>

/** Tries one login after the other, and at last none. */
export async function resolveDigest(
  reference: Reference,
  logins: RegistryLogin[],
  signal: AbortSignal,
  { httpRegistries, within_ms = RESOLVE_TIMEOUT_MS }: ResolveOptions,
): Promise<string> {
  const bounds = AbortSignal.any([signal, AbortSignal.timeout(within_ms)])
  let firstFailure: DigestUnavailable | undefined
  for (const login of [...logins, null]) {
    try {
      return await requestDigest(reference, login, httpRegistries.includes(reference.registry), bounds)
    } catch (error) {
      if (signal.aborted) throw signal.reason
      // The answer to the best matching login explains most.
      firstFailure ??=
        error instanceof DigestUnavailable ? error : new DigestUnavailable(explainFailure(reference.registry, error))
    }
  }
  throw firstFailure
}

async function requestDigest(
  { registry, repository, tag, digest }: Reference,
  login: RegistryLogin | null,
  isPlain: boolean,
  signal: AbortSignal,
): Promise<string> {
  const origin = `${isPlain ? 'http' : 'https'}://${REGISTRY_HOSTS[registry] ?? registry}`
  const url = parseRegistryUrl(`${origin}/v2/${repository}/manifests/${digest ?? tag}`)
  const request: RegistryRequest = { url, method: 'HEAD', authorization: null, signal }
  let response = await send(request)
  if (response.status === 401) {
    const challenge = response.headers.get('WWW-Authenticate') ?? ''
    request.authorization = await authorizationOf(challenge, `repository:${repository}:pull`, login, isPlain, signal)
    if (request.authorization) response = await send(request)
  }
  if (response.status !== 200) throw new DigestUnavailable(`${registry} answers ${response.status}`)
  const header = response.headers.get('Docker-Content-Digest')
  if (header !== null) {
    if (!DIGEST.test(header)) throw new DigestUnavailable(`${registry} returns an invalid digest`)
    return header
  }
  const whole = await send({ ...request, method: 'GET' })
  if (whole.status !== 200) throw new DigestUnavailable(`${registry} answers ${whole.status}`)
  return `sha256:${createHash('sha256')
    .update(await readBounded(whole, MAX_MANIFEST_BYTES))
    .digest('hex')}`
}

/** Follows redirects. Only the registry itself receives the credentials. */
async function send({ url, method, authorization, signal }: RegistryRequest): Promise<Response> {
  let to = url
  for (let hops = 0; ; hops++) {
    const isTrusted = to.origin === url.origin && authorization !== null
    const response = await fetch(to, {
      method,
      headers: { Accept: MANIFEST_TYPES, ...(isTrusted && { Authorization: authorization }) },
      redirect: 'manual',
      signal,
    })
    const location = [301, 302, 303, 307, 308].includes(response.status) && response.headers.get('Location')
    if (method === 'HEAD' || location) await response.body?.cancel()
    if (!location) return response
    if (hops === MAX_REDIRECTS) throw new DigestUnavailable(`${url.host} redirects too often`)
    to = parseRegistryUrl(location, to)
    if (to.protocol !== 'https:' && to.protocol !== url.protocol)
      throw new DigestUnavailable(`${url.host} redirects to an address without TLS`)
  }
}

/** The registry names its token server, which must use TLS unless the registry is plain. The scope is a pull. */
async function authorizationOf(
  challenge: string,
  scope: string,
  login: RegistryLogin | null,
  isPlain: boolean,
  signal: AbortSignal,
): Promise<string | null> {
  const basic = login && `Basic ${Buffer.from(`${login.username}:${login.password}`).toString('base64')}`
  if (/^basic\b/i.test(challenge)) return basic
  const { realm, service } = Object.fromEntries(
    [...challenge.matchAll(/\b(\w+)="([^"]*)"/g)].map(([, name, value]) => [name!.toLowerCase(), value!]),
  )
  if (!/^bearer\b/i.test(challenge) || !realm) return null
  const url = parseRegistryUrl(realm)
  if (url.protocol !== 'https:' && !(isPlain && url.protocol === 'http:'))
    throw new DigestUnavailable('its token server does not use TLS')
  if (service !== undefined) url.searchParams.set('service', service)
  url.searchParams.set('scope', scope)
  const response = await fetch(url, { headers: basic ? { Authorization: basic } : {}, redirect: 'error', signal })
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new DigestUnavailable(`${url.host} returns no token (${response.status})`)
  }
  const body = Object(JSON.parse((await readBounded(response, MAX_TOKEN_BYTES)).toString()))
  const token = body.token ?? body.access_token
  if (typeof token !== 'string') throw new DigestUnavailable(`${url.host} returns no token`)
  return `Bearer ${token}`
}

async function readBounded({ body }: Response, limit: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body ?? []) {
    size += chunk.byteLength
    if (size > limit) throw new DigestUnavailable(`the answer of its registry is larger than ${limit} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function parseRegistryUrl(address: string, from?: URL): URL {
  const url = URL.canParse(address, from?.href) ? new URL(address, from) : null
  if (!url || url.username || url.password) throw new DigestUnavailable('its registry redirects to an invalid address')
  return url
}

function explainFailure(registry: string, error: unknown): string {
  const { name, message, cause } = error as Error & { cause?: { code?: string; message?: string } }
  if (name === 'TimeoutError') return `${registry} does not answer in time`
  return `${registry} is unreachable (${cause?.code ?? cause?.message ?? message})`
}
