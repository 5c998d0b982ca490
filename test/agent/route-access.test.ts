// The router lets people and machines see a protected deployment: by a grant, a share link, a token, or an open path.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import * as http from 'node:http'
import { type AddressInfo, connect, type Server } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { RouteAccess } from '../../src/agent/engines/local/route-access.ts'
import { createRouter, type Route } from '../../src/agent/engines/local/router.ts'
import { RouterClient } from '../../src/agent/engines/local/router-client.ts'
import { publicJwks, type SigningSettings, signJwt } from '../../src/kernel/crypto/signing-keys.ts'
import type { AccessRenewal } from '../../src/protocol/access-renewals.schema.ts'
import { ACCESS_PATH, GRANT_TYPE } from '../../src/protocol/access-rules.ts'
import { waitFor } from '../support/commands.ts'
import { makeTempFolder } from '../support/process-engine.ts'

const KEYS: SigningSettings = {
  signingSeeds: undefined,
  sealingKeys: [['k1', Buffer.alloc(32, 7).toString('base64url')]],
}
const OTHERS: SigningSettings = { ...KEYS, sealingKeys: [['k1', Buffer.alloc(32, 8).toString('base64url')]] }
const ISSUER = 'https://slipway.example.com'
const DEPLOYMENT = '6512bd43-d9ca-4a6e-8c99-2adbb0b2d0e1'
const HOST = 'shop.apps.example.com'
const DAY_MS = 86_400_000
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

const servers: Server[] = []
let router: ReturnType<typeof createRouter>
let port: number
/** The headers of each request that the application got. */
let received: http.IncomingHttpHeaders[]
let route: Route

async function listen<S extends Server>(server: S): Promise<number> {
  servers.push(server)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return (server.address() as AddressInfo).port
}

/** Applies the route like an agent, behind a proxy that speaks TLS. */
let woken: string[]
let asked: AccessRenewal[]

async function startRouter(access: Partial<RouteAccess> = {}, key = 'key of the router') {
  woken = []
  asked = []
  router = createRouter(
    {},
    ['127.0.0.1'],
    undefined,
    key,
    id => woken.push(id),
    one => asked.push(one),
  )
  port = await listen(router.server())
  route.access = {
    deployment_id: DEPLOYMENT,
    workspace_id: 'a3c65c29-74e1-4f3c-a9e7-4d1d8f8b0c0e',
    open_paths: [],
    bypasses: [],
    grants: {
      issuer: ISSUER,
      url: `${ISSUER}/sign-in/deployment`,
      keys: (await publicJwks(KEYS)).keys.map(({ kid, x }) => ({ kid, x })),
    },
    ...access,
  }
  router.apply([route])
}

beforeEach(async () => {
  received = []
  const app = http.createServer((req, res) => {
    received.push(req.headers)
    res.writeHead(200, { 'Cache-Control': 'public, max-age=60, s-maxage=600', 'CDN-Cache-Control': 'max-age=600' })
    res.end(req.method === 'HEAD' ? '' : 'the application')
  })
  app.on('upgrade', (req, socket) => {
    received.push(req.headers)
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  })
  const target = { host: '127.0.0.1', port: await listen(app) }
  route = { host: HOST, path: '/', targets: [target], of: DEPLOYMENT }
  await startRouter()
})
afterEach(() => {
  for (const server of servers.splice(0)) {
    if (server instanceof http.Server) server.closeAllConnections()
    server.close()
  }
})

