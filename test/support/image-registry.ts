// A registry of images in memory. Names below `apps/` need a token of the app; everyone may read the others.
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onFileEnd } from './file-state.ts'
import { makeSigningRegistry } from './signing-registry.ts'

type Stored = { type: string; content: Buffer }
type Access = { access: { name: string; actions: string[] }[] }
const digestOf = (content: string | Buffer) => `sha256:${createHash('sha256').update(content).digest('hex')}`

/** `tokens` is the address of the app, which is there later. */
export async function startImageRegistry(tokens: () => string) {
  const stored = new Map<string, Stored>()
  const requests: string[] = []
  const server = createServer((request, response) => void answer(request, response).catch(() => response.destroy()))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onFileEnd(() => {
    server.close()
    server.closeAllConnections()
  })
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const signing = await makeSigningRegistry(`${host}/apps`)

  async function mayAccess({ headers, method }: IncomingMessage, repository: string): Promise<boolean> {
    if (!repository.startsWith('apps/')) return method === 'GET' || method === 'HEAD'
    const [, token] = /^Bearer (.+)$/.exec(headers.authorization ?? '') ?? []
    if (!token) return false
    const { access } = (await signing.claimsOf(token)) as Access
    return access.some(({ name, actions }) => name === repository && actions.includes('push'))
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '' } = request
    const { pathname, searchParams } = new URL(url, `http://${host}`)
    const [, repository = '', kind = '', name = ''] = /^\/v2\/(.+)\/(manifests|blobs)\/(.+)$/.exec(pathname) ?? []
    requests.push(`${method} ${repository} ${kind}`)
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const content = Buffer.concat(parts)
    const key = `${repository} ${name}`
    const reply = (status: number, headers: Record<string, string> = {}, body?: Buffer) =>
      void response.writeHead(status, headers).end(method === 'HEAD' ? undefined : body)
    if (!(await mayAccess(request, repository)))
      return reply(401, { 'WWW-Authenticate': `Bearer realm="${tokens()}/v2/registry/token",service="${host}"` })
    if (method === 'GET' || method === 'HEAD') {
      const found = stored.get(key)
      return found ? reply(200, { 'Content-Type': found.type }, found.content) : reply(404)
    }
    if (method === 'POST') return reply(202, { Location: `/v2/${repository}/blobs/uploads/${randomUUID()}?state=a` })
    if (method === 'PATCH') {
      stored.set(key, { type: '', content })
      return reply(202, { Location: url })
    }
    if (kind === 'manifests') {
      const lacks = listParts(content).some(digest => !stored.has(`${repository} ${digest}`))
      if (lacks || (name.startsWith('sha256:') && name !== digestOf(content))) return reply(400)
      stored.set(key, { type: request.headers['content-type'] ?? '', content })
      return reply(201)
    }
    const digest = searchParams.get('digest') ?? ''
    const uploaded = stored.get(key)
    if (!uploaded || digestOf(uploaded.content) !== digest) return reply(400)
    stored.set(`${repository} ${digest}`, { ...uploaded, type: 'application/octet-stream' })
    return reply(201)
  }

  /** Puts an image there: for each platform a manifest with a layer of its own, in an index. Returns its name. */
  function addImage(repository: string, tag: string, platforms: { os: string; architecture: string }[]): string {
    const add = (reference: string, type: string, content: string) =>
      void stored.set(`${repository} ${reference}`, { type, content: Buffer.from(content) })
    const addBlob = (content: string) => {
      add(digestOf(content), 'application/octet-stream', content)
      return { mediaType: 'application/octet-stream', digest: digestOf(content), size: content.length }
    }
    const type = 'application/vnd.oci.image.manifest.v1+json'
    const manifests = platforms.map(platform => {
      const { os, architecture } = platform
      const layers = [addBlob('shared layer'), addBlob(`layer of ${architecture} ${tag}`)]
      const text = JSON.stringify({ schemaVersion: 2, mediaType: type, config: addBlob(`{"os":"${os}"}`), layers })
      add(digestOf(text), type, text)
      return { mediaType: type, digest: digestOf(text), size: text.length, platform }
    })
    const index = 'application/vnd.oci.image.index.v1+json'
    add(tag, index, JSON.stringify({ schemaVersion: 2, mediaType: index, manifests }))
    return `${host}/${repository}:${tag}`
  }

  return { settings: signing.settings, host, stored, requests, addImage }
}

function listParts(content: Buffer): string[] {
  const { config, layers = [], manifests = [] } = JSON.parse(content.toString())
  return [...(config ? [config] : []), ...layers, ...manifests].map(({ digest }: { digest: string }) => digest)
}
