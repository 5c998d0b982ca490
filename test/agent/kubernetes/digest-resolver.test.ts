// The digest of a tag, from registries that follow the Distribution specification and from faulty ones.
import { createHash } from 'node:crypto'
import * as http from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { resolveDigest } from '../../../src/agent/engines/kubernetes/digest-resolver.ts'
import { loginsFor, parseReference } from '../../../src/agent/engines/kubernetes/image-reference.ts'

const MANIFEST = JSON.stringify({ schemaVersion: 2, manifests: [] })
const DIGEST = `sha256:${createHash('sha256').update(MANIFEST).digest('hex')}`
type Answer = (req: http.IncomingMessage, res: http.ServerResponse, requests: URL) => void
const manifest: Answer = (req, res) =>
  res.writeHead(200, { 'Docker-Content-Digest': DIGEST }).end(req.method === 'GET' ? MANIFEST : undefined)

let server: http.Server
let host: string
let answer: Answer
let requests: { method: string; url: string; authorization: string | undefined; accept: string | undefined }[]
beforeEach(async () => {
  requests = []
  server = http.createServer((req, res) => {
    const { authorization, accept } = req.headers
    requests.push({ method: req.method!, url: req.url!, authorization, accept })
    answer(req, res, new URL(req.url!, `http://${host}`))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  host = `127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(() => {
  server.closeAllConnections()
  server.close()
})

const login = (username: string, server = host) => ({ serveraddress: server, username, password: 'hush' })
const resolveTag = (image = `${host}/apps/web:1`, logins = [] as ReturnType<typeof login>[], within_ms = 5_000) =>
  resolveDigest(parseReference(image), logins, new AbortController().signal, {
    httpRegistries: [host],
    within_ms,
  }).catch((error: Error) => `${error.name}: ${error.message}`)

describe('an image reference', () => {
  const D = `sha256:${'a'.repeat(64)}`
  test.each([
    ['nginx', 'docker.io', 'library/nginx', 'latest', null],
    ['acme/web:1', 'docker.io', 'acme/web', '1', null],
    ['docker.io/nginx:1', 'docker.io', 'library/nginx', '1', null],
    ['localhost/web', 'localhost', 'web', 'latest', null],
    ['registry.example.com:5000/a/b/c:v1', 'registry.example.com:5000', 'a/b/c', 'v1', null],
    [`registry.example.com:5000/a@${D}`, 'registry.example.com:5000', 'a', 'latest', D],
    [`acme/web:1@${D}`, 'docker.io', 'acme/web', '1', D],
  ])('%s is parsed into its parts', (image, registry, repository, tag, digest) => {
    expect(parseReference(image)).toMatchObject({ registry, repository, tag, digest })
  })

  test('selects its logins, the most specific path first', () => {
    const selectServers = (image: string, ...servers: string[]) =>
      loginsFor(
        parseReference(image),
        servers.map(server => login('a', server)),
      ).map(({ serveraddress }) => serveraddress)
    expect(
      selectServers('r.example.com/a/b', 'r.example.com', 'r.example.com/a', 'r.example.com/ab', 'other.com'),
    ).toEqual(['r.example.com/a', 'r.example.com'])
    expect(selectServers('nginx', 'https://index.docker.io/v1/', 'r.example.com')).toEqual([
      'https://index.docker.io/v1/',
    ])
  })
})

describe('a digest is resolved', () => {
  test('from the header of a HEAD request that accepts indexes', async () => {
    answer = manifest
    expect(await resolveTag()).toBe(DIGEST)
    expect(requests).toMatchObject([{ method: 'HEAD', url: '/v2/apps/web/manifests/1', authorization: undefined }])
    expect(requests[0]!.accept).toMatch(/^application\/vnd\.oci\.image\.index\.v1\+json, .*manifest\.v2\+json$/)
  })

  test('from the manifest itself if the header is missing', async () => {
    answer = (req, res) => res.writeHead(200).end(req.method === 'GET' ? MANIFEST : undefined)
    expect(await resolveTag()).toBe(DIGEST)
    expect(requests.map(({ method }) => method)).toEqual(['HEAD', 'GET'])
  })

  test('with a token whose scope is a pull of this repository', async () => {
    answer = (req, res, url) => {
      if (url.pathname === '/token') return res.end(JSON.stringify({ token: `t-${url.searchParams.get('scope')}` }))
      if (req.headers.authorization === 'Bearer t-repository:apps/web:pull') return manifest(req, res, url)
      const challenge = `Bearer realm="http://${host}/token",service="reg",scope="repository:apps/web:pull,push"`
      return res.writeHead(401, { 'WWW-Authenticate': challenge }).end()
    }
    expect(await resolveTag(undefined, [login('ann')])).toBe(DIGEST)
    expect(requests[1]).toMatchObject({
      url: '/token?service=reg&scope=repository%3Aapps%2Fweb%3Apull',
      authorization: `Basic ${Buffer.from('ann:hush').toString('base64')}`,
    })
  })

  test('with the second login if the first one is refused', async () => {
    const accepted = `Basic ${Buffer.from('ann:hush').toString('base64')}`
    answer = (req, res, url) =>
      req.headers.authorization === accepted
        ? manifest(req, res, url)
        : res.writeHead(401, { 'WWW-Authenticate': 'Basic realm="r"' }).end()
    expect(await resolveTag(undefined, [login('bob'), login('ann')])).toBe(DIGEST)
  })

  test('anonymously if the login is refused', async () => {
    answer = (req, res, url) =>
      url.pathname === '/token'
        ? req.headers.authorization
          ? res.writeHead(403).end()
          : res.end('{"access_token":"anyone"}')
        : req.headers.authorization === 'Bearer anyone'
          ? manifest(req, res, url)
          : res.writeHead(401, { 'WWW-Authenticate': `Bearer realm="http://${host}/token"` }).end()
    expect(await resolveTag(undefined, [login('ann')])).toBe(DIGEST)
  })

  test('from a redirect target, which does not receive the credentials', async () => {
    let redirectedAuthorization: string | undefined
    const redirectTarget = http.createServer((req, res) => {
      redirectedAuthorization = req.headers.authorization ?? 'none'
      manifest(req, res, new URL('http://x'))
    })
    await new Promise<void>(resolve => redirectTarget.listen(0, '127.0.0.1', resolve))
    const Location = `http://127.0.0.1:${(redirectTarget.address() as AddressInfo).port}/there`
    answer = (req, res) =>
      req.headers.authorization
        ? res.writeHead(307, { Location }).end()
        : res.writeHead(401, { 'WWW-Authenticate': 'Basic' }).end()
    expect(await resolveTag(undefined, [login('ann')])).toBe(DIGEST)
    expect(redirectedAuthorization).toBe('none')
    redirectTarget.close()
  })
})