type Options = { method?: string; path?: string; headers?: http.OutgoingHttpHeaders; body?: object; host?: string }
async function send({ method = 'GET', path = '/', headers, body, host = HOST }: Options = {}) {
  const request = http.request({
    ...{ port, method, path, agent: false },
    headers: { host, 'X-Forwarded-Proto': 'https', ...headers },
  })
  request.end(body && JSON.stringify(body))
  const [res] = (await once(request, 'response')) as [http.IncomingMessage]
  let text = ''
  for await (const chunk of res.setEncoding('utf8')) text += chunk
  return { status: res.statusCode!, headers: res.headers, text }
}
const NAVIGATION = { 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document', Accept: 'text/html' }
const cookieOf = ({ headers }: { headers: http.IncomingHttpHeaders }) => headers['set-cookie']![0]!.split(';')[0]!

/** A browser that is sent to the sign-in: its cookie, and what the router wants to be signed. */
async function visit(path = '/', host = HOST) {
  const answer = await send({ path, headers: NAVIGATION, host })
  expect(answer.status).toBe(302)
  return { answer, cookie: cookieOf(answer), query: new URL(answer.headers.location!).searchParams }
}
const grantFor = (state: string, claims: object = {}, keys = KEYS, typ = GRANT_TYPE) => {
  const now = Math.floor(Date.now() / 1000)
  const all = { iss: ISSUER, aud: HOST, deployment_id: DEPLOYMENT, state, nbf: now - 5, exp: now + 60 }
  return signJwt(keys, { ...all, session_seconds: 1800, ...claims }, typ)
}
const exchange = (body: object, Cookie = '', more: Options = {}) =>
  send({ method: 'POST', path: ACCESS_PATH, body, headers: { Cookie }, ...more })

describe('without a grant', () => {
  test('a browser is sent to sign in, and everything else is refused', async () => {
    const { answer, query } = await visit('/orders?secret=1')
    const target = new URL(answer.headers.location!)
    expect(`${target.origin}${target.pathname}`).toBe(`${ISSUER}/sign-in/deployment`)
    expect(Object.fromEntries(query)).toMatchObject({ deployment: DEPLOYMENT, host: HOST })
    // Only the fragment has the path: no server gets it.
    expect(decodeURIComponent(target.hash)).toBe('#/orders?secret=1')
    expect(target.search).not.toContain('secret')
    expect(answer.headers).toMatchObject({ 'cache-control': 'private, no-store', 'x-robots-tag': 'noindex' })
    expect(answer.headers['set-cookie']![0]).toMatch(
      /^__Host-slipway-state-6512bd43=[\w-]{43}; Path=\/; .*HttpOnly; SameSite=Lax; Secure$/,
    )
    const others: Options[] = [
      {},
      { method: 'HEAD', headers: NAVIGATION },
      { method: 'OPTIONS' },
      { method: 'POST', headers: NAVIGATION },
      { headers: { 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'iframe' } },
      { headers: { 'Sec-Fetch-Mode': 'cors', Accept: 'text/html' } },
      { path: '//shop/', headers: { 'X-Forwarded-Host': 'open.apps.example.com' } },
    ]
    for (const other of others) expect((await send(other)).status, JSON.stringify(other)).toBe(401)
    expect((await send({ path: '/robots.txt' })).text).toContain('Disallow: /')
    expect(received).toEqual([])
  })

  test('also a WebSocket is refused, and one of those with a token gets through', async () => {
    await startRouter({ bypasses: [{ kind: 'token', hash: sha256('the token'), expires_at: null }] })
    const handshake = async (more: string) => {
      const socket = connect(port, '127.0.0.1')
      socket.write(`GET / HTTP/1.1\r\nHost: ${HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${more}\r\n`)
      const [chunk] = (await once(socket, 'data')) as [Buffer]
      socket.destroy()
      return chunk.toString().split('\r\n')[0]
    }
    expect(await handshake('')).toBe('HTTP/1.1 401 Unauthorized')
    expect(await handshake('X-Slipway-Bypass: the token\r\n')).toBe('HTTP/1.1 101 Switching Protocols')
    expect(received).toEqual([expect.not.objectContaining({ 'x-slipway-bypass': expect.anything() })])
  })

  test('before it is known who signs grants, nobody is let in', async () => {
    await startRouter({ grants: null })
    expect((await send({ headers: NAVIGATION })).status).toBe(401)
    expect((await exchange({ grant: await grantFor('state') })).status).toBe(403)
  })
})

describe('a grant', () => {
  test('opens the host for the browser that was sent, and the application sees nothing of it', async () => {
    const { cookie, query } = await visit()
    const exchanged = await exchange({ grant: await grantFor(query.get('state')!) }, cookie)
    expect(exchanged.status).toBe(204)
    expect(exchanged.headers['set-cookie']![0]).toMatch(
      /^__Host-slipway-access-6512bd43=.*; Max-Age=(1800|1799); HttpOnly; SameSite=Lax; Secure$/,
    )
    const headers = { Cookie: `theirs=1; ${cookieOf(exchanged)}; ${cookie}; last=2`, X_Slipway_Bypass: 'a token' }
    const answer = await send({ path: '/orders', headers })
    expect([answer.status, answer.text]).toEqual([200, 'the application'])
    // A shared cache must not answer others with it.
    expect(answer.headers).toMatchObject({ 'cache-control': 'private, max-age=60', 'x-robots-tag': 'noindex' })
    expect(answer.headers['cdn-cache-control']).toBeUndefined()
    expect(received).toHaveLength(1)
    expect(received[0]!.cookie).toBe('theirs=1; last=2')
    expect(JSON.stringify(received)).not.toMatch(/slipway/i)
  })

  test('counts for requests of its own host, and for a page that another one opens', async () => {
    const { cookie, query } = await visit()
    const Cookie = cookieOf(await exchange({ grant: await grantFor(query.get('state')!) }, cookie))
    const from = async (site: string, headers: http.OutgoingHttpHeaders, method = 'GET') =>
      (await send({ method, headers: { Cookie, 'Sec-Fetch-Site': site, ...headers } })).status
    expect(await from('same-origin', { 'Sec-Fetch-Mode': 'cors' }, 'POST')).toBe(200)
    expect([await from('none', NAVIGATION), await from('same-site', NAVIGATION)]).toEqual([200, 200])
    for (const headers of [{ 'Sec-Fetch-Mode': 'no-cors' }, { ...NAVIGATION, 'Sec-Fetch-Dest': 'iframe' }])
      expect(await from('same-site', headers)).toBe(401)
    expect(await from('same-site', NAVIGATION, 'POST')).toBe(401)
  })

  test('for another host, deployment or browser, or of another issuer, key or kind, opens nothing', async () => {
    const { cookie, query } = await visit()
    const state = query.get('state')!
    const now = Math.floor(Date.now() / 1000)
    const [other] = await Promise.all([visit()])
    const refused: Record<string, [string, string]> = {
      host: [await grantFor(state, { aud: 'other.apps.example.com' }), cookie],
      deployment: [await grantFor(state, { deployment_id: crypto.randomUUID() }), cookie],
      browser: [await grantFor(state), other.cookie],
      'no browser': [await grantFor(state), ''],
      issuer: [await grantFor(state, { iss: 'https://other.example.com' }), cookie],
      key: [await grantFor(state, {}, OTHERS), cookie],
      kind: [await grantFor(state, {}, KEYS, 'model-token+jwt'), cookie],
      expired: [await grantFor(state, { exp: now - 1 }), cookie],
      early: [await grantFor(state, { nbf: now + 60 }), cookie],
      'without a time': [await grantFor(state, { session_seconds: null }), cookie],
      changed: [`${await grantFor(state)}`.replace(/.$/, last => (last === 'A' ? 'B' : 'A')).slice(0, -3), cookie],
    }
    for (const [name, [grant, sent]] of Object.entries(refused))
      expect((await exchange({ grant }, sent)).status, name).toBe(403)
    const fromElsewhere = { headers: { Cookie: cookie, 'Sec-Fetch-Site': 'cross-site' } }
    expect((await exchange({ grant: await grantFor(state) }, cookie, fromElsewhere)).status).toBe(403)
    expect((await exchange({ grant: await grantFor(state) }, cookie)).status).toBe(204)
  })

  test('is renewed while its page is open and used, and ends once its person may not see the page', async () => {
    const { cookie, query } = await visit()
    const enter = async (claims: object) =>
      cookieOf(await exchange({ grant: await grantFor(query.get('state')!, claims) }, cookie))
    const use = async (Cookie: string) => {
      const { status, headers } = await send({ headers: { Cookie, 'Sec-Fetch-Mode': 'cors' } })
      return { status, cookies: headers['set-cookie'] }
    }
    // One that was just made, and one without a session, are not asked about.
    for (const claims of [{ renewal: 'kid.iv.sealed' }, { session_seconds: 900 }])
      expect(await use(await enter(claims))).toEqual({ status: 200, cookies: undefined })
    expect(asked).toEqual([])
    const old = await enter({ session_seconds: 900, renewal: 'kid.iv.sealed' })
    for (let i = 0; i < 2; i++) expect(await use(old)).toEqual({ status: 200, cookies: undefined })
    expect(asked).toEqual([{ deployment_id: DEPLOYMENT, host: HOST, renewal: 'kid.iv.sealed' }])
    router.answerRenewal({ renewal: 'kid.iv.sealed' }, true)
    const { cookies } = await use(old)
    expect(cookies).toEqual([expect.stringMatching(/^__Host-slipway-access-6512bd43=.*; Max-Age=(1800|17\d\d);/)])
    const renewed = cookies![0]!.split(';')[0]!
    expect(await use(renewed)).toEqual({ status: 200, cookies: undefined })
    expect((await use(renewed.replace('.sealed', '.other'))).status).toBe(401)
    router.answerRenewal({ renewal: 'kid.iv.sealed' }, false)
    expect([(await use(renewed)).status, (await use(old)).status]).toEqual([401, 401])
    expect(asked).toHaveLength(1)
  })

  test('is renewed by the agent of the router’s own process', async () => {
    const home = makeTempFolder()
    const ask = async (one: AccessRenewal) => asked.push(one) > 0
    const settings = { trusted_proxies: ['127.0.0.1'] }
    const client = new RouterClient(join(home, 'router.json'), 0, settings, undefined, undefined, ask)
    onTestFinished(async () => {
      await client.close()
      fs.rmSync(home, { recursive: true, force: true })
    })
    await client.open()
    await client.apply(() => [route])
    port = client.port
    const { cookie, query } = await visit()
    const grant = await grantFor(query.get('state')!, { session_seconds: 900, renewal: 'kid.iv.sealed' })
    const Cookie = cookieOf(await exchange({ grant }, cookie))
    const [renewed] = await waitFor(async () => (await send({ headers: { Cookie } })).headers['set-cookie'])
    expect(renewed).toMatch(/\.kid\.iv\.sealed; Path=\/; Max-Age=(1800|17\d\d);/)
    expect(asked).toEqual([{ deployment_id: DEPLOYMENT, host: HOST, renewal: 'kid.iv.sealed' }])
  })

  test('becomes a cookie of one host, one deployment and one router, and ends', async () => {
    const { cookie, query } = await visit()
    const enter = async (claims: object) =>
      cookieOf(await exchange({ grant: await grantFor(query.get('state')!, claims) }, cookie))
    const entered = await enter({})
    const status = async (Cookie: string, host = HOST) => (await send({ headers: { Cookie }, host })).status
    expect(await status(entered)).toBe(200)
    const [, name = '', until = '', signature = ''] = /^(.*?)=(\d+)\.\.(.*)$/.exec(entered)!
    expect(await status(`${name}=${Number(until) + 9999}..${signature}`)).toBe(401)
    expect(await status(`${name}=${until}..${'A'.repeat(43)}`)).toBe(401)
    // The deployment is the same, and the host another one.
    router.apply([route, { ...route, host: 'shop.example.com' }])
    expect(await status(entered, 'shop.example.com')).toBe(401)
    // A deployment whose id begins in the same way.
    const twin = `${DEPLOYMENT.slice(0, 8)}-0000-4000-8000-000000000000`
    router.apply([{ ...route, access: { ...route.access!, deployment_id: twin } }])
    expect(await status(entered)).toBe(401)
    router.apply([route])
    vi.useFakeTimers({ toFake: ['Date'] })
    onTestFinished(() => void vi.useRealTimers())
    // It has the clock of its start.
    await startRouter()
    const short = await enter({ session_seconds: 5 })
    expect(await status(short)).toBe(200)
    vi.setSystemTime(Date.now() + 5_000)
    expect(await status(short)).toBe(401)
    vi.useRealTimers()
    await startRouter({}, 'key of another router')
    expect(await status(entered)).toBe(401)
    // After a restart the router has its key again, and asks nobody.
    await startRouter()
    expect(await status(entered)).toBe(200)
  })
})

describe('a share link', () => {
  const link = (hash: string, expires_at: string | null = new Date(Date.now() + DAY_MS).toISOString()) => ({
    ...{ kind: 'link' as const, hash, expires_at },
  })

  test('opens every path until it is revoked, also for browsers that have used it', async () => {
    await startRouter({ bypasses: [link(sha256('of the link')), link(sha256('of another'))] })
    const exchanged = await exchange({ token: 'of the link' })
    expect(exchanged.status).toBe(204)
    const headers = { Cookie: cookieOf(exchanged) }
    expect((await send({ headers })).status).toBe(200)
    expect(headers.Cookie).not.toContain('of the link')
    router.apply([{ ...route, access: { ...route.access!, bypasses: [link(sha256('of another'))] } }])
    expect((await send({ headers })).status).toBe(401)
    expect((await exchange({ token: 'of the link' })).status).toBe(403)
  })

  test('that has ended, or is a token of a machine, opens nothing', async () => {
    const ended = link(sha256('ended'), new Date(Date.now() - 1000).toISOString())
    await startRouter({ bypasses: [ended, { kind: 'token', hash: sha256('token'), expires_at: null }] })
    for (const token of ['ended', 'token', 'unknown', '']) expect((await exchange({ token })).status).toBe(403)
    expect((await send({ headers: { 'X-Slipway-Bypass': 'ended' } })).status).toBe(401)
    expect((await send({ headers: { 'X-Slipway-Bypass': 'token' } })).status).toBe(200)
    expect((await send({ headers: { 'X-Slipway-Bypass': ['token', 'token'] } })).status).toBe(401)
    expect((await send({ headers: { X_Slipway_Bypass: 'token' } })).status).toBe(401)
  })

  test('leads to the page of the router, which no other site may show, and which reads no large body', async () => {
    const page = await send({ path: ACCESS_PATH })
    expect(page.headers['content-security-policy']).toContain("frame-ancestors 'none'")
    expect(page.headers).toMatchObject({ 'referrer-policy': 'no-referrer', 'cache-control': 'private, no-store' })
    expect((await send({ path: ACCESS_PATH, method: 'PUT' })).status).toBe(405)
    expect((await exchange({ token: 'a'.repeat(10_000) })).status).toBe(403)
    // Once everyone may see it, a link still leads there.
    router.apply([{ ...route, access: undefined } as never])
    expect((await exchange({ token: 'any' })).status).toBe(204)
    expect((await send()).status).toBe(200)
  })
})

test('open paths are open in their plain spelling alone', async () => {
  await startRouter({ open_paths: ['/hooks/stripe', '/public/*'] })
  const open = ['/hooks/stripe', '/hooks/stripe?a=/../', '/public/a', '/public/a/b.js']
  for (const path of open) expect((await send({ path, method: 'POST' })).status, path).toBe(200)
  const closed = [
    ...['/', '/hooks', '/hooks/stripe/', '/hooks/stripe/x', '/HOOKS/stripe', '/hooks/stripes', '/public', '/public/'],
    ...['/public/../admin', '/public/./a', '/public//admin', '/public/..%2fadmin', '/public/%2e%2e/admin'],
    ...['/public/a%2f..%2fadmin', '/public/a;/../admin', '/public/a\\..\\admin', '/public/.../admin', '/x/../public/a'],
  ]
  for (const path of closed) expect((await send({ path, method: 'POST' })).status, path).toBe(401)
  // Some applications read a path in a fragment.
  const before = received.length
  expect((await send({ path: '/public/a#/../../admin' })).status).toBe(400)
  expect(received).toHaveLength(before)
})

test('a request whose body never comes does not keep its connection', async () => {
  for (const path of ['/', '/robots.txt', ACCESS_PATH]) {
    const socket = connect(port, '127.0.0.1')
    socket.write(`GET ${path} HTTP/1.1\r\nHost: ${HOST}\r\nAccept: text/html\r\nContent-Length: 9\r\n\r\n`)
    socket.resume()
    await once(socket, 'end')
    socket.destroy()
  }
})

test('a stranger wakes nothing, learns no other address, and does not outwait the protection', async () => {
  await startRouter({ bypasses: [{ kind: 'token', hash: sha256('the token'), expires_at: null }] })
  const headers = { 'X-Slipway-Bypass': 'the token' }
  const asleep = { ...route, targets: [], holds: true }
  router.apply([asleep])
  expect((await send()).status).toBe(401)
  expect(woken).toEqual([])
  router.apply([{ ...route, targets: [], moved_to: 'https://newest.example.com' }])
  const [stranger, member] = [await send(), await send({ headers })]
  expect([stranger.status, member.status]).toEqual([401, 410])
  expect(JSON.stringify(stranger)).not.toContain('newest')
  const { access: _, ...open } = asleep
  router.apply([open])
  const waiting = send()
  await expect.poll(() => woken).toEqual([DEPLOYMENT])
  router.apply([route])
  expect([(await waiting).status, received]).toEqual([401, []])
})

test('a custom URL with a path has its own page, and its cookie', async () => {
  const access = route.access!
  router.apply([{ ...route, path: '/shop', access }])
  expect((await send({ path: ACCESS_PATH })).status).toBe(404)
  expect((await send({ path: `/shop${ACCESS_PATH}` })).headers['content-type']).toContain('text/html')
  expect((await send({ path: '/shop/orders' })).status).toBe(401)
})
