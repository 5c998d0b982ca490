// Asks a registry what a tag means now, as the Distribution specification has it. A registry is a foreign server: time, bytes and redirects are bounded.
import { createHash } from 'node:crypto'
import type { Login } from '../container/secrets.ts'
import type { Reference } from './reference.ts'

/** It was not told: why, as the end of a sentence. */
export class Untold extends Error {
  override name = 'Untold'
}

type Options = {
  /** Registries that are asked without TLS. */
  plain: readonly string[]
  within_ms?: number
}
type Asked = { url: URL; method: 'HEAD' | 'GET'; authorization: string | null; signal: AbortSignal }

const WITHIN_MS = 20_000
const TOKEN_BYTES = 64 * 1024
const MANIFEST_BYTES = 4 * 1024 * 1024
const REDIRECTS = 3
const DIGEST = /^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/
/** An index before a manifest of one platform: each node takes its own out of it. */
const MANIFESTS = [
  ...['application/vnd.oci.image.index.v1+json', 'application/vnd.docker.distribution.manifest.list.v2+json'],
  ...['application/vnd.oci.image.manifest.v1+json', 'application/vnd.docker.distribution.manifest.v2+json'],
].join(', ')
const HUB = { 'docker.io': 'registry-1.docker.io' } as Record<string, string>

/** With one login after the other, and at last with none, until the registry tells. */
export async function digestOf(
  reference: Reference,
  logins: Login[],
  signal: AbortSignal,
  { plain, within_ms = WITHIN_MS }: Options,
): Promise<string> {
  const bounds = AbortSignal.any([signal, AbortSignal.timeout(within_ms)])
  let refused: Untold | undefined
  for (const login of [...logins, null]) {
    try {
      return await asked(reference, login, plain, bounds)
    } catch (error) {
      if (signal.aborted) throw signal.reason
      const untold = error instanceof Untold ? error : new Untold(whyOf(reference.registry, error))
      // What the first one is told says most.
      refused ??= untold
    }
  }
  throw refused
}

async function asked(
  { registry, repository, tag, digest }: Reference,
  login: Login | null,
  plain: readonly string[],
  signal: AbortSignal,
): Promise<string> {
  const open = plain.includes(registry)
  const at = `${open ? 'http' : 'https'}://${HUB[registry] ?? registry}/v2/${repository}/manifests/${digest ?? tag}`
  const wish: Asked = { url: urlOf(at), method: 'HEAD', authorization: null, signal }
  let answer = await send(wish)
  if (answer.status === 401) {
    const challenge = answer.headers.get('WWW-Authenticate') ?? ''
    wish.authorization = await authorizationOf(challenge, `repository:${repository}:pull`, login, open, signal)
    if (wish.authorization) answer = await send(wish)
  }
  if (answer.status !== 200) throw new Untold(`${registry} answers ${answer.status}`)
  const said = answer.headers.get('Docker-Content-Digest')
  if (said !== null) {
    if (!DIGEST.test(said)) throw new Untold(`${registry} names no digest`)
    return said
  }
  const whole = await send({ ...wish, method: 'GET' })
  if (whole.status !== 200) throw new Untold(`${registry} answers ${whole.status}`)
  return `sha256:${createHash('sha256')
    .update(await bytesOf(whole, MANIFEST_BYTES))
    .digest('hex')}`
}

/** Where it sends us for a manifest is followed, and told nothing of who we are. */
async function send({ url, method, authorization, signal }: Asked): Promise<Response> {
  let to = url
  for (let hops = 0; ; hops++) {
    const own = to.origin === url.origin && authorization !== null
    const answer = await fetch(to, {
      method,
      headers: { Accept: MANIFESTS, ...(own && { Authorization: authorization }) },
      redirect: 'manual',
      signal,
    })
    const location = [301, 302, 303, 307, 308].includes(answer.status) && answer.headers.get('Location')
    if (method === 'HEAD' || location) await answer.body?.cancel()
    if (!location) return answer
    if (hops === REDIRECTS) throw new Untold(`${url.host} leads from one address to the next`)
    to = urlOf(location, to)
    if (to.protocol !== 'https:' && to.protocol !== url.protocol) throw new Untold(`${url.host} leads out of TLS`)
  }
}

/** A registry says who gives out its tokens: only over TLS, unless it is asked without itself, and only for reading this one. */
async function authorizationOf(
  challenge: string,
  scope: string,
  login: Login | null,
  open: boolean,
  signal: AbortSignal,
): Promise<string | null> {
  const basic = login && `Basic ${Buffer.from(`${login.username}:${login.password}`).toString('base64')}`
  if (/^basic\b/i.test(challenge)) return basic
  const { realm, service } = Object.fromEntries(
    [...challenge.matchAll(/\b(\w+)="([^"]*)"/g)].map(([, name, value]) => [name!.toLowerCase(), value!]),
  )
  if (!/^bearer\b/i.test(challenge) || !realm) return null
  const url = urlOf(realm)
  if (url.protocol !== 'https:' && !(open && url.protocol === 'http:'))
    throw new Untold(`its registry gives out tokens without TLS`)
  if (service !== undefined) url.searchParams.set('service', service)
  url.searchParams.set('scope', scope)
  const answer = await fetch(url, { headers: basic ? { Authorization: basic } : {}, redirect: 'error', signal })
  if (answer.status !== 200) {
    await answer.body?.cancel()
    throw new Untold(`${url.host} gives no token (${answer.status})`)
  }
  const said = Object(JSON.parse((await bytesOf(answer, TOKEN_BYTES)).toString()))
  const token = said.token ?? said.access_token
  if (typeof token !== 'string') throw new Untold(`${url.host} gives no token`)
  return `Bearer ${token}`
}

async function bytesOf({ body }: Response, most: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body ?? []) {
    size += chunk.byteLength
    if (size > most) throw new Untold('its registry says more than there is to say')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function urlOf(address: string, from?: URL): URL {
  const url = URL.canParse(address, from?.href) ? new URL(address, from) : null
  if (!url || url.username || url.password) throw new Untold('its registry names an address that is none')
  return url
}

function whyOf(registry: string, error: unknown): string {
  const { name, message, cause } = error as Error & { cause?: { code?: string; message?: string } }
  if (name === 'TimeoutError') return `${registry} does not answer in time`
  return `${registry} cannot be asked (${cause?.code ?? cause?.message ?? message})`
}
