// What a tag means, asked of a small registry that speaks as the Distribution specification has it, and of such that do not.
import { createHash } from 'node:crypto'
import * as http from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { resolveDigest } from '../../../src/agent/engines/kubernetes/digest-resolver.ts'
import { loginsFor, parseReference } from '../../../src/agent/engines/kubernetes/image-reference.ts'

const MANIFEST = JSON.stringify({ schemaVersion: 2, manifests: [] })
const DIGEST = `sha256:${createHash('sha256').update(MANIFEST).digest('hex')}`
type Answer = (req: http.IncomingMessage, res: http.ServerResponse, asked: URL) => void
const manifest: Answer = (req, res) =>
  res.writeHead(200, { 'Docker-Content-Digest': DIGEST }).end(req.method === 'GET' ? MANIFEST : undefined)

let server: http.Server
let host: string
let answer: Answer
let asked: { method: string; url: string; authorization: string | undefined; accept: string | undefined }[]
beforeEach(async () => {
  asked = []
  server = http.createServer((req, res) => {
    const { authorization, accept } = req.headers
    asked.push({ method: req.method!, url: req.url!, authorization, accept })
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

describe('the name of an image', () => {
  const D = `sha256:${'a'.repeat(64)}`
  test.each([
    ['nginx', 'docker.io', 'library/nginx', 'latest', null],
    ['acme/web:1', 'docker.io', 'acme/web', '1', null],
    ['docker.io/nginx:1', 'docker.io', 'library/nginx', '1', null],
    ['localhost/web', 'localhost', 'web', 'latest', null],
    ['registry.example.com:5000/a/b/c:v1', 'registry.example.com:5000', 'a/b/c', 'v1', null],
    [`registry.example.com:5000/a@${D}`, 'registry.example.com:5000', 'a', 'latest', D],
    [`acme/web:1@${D}`, 'docker.io', 'acme/web', '1', D],
  ])('%s', (image, registry, repository, tag, digest) => {
    expect(parseReference(image)).toMatchObject({ registry, repository, tag, digest })
  })

  test('which logins are for it, the most particular first', () => {
    const servers = (image: string, ...all: string[]) =>
      loginsFor(
        parseReference(image),
        all.map(server => login('a', server)),
      ).map(({ serveraddress }) => serveraddress)
    expect(servers('r.example.com/a/b', 'r.example.com', 'r.example.com/a', 'r.example.com/ab', 'other.com')).toEqual([
      'r.example.com/a',
      'r.example.com',
    ])
    expect(servers('nginx', 'https://index.docker.io/v1/', 'r.example.com')).toEqual(['https://index.docker.io/v1/'])
  })
})

describe('is told', () => {
  test('by its header, to whoever takes an index', async () => {
    answer = manifest
    expect(await resolveTag()).toBe(DIGEST)
    expect(asked).toMatchObject([{ method: 'HEAD', url: '/v2/apps/web/manifests/1', authorization: undefined }])
    expect(asked[0]!.accept).toMatch(/^application\/vnd\.oci\.image\.index\.v1\+json, .*manifest\.v2\+json$/)
  })

  test('by the manifest itself, where there is no header', async () => {
    answer = (req, res) => res.writeHead(200).end(req.method === 'GET' ? MANIFEST : undefined)
    expect(await resolveTag()).toBe(DIGEST)
    expect(asked.map(({ method }) => method)).toEqual(['HEAD', 'GET'])
  })

  test('with a token, for reading this repository alone', async () => {
    answer = (req, res, url) => {
      if (url.pathname === '/token') return res.end(JSON.stringify({ token: `t-${url.searchParams.get('scope')}` }))
      if (req.headers.authorization === 'Bearer t-repository:apps/web:pull') return manifest(req, res, url)
      const challenge = `Bearer realm="http://${host}/token",service="reg",scope="repository:apps/web:pull,push"`
      return res.writeHead(401, { 'WWW-Authenticate': challenge }).end()
    }
    expect(await resolveTag(undefined, [login('ann')])).toBe(DIGEST)
    expect(asked[1]).toMatchObject({
      url: '/token?service=reg&scope=repository%3Aapps%2Fweb%3Apull',
      authorization: `Basic ${Buffer.from('ann:hush').toString('base64')}`,
    })
  })

  test('with the login that it is told to', async () => {
    const right = `Basic ${Buffer.from('ann:hush').toString('base64')}`
    answer = (req, res, url) =>
      req.headers.authorization === right
        ? manifest(req, res, url)
        : res.writeHead(401, { 'WWW-Authenticate': 'Basic realm="r"' }).end()
    expect(await resolveTag(undefined, [login('bob'), login('ann')])).toBe(DIGEST)
  })

  test('to nobody in particular, where a login is refused', async () => {
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

  test('from where it leads to, which does not learn who asks', async () => {
    let other: string | undefined
    const elsewhere = http.createServer((req, res) => {
      other = req.headers.authorization ?? 'nobody'
      manifest(req, res, new URL('http://x'))
    })
    await new Promise<void>(resolve => elsewhere.listen(0, '127.0.0.1', resolve))
    const Location = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/there`
    answer = (req, res) =>
      req.headers.authorization
        ? res.writeHead(307, { Location }).end()
        : res.writeHead(401, { 'WWW-Authenticate': 'Basic' }).end()
    expect(await resolveTag(undefined, [login('ann')])).toBe(DIGEST)
    expect(other).toBe('nobody')
    elsewhere.close()
  })
})

describe('is not told', () => {
  test.each<[string, Answer, RegExp]>([
    ['where there is none', (_, res) => res.writeHead(404).end(), /answers 404/],
    ['in anything but a digest', (_, res) => res.writeHead(200, { 'Docker-Content-Digest': 'x' }).end(), /no digest/],
    ['in circles', (_, res) => res.writeHead(302, { Location: '/again' }).end(), /from one address to the next/],
    ['by an address that is none', (_, res) => res.writeHead(302, { Location: 'http://' }).end(), /that is none/],
    [
      'in more than there is to say',
      (req, res) => void (req.method === 'HEAD' ? res.end() : res.end(Buffer.alloc(5 * 1024 * 1024))),
      /more than there is to say/,
    ],
    [
      'for a token of no size',
      (_, res, url) =>
        url.pathname === '/token'
          ? res.end(JSON.stringify({ token: 'x'.repeat(100_000) }))
          : res.writeHead(401, { 'WWW-Authenticate': `Bearer realm="http://${host}/token"` }).end(),
      /more than there is to say/,
    ],
    [
      'for something else than a token',
      (_, res, url) =>
        url.pathname === '/token'
          ? res.end('null')
          : res.writeHead(401, { 'WWW-Authenticate': `Bearer realm="http://${host}/token"` }).end(),
      /gives no token/,
    ],
    ['by who breaks off', (_, res) => void res.destroy(), /cannot be asked/],
  ])('%s', async (_, how, why) => {
    answer = how
    expect(await resolveTag()).toMatch(/^Untold: /)
    expect(await resolveTag()).toMatch(why)
  })

  test('by who does not answer', async () => {
    answer = () => {}
    expect(await resolveTag(undefined, [login('ann')], 200)).toMatch(/does not answer in time$/)
    expect(asked).toHaveLength(1)
  })

  test('by who gives out tokens without TLS, and is not one of those', async () => {
    answer = (_, res) => res.writeHead(401, { 'WWW-Authenticate': 'Bearer realm="ftp://127.0.0.1/token"' }).end()
    expect(await resolveTag(undefined, [login('ann')])).toMatch(/without TLS/)
  })

  test('without TLS, unless it is one of those', async () => {
    answer = manifest
    const asking = resolveDigest(parseReference(`${host}/apps/web:1`), [], new AbortController().signal, {
      httpRegistries: [],
    })
    await expect(asking).rejects.toThrow(/cannot be asked/)
    expect(asked).toEqual([])
  })

  test('after an interruption', async () => {
    const controller = new AbortController()
    answer = () => controller.abort(new Error('interrupted'))
    const asking = resolveDigest(parseReference(`${host}/apps/web:1`), [], controller.signal, {
      httpRegistries: [host],
    })
    await expect(asking).rejects.toThrow('interrupted')
  })
})