describe('a digest is unavailable', () => {
  test.each<[string, Answer, RegExp]>([
    ['the tag does not exist', (_, res) => res.writeHead(404).end(), /answers 404/],
    [
      'the header is not a digest',
      (_, res) => res.writeHead(200, { 'Docker-Content-Digest': 'x' }).end(),
      /invalid digest/,
    ],
    ['the redirects never end', (_, res) => res.writeHead(302, { Location: '/again' }).end(), /redirects too often/],
    [
      'the redirect has no host',
      (_, res) => res.writeHead(302, { Location: 'http://' }).end(),
      /redirects to an invalid address/,
    ],
    [
      'the manifest is too large',
      (req, res) => void (req.method === 'HEAD' ? res.end() : res.end(Buffer.alloc(5 * 1024 * 1024))),
      /larger than/,
    ],
    [
      'the token is too large',
      (_, res, url) =>
        url.pathname === '/token'
          ? res.end(JSON.stringify({ token: 'x'.repeat(100_000) }))
          : res.writeHead(401, { 'WWW-Authenticate': `Bearer realm="http://${host}/token"` }).end(),
      /larger than/,
    ],
    [
      'the token is missing',
      (_, res, url) =>
        url.pathname === '/token'
          ? res.end('null')
          : res.writeHead(401, { 'WWW-Authenticate': `Bearer realm="http://${host}/token"` }).end(),
      /returns no token/,
    ],
    ['the connection breaks', (_, res) => void res.destroy(), /is unreachable/],
  ])('if %s', async (_, faultyAnswer, reason) => {
    answer = faultyAnswer
    expect(await resolveTag()).toMatch(/^DigestUnavailable: /)
    expect(await resolveTag()).toMatch(reason)
  })

  test('if the registry does not answer in time', async () => {
    answer = () => {}
    expect(await resolveTag(undefined, [login('ann')], 200)).toMatch(/does not answer in time$/)
    expect(requests).toHaveLength(1)
  })

  test('if the token server uses neither TLS nor HTTP', async () => {
    answer = (_, res) => res.writeHead(401, { 'WWW-Authenticate': 'Bearer realm="ftp://127.0.0.1/token"' }).end()
    expect(await resolveTag(undefined, [login('ann')])).toMatch(/does not use TLS/)
  })

  test('without TLS, unless the operator lists the registry', async () => {
    answer = manifest
    const digest = resolveDigest(parseReference(`${host}/apps/web:1`), [], new AbortController().signal, {
      httpRegistries: [],
    })
    await expect(digest).rejects.toThrow(/is unreachable/)
    expect(requests).toEqual([])
  })

  test('if the task is interrupted', async () => {
    const controller = new AbortController()
    answer = () => controller.abort(new Error('interrupted'))
    const digest = resolveDigest(parseReference(`${host}/apps/web:1`), [], controller.signal, {
      httpRegistries: [host],
    })
    await expect(digest).rejects.toThrow('interrupted')
  })
})
