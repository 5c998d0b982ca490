// A client of one repository of a registry, by the Distribution API. Blobs that are there are not sent again.
// https://github.com/opencontainers/distribution-spec
import * as fs from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { parseDockerConfig, registryHost } from '../../src/agent/images/registry-logins.ts'
import { sha256 } from './layer.ts'
import { type Descriptor, type Index, MEDIA_TYPES } from './oci-layout.ts'

export type Repository = ReturnType<typeof openRepository>
type Send = { method: string; url: URL; body?: Uint8Array; type?: string; accept?: string }

const TIMEOUT_MS = 10 * 60_000

/** REGISTRY_USERNAME and REGISTRY_PASSWORD, or what `docker login` has stored. */
function readBasicAuth(registry: string): string | undefined {
  const { REGISTRY_USERNAME, REGISTRY_PASSWORD, DOCKER_CONFIG = join(homedir(), '.docker') } = process.env
  const encode = (username: string, password: string) =>
    `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
  if (REGISTRY_USERNAME && REGISTRY_PASSWORD) return encode(REGISTRY_USERNAME, REGISTRY_PASSWORD)
  const file = join(DOCKER_CONFIG, 'config.json')
  if (!fs.existsSync(file)) return undefined
  const logins = parseDockerConfig(file, fs.readFileSync(file, 'utf8'))
  const login = logins.find(({ serveraddress }) => registryHost(serveraddress) === registry)
  return login?.username ? encode(login.username, login.password) : undefined
}

async function requestToken(challenge: string, scope: string, basic: string | undefined): Promise<string | undefined> {
  if (/^basic\b/i.test(challenge)) return basic
  const { realm, service } = Object.fromEntries(
    [...challenge.matchAll(/\b(\w+)="([^"]*)"/g)].map(([, name, value]) => [name!.toLowerCase(), value!]),
  )
  if (!realm) return undefined
  const url = new URL(realm)
  if (service) url.searchParams.set('service', service)
  url.searchParams.set('scope', scope)
  const response = await fetch(url, { headers: basic ? { Authorization: basic } : {}, redirect: 'error' })
  if (!response.ok) throw new Error(`${url.host} returns no token (${response.status}). Check the login.`)
  const { token, access_token } = (await response.json()) as { token?: string; access_token?: string }
  return `Bearer ${token ?? access_token}`
}

export function openRepository(name: string, { isPlain = false } = {}) {
  const [registry, ...rest] = name.split('/')
  if (!registry || rest.length === 0 || !/[.:]|^localhost$/.test(registry))
    throw new Error(`${name} is not a repository. Use a name like registry.example.com/team.`)
  const repository = rest.join('/')
  const base = new URL(`${isPlain ? 'http' : 'https'}://${registry}/v2/${repository}/`)
  let authorization: string | undefined

  async function send({ method, url, body, type, accept }: Send): Promise<Response> {
    for (let attempt = 0; ; attempt++) {
      const response = await fetch(url, {
        method,
        headers: {
          ...(authorization && url.origin === base.origin && { Authorization: authorization }),
          ...(type && { 'Content-Type': type }),
          ...(accept && { Accept: accept }),
        },
        ...(body && { body: body as Uint8Array<ArrayBuffer> }),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      })
      if (response.status !== 401 || attempt > 0) return response
      await response.body?.cancel()
      const challenge = response.headers.get('WWW-Authenticate') ?? ''
      authorization = await requestToken(challenge, `repository:${repository}:pull,push`, readBasicAuth(registry!))
    }
  }

  async function expect(status: number, request: Send): Promise<Response> {
    const response = await send(request)
    if (response.status === status) return response
    const reason = (await response.text()).slice(0, 500)
    throw new Error(`${registry} answers ${response.status} to ${request.method} ${request.url.pathname}: ${reason}`)
  }

  const manifestUrl = (reference: string) => new URL(`manifests/${reference}`, base)

  return {
    name,

    /** The digest that a tag or digest has there. */
    async findManifest(reference: string): Promise<string | undefined> {
      const accept = `${MEDIA_TYPES.index}, ${MEDIA_TYPES.manifest}`
      const response = await send({ method: 'GET', url: manifestUrl(reference), accept })
      if (response.status === 404) return void (await response.body?.cancel())
      if (!response.ok) throw new Error(`${registry} answers ${response.status} to GET ${response.url}.`)
      return sha256(new Uint8Array(await response.arrayBuffer()))
    },

    async pushBlob(digest: string, bytes: () => Uint8Array): Promise<boolean> {
      const found = await send({ method: 'HEAD', url: new URL(`blobs/${digest}`, base) })
      if (found.ok) return false
      const upload = await expect(202, { method: 'POST', url: new URL('blobs/uploads/', base) })
      const url = new URL(upload.headers.get('Location')!, base)
      url.searchParams.set('digest', digest)
      await expect(201, { method: 'PUT', url, body: bytes(), type: 'application/octet-stream' })
      return true
    },

    async pushManifest(reference: string, mediaType: string, bytes: Uint8Array): Promise<Response> {
      return expect(201, { method: 'PUT', url: manifestUrl(reference), body: bytes, type: mediaType })
    },

    /** For registries that do not list referrers by themselves: the tag where clients look instead. */
    async addReferrerTag(subject: string, referrer: Descriptor): Promise<void> {
      const tag = subject.replace(':', '-')
      const response = await send({ method: 'GET', url: manifestUrl(tag), accept: MEDIA_TYPES.index })
      const index: Index = response.ok ? ((await response.json()) as Index) : { manifests: [] }
      if (index.manifests.some(({ digest }) => digest === referrer.digest)) return
      const value = {
        schemaVersion: 2,
        mediaType: MEDIA_TYPES.index,
        manifests: [...index.manifests, referrer],
      }
      await this.pushManifest(tag, MEDIA_TYPES.index, Buffer.from(JSON.stringify(value)))
    },
  }
}
