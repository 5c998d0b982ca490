// Signing in, in a real browser at a real OpenID Connect server. The app, the applications that it hosts and strangers
// have host names of their own, so that the browser decides what belongs to the same site.
import { once } from 'node:events'
import * as fs from 'node:fs'
import * as http from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { sql } from 'drizzle-orm'
import { calculatePKCECodeChallenge } from 'oauth4webapi'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createRouter, type Route } from '../../src/agent/engines/local/router.ts'
import { headerPairs } from '../../src/agent/engines/local/router-headers.ts'
import { createHost } from '../../src/host/host.ts'
import { sha256Hex } from '../../src/kernel/crypto/digest.ts'
import { publicJwks } from '../../src/kernel/crypto/signing-keys.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { bootstrap } from '../../src/people/access/bootstrap.ts'
import { VIEWER } from '../../src/people/access/built-in-roles.ts'
import { expectAccessible, serveHosts, takePicture, useBrowser, type Visitor } from '../support/browser.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import { completeSignIn } from '../support/headless-user.ts'
import { createIdentityProvider, listenLocally, oidcSettings, type Person } from '../support/identity-provider.ts'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'

const SLIPWAY = 'slipway.example.test'
/** An application that this installation hosts: on the same site. */
const SHOP = 'shop.apps.example.test'
const STRANGER = 'stranger.test'
const COOKIE = '__Host-slipway'
const root = fs.mkdtempSync(join(tmpdir(), 'slipway-sign-in-browser-'))
const lines: Record<string, unknown>[] = []
/** Requests of browsers to the app. */
const requests: { method: string; path: string; site: string | null; cookies: string }[] = []
/** The answer of the hosts of others. */
let attack: { page: string; cookies?: string[] }
const { newVisitor } = useBrowser()
const handlers: Parameters<typeof serveHosts>[0] = {}
let hosts: Awaited<ReturnType<typeof serveHosts>>
let provider: Awaited<ReturnType<typeof listenLocally>>
let databaseUrl: string
let slipway: ReturnType<typeof createHost>
let origin: string
let callback: string
let owner: string
let tenant: string
/** The person who signs in at the provider. */
let person: Person = { sub: 'ada' }

beforeAll(async () => {
  databaseUrl = await createMigratedDatabase()
  hosts = await serveHosts(handlers)
  origin = hosts.originOf(SLIPWAY)
  callback = `${origin}/sign-in/oidc/callback`
  provider = await listenLocally(at => createIdentityProvider(at, callback, () => person))
  slipway = createHost(
    {
      DATABASE_URL: databaseUrl,
      SEALING_KEYS: `first:${Buffer.alloc(32, 7).toString('base64url')}`,
      PUBLIC_URL: origin,
      APPS_DOMAIN: 'apps.example.test',
      ALLOW_LOOPBACK: 'true',
      UPLOADS_DIR: root,
      RATE_LIMIT_PER_MINUTE: '0',
      ...oidcSettings(provider.origin),
    },
    { log: line => void lines.push(line) },
  )
  handlers[SLIPWAY] = (request, env) => {
    const { pathname } = new URL(request.url)
    const site = request.headers.get('Sec-Fetch-Site')
    requests.push({ method: request.method, path: pathname, site, cookies: request.headers.get('Cookie') ?? '' })
    return slipway.app.fetch(request, env)
  }
  for (const host of [SHOP, STRANGER])
    handlers[host] = () => {
      const headers = new Headers({ 'Content-Type': 'text/html' })
      for (const cookie of attack.cookies ?? []) headers.append('Set-Cookie', cookie)
      return new Response(attack.page, { headers })
    }
  const input = { organization: 'Acme', emails: ['boss@example.com'], scope: 'organization' as const }
  const made = await bootstrap(slipway.app.database, input)
  owner = made.api_key
  tenant = made.tenant_id
})
beforeEach(() => {
  requests.length = 0
  lines.length = 0
  attack = { page: '<!doctype html><title>Shop</title><body>' }
})
afterAll(async () => {
  hosts?.close()
  provider?.close()
  await slipway?.close()
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 9 })
})

async function api(method: string, path: string, body?: unknown) {
  const headers = { 'X-Api-Key': owner, 'X-Tenant-Id': tenant, 'Content-Type': 'application/json' }
  const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) }
  const response = await slipway.app.fetch(new Request(origin + path, init))
  return { response, body: (await response.json()) as Record<string, unknown> }
}

let people = 0
/** A member and what the provider says about it. */
async function newMember(claims: Record<string, unknown> = {}) {
  const sub = `person-${++people}`
  const who: Person = { sub, email: `${sub}@example.com`, email_verified: true, ...claims }
  const { body } = await api('POST', '/orgs/current/members', { email: who.email, full_name: `Person ${people}` })
  return { who, id: body.id as string, name: body.full_name as string }
}
type Member = Awaited<ReturnType<typeof newMember>>
const newLink = async ({ id }: Member) =>
  (await api('POST', `/orgs/current/members/${id}/sign-in-links`)).body.url as string

const sessionCookie = async ({ context }: Visitor) => (await context.cookies()).find(({ name }) => name === COOKIE)
/** The request of the app's page. Null if no person is signed in. */
const readMe = (page: Page) =>
  page.evaluate<Record<string, Record<string, unknown>> | null>(
    `fetch('${origin}/v2/me').then(reply => (reply.ok ? reply.json() : null))`,
  )
const showsWays = (page: Page) => page.getByLabel('API key').waitFor()
const showsPerson = (page: Page, { name }: Member) => page.getByText(`You are signed in to Acme as ${name}.`).waitFor()

async function signInByLink(visitor: Visitor): Promise<Member> {
  const member = await newMember()
  await visitor.page.goto(await newLink(member))
  await showsPerson(visitor.page, member)
  return member
}

/** Ends where the provider sends the browser back to. */
async function visitProvider({ page, problems }: Visitor, who: Person, begin?: () => Promise<unknown>) {
  person = who
  const before = [...problems]
  await (begin?.() ?? page.goto(`${origin}/sign-in/oidc`))
  await page.locator('[name=login]').fill(who.sub)
  await page.locator('[name=password]').fill('any')
  await page.getByRole('button', { name: 'Sign-in' }).click()
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.waitForURL(`${origin}/**`)
  // Drops the problems of the provider's pages.
  problems.splice(0, problems.length, ...before)
}

/** The address to which the provider would send the browser of an attacker, who does not go there. */
async function takeCallback(who: Person): Promise<string> {
  person = who
  const begun = await slipway.app.fetch(new Request(`${origin}/sign-in/oidc`))
  return completeSignIn(begun.headers.get('Location')!, callback, who.sub)
}

const LOOKS = [
  { colorScheme: 'light', viewport: { width: 1280, height: 800 } },
  { colorScheme: 'dark', viewport: { width: 360, height: 740 } },
] as const

describe('the page', () => {
  it.each(LOOKS)('is accessible in $colorScheme, $viewport.width pixels wide', async look => {
    const { page, problems } = await newVisitor(look)
    const name = `sign-in-${look.colorScheme}-${look.viewport.width}`
    await page.goto(`${origin}/sign-in`)
    await page.getByLabel('API key').fill('slw_mistyped')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await expect.poll(() => page.getByRole('status').textContent()).toBeTruthy()
    await page.getByLabel('API key').fill(owner)
    await takePicture(page, name)
    await expectAccessible(page)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('You are signed in to Acme').waitFor()
    await takePicture(page, `${name}-signed-in`)
    await expectAccessible(page)
    expect(problems).toEqual([])
  })
})

describe('a person', () => {
  it('signs in at the identity provider, is known there by the subject alone, and signs out', async () => {
    const member = await newMember()
    const visitor = await newVisitor()
    const { page, problems } = visitor
    await page.goto(`${origin}/sign-in`)
    await visitProvider(visitor, member.who, () => page.getByRole('link').click())
    await showsPerson(page, member)
    const first = await readMe(page)
    expect(first).toMatchObject({ member: { id: member.id }, session: { method: 'oidc', is_current: true } })
    expect(await sessionCookie(visitor)).toMatchObject({
      domain: SLIPWAY,
      path: '/',
      httpOnly: true,
      secure: true,
      sameSite: 'Strict',
    })
    expect(await page.evaluate('cookieStore.getAll().then(all => [document.cookie, all.length])')).toEqual(['', 0])
    await page.getByRole('button', { name: 'Sign out' }).click()
    await showsWays(page)
    expect([await readMe(page), await sessionCookie(visitor)]).toEqual([null, undefined])
    expect(problems).toEqual([])

    const elsewhere = await newVisitor()
    await visitProvider(elsewhere, { ...member.who, email: 'renamed@example.com', email_verified: false })
    await showsPerson(elsewhere.page, member)
    const second = await readMe(elsewhere.page)
    expect(second!.member).toEqual(first!.member)
    expect(second!.session!.id).not.toBe(first!.session!.id)
  })

  it('sees why the sign-in was refused', async () => {
    const { who } = await newMember({ email_verified: false })
    const visitor = await newVisitor({ colorScheme: 'dark' })
    await visitProvider(visitor, who)
    expect(lines.at(-1)).toMatchObject({ status: 403, code: 'email_unverified' })
    await takePicture(visitor.page, 'sign-in-refused')
    await expectAccessible(visitor.page)
    await visitor.page.getByRole('link').click()
    await showsWays(visitor.page)
    expect(await readMe(visitor.page)).toBeNull()
  })

  it('signs in with a link once, also when it is pasted while the page is open', async () => {
    const visitor = await newVisitor()
    const { page, problems } = visitor
    const member = await newMember()
    const link = await newLink(member)
    await page.goto(link)
    await showsPerson(page, member)
    expect(page.url()).toBe(`${origin}/sign-in`)
    await page.getByRole('button', { name: 'Sign out' }).click()
    await showsWays(page)
    for (const again of [link, await newLink(member)]) {
      const answered = page.waitForResponse(`${origin}/sign-in/link`)
      await page.goto(again)
      expect((await answered).status()).toBe(again === link ? 401 : 201)
    }
    await showsPerson(page, member)
    expect(problems).toEqual([])
  })
})

describe('a browser that comes from another site', () => {
  it('is signed in by the requests of the page itself', async () => {
    const visitor = await newVisitor()
    const member = await signInByLink(visitor)
    requests.length = 0
    attack.page = `<a href="${origin}/sign-in">Slipway</a>`
    await visitor.page.goto(hosts.originOf(STRANGER))
    await visitor.page.getByRole('link').click()
    await showsPerson(visitor.page, member)
    const sent = requests.map(({ path, site, cookies }) => [path, site, cookies.includes(COOKIE)])
    expect(sent[0]).toEqual(['/sign-in', 'cross-site', false])
    expect(sent).toContainEqual(['/v2/me', 'same-origin', true])
  })
})

const sendForm = async (path: string, form: Record<string, string>) => {
  const response = await slipway.app.fetch(
    new Request(origin + path, { method: 'POST', body: new URLSearchParams(form) }),
  )
  return (await response.json()) as Record<string, string>
}

it('a member who first has to sign in lets a device in for one workspace, to read only', async () => {
  const { page, problems } = await newVisitor({ colorScheme: 'dark', viewport: { width: 360, height: 740 } })
  const client = { client_id: 'slipway-cli' }
  const code = await sendForm('/device/code', { ...client, device_name: 'laptop of Ada' })
  await page.goto(code.verification_uri_complete!)
  await showsWays(page)
  const { resources } = (await api('GET', '/orgs/current/members')).body as {
    resources: { id: string; email: string }[]
  }
  const admin = resources.find(({ email }) => email === 'boss@example.com')!
  const link = (await api('POST', `/orgs/current/members/${admin.id}/sign-in-links`)).body.url as string
  await page.evaluate(`location.hash = '${new URL(link).hash}'`)
  await page.getByText(code.user_code!).waitFor()
  await page.getByText('laptop of Ada').waitFor()
  await expectAccessible(page)
  await takePicture(page, 'device')
  await page.getByLabel('only read').check()
  await page.getByRole('button', { name: 'Approve' }).click()
  await expect.poll(() => page.getByRole('status').textContent()).toMatch(/Approved/)
  const grant_type = 'urn:ietf:params:oauth:grant-type:device_code'
  const { access_token } = await sendForm('/device/token', { ...client, grant_type, device_code: code.device_code! })
  const me = await slipway.app.fetch(new Request(`${origin}/v2/me`, { headers: { 'X-Api-Key': access_token! } }))
  const { api_key, permissions } = (await me.json()) as { api_key: unknown; permissions: string[] }
  expect(api_key).toMatchObject({ member: { email: admin.email } })
  expect(permissions.length).toBeGreaterThan(0)
  expect(permissions.filter(permission => !/:(read(-members)?|download)$/.test(permission))).toEqual([])
  // The first visit of /v2/me, before the sign-in.
  expect(problems.filter(problem => !problem.includes('401'))).toEqual([])
})

it('a member who first has to sign in connects a program, which gets a code at its own address', async () => {
  const { page, problems } = await newVisitor({ viewport: { width: 360, height: 740 } })
  const redirect_uri = `${hosts.originOf(STRANGER)}/callback`
  const registration = await slipway.app.fetch(
    new Request(`${origin}/oauth/register`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ client_name: 'Assistant of a stranger', redirect_uris: [redirect_uri] }),
    }),
  )
  const { client_id } = (await registration.json()) as { client_id: string }
  const code_verifier = 'v'.repeat(43)
  const query = new URLSearchParams({
    response_type: 'code',
    client_id,
    redirect_uri,
    state: 'a b&c',
    code_challenge_method: 'S256',
    prompt: 'x',
    code_challenge: await calculatePKCECodeChallenge(code_verifier),
  })
  attack.page = `<a href="${origin}/oauth/authorize?${query.toString().replaceAll('&', '&amp;')}">Connect</a>`
  await page.goto(hosts.originOf(STRANGER))
  await page.getByRole('link').click()
  await showsWays(page)
  const { resources } = (await api('GET', '/orgs/current/members')).body as {
    resources: { id: string; email: string }[]
  }
  const admin = resources.find(({ email }) => email === 'boss@example.com')!
  const link = (await api('POST', `/orgs/current/members/${admin.id}/sign-in-links`)).body.url as string
  await page.evaluate(`location.hash = '${new URL(link).hash}'`)
  await page.getByText('Assistant of a stranger').waitFor()
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    await expectAccessible(page)
    await takePicture(page, `connect-${colorScheme}`)
  }
  await page.getByLabel('only read').check()
  await page.getByRole('button', { name: 'Approve' }).click()
  await page.waitForURL(`${redirect_uri}?*`)
  const answer = new URL(page.url()).searchParams
  expect([answer.get('state'), answer.get('iss')]).toEqual(['a b&c', origin])
  const grant = { grant_type: 'authorization_code', client_id, redirect_uri, code_verifier, code: answer.get('code')! }
  const { scope } = await sendForm('/oauth/token', grant)
  expect(scope!.split(' ').filter(permission => !/:(read(-members)?|download)$/.test(permission))).toEqual([])
  expect(problems.filter(problem => !problem.includes('401'))).toEqual([])
})

it('the link of another person replaces a session only if the person agrees', async () => {
  const visitor = await newVisitor()
  const [own, other] = [await signInByLink(visitor), await newMember()]
  attack.page = `<a href="${await newLink(other)}">You have won</a>`
  await visitor.page.goto(hosts.originOf(STRANGER))
  await visitor.page.getByRole('link').click()
  await showsPerson(visitor.page, own)
  expect((await readMe(visitor.page))!.member!.id).toBe(own.id)
  await takePicture(visitor.page, 'sign-in-other-link')
  await expectAccessible(visitor.page)
  await visitor.page.getByRole('button', { name: 'Sign in with the link instead' }).click()
  await showsPerson(visitor.page, other)
})

describe('a sign-in is refused', () => {
  it('when the browser comes back with a code that it has used', async () => {
    const { who } = await newMember()
    const visitor = await newVisitor()
    let back = ''
    visitor.page.on('request', request => {
      if (request.url().startsWith(callback)) back = request.url()
    })
    await visitProvider(visitor, who)
    await visitor.page.getByRole('button', { name: 'Sign out' }).click()
    await showsWays(visitor.page)
    expect((await visitor.page.goto(back))!.status()).toBe(401)
    expect(await sessionCookie(visitor)).toBeUndefined()
  })

  it('when another browser began it, whether this one is signed in, has begun its own, or neither', async () => {
    const foreign = await takeCallback((await newMember()).who)
    attack.page = `<a href="${foreign.replaceAll('&', '&amp;')}">You have won</a>`
    const follow = async ({ page }: Visitor) => {
      await page.goto(hosts.originOf(STRANGER))
      const answered = page.waitForResponse(foreign)
      await page.getByRole('link').click()
      return (await answered).status()
    }
    const visitor = await newVisitor()
    expect([await follow(visitor), await sessionCookie(visitor)]).toEqual([401, undefined])
    await visitor.page.goto(`${origin}/sign-in/oidc`)
    expect([await follow(visitor), await sessionCookie(visitor)]).toEqual([502, undefined])
    await signInByLink(visitor)
    const own = await sessionCookie(visitor)
    expect([await follow(visitor), await sessionCookie(visitor)]).toEqual([401, own])
  })
})

/** The token of a session that an attacker has opened in the same organization. */
async function openOtherSession(): Promise<string> {
  const { response } = await api('POST', '/v2/me/sessions')
  return new RegExp(`^${COOKIE}=(\\w+);`).exec(response.headers.get('Set-Cookie')!)![1]!
}

it('a sign-in replaces the session of another person in the same browser', async () => {
  const visitor = await newVisitor()
  const value = await openOtherSession()
  await visitor.context.addCookies([{ name: COOKIE, value, url: origin, secure: true, sameSite: 'Strict' }])
  await visitor.page.goto(`${origin}/sign-in`)
  const planted = await readMe(visitor.page)
  expect(planted!.session).toMatchObject({ method: 'key' })
  const member = await newMember()
  await visitProvider(visitor, member.who)
  await showsPerson(visitor.page, member)
  expect((await sessionCookie(visitor))!.value).not.toBe(value)
  expect((await readMe(visitor.page))!.session!.id).not.toBe(planted!.session!.id)
  const asAttacker = await newVisitor()
  await asAttacker.context.addCookies([{ name: COOKIE, value, url: origin, secure: true, sameSite: 'Strict' }])
  await asAttacker.page.goto(`${origin}/sign-in`)
  expect((await readMe(asAttacker.page))!.member).toBeNull()
})

describe.each([
  ['an application on the same site', SHOP, 'same-site'],
  ['another site', STRANGER, 'cross-site'],
])('a page of %s', (_, host, site) => {
  const countEvents = async () => {
    const [[row]] = (await runAsSystem(slipway.app.database, sql`select count(*) from events`)) as [unknown[][]]
    return row![0]
  }

  it('does nothing with the session of its visitor', async () => {
    const visitor = await newVisitor()
    const { page } = visitor
    const member = await signInByLink(visitor)
    const link = await newLink(member)
    const before = await countEvents()
    requests.length = lines.length = 0
    const forms = [
      ['/v2/tag-keys', { key: 'x' }],
      ['/v2/me/sessions', {}],
      ['/sign-in/link', { token: link.split('#')[1] }],
    ] as const
    for (const [path, body] of forms) {
      // A form can send JSON as text/plain: the name and the value of its field are joined by "=".
      const [name, value] = JSON.stringify({ ...body, padding: '=' }).split('=')
      attack.page = `<form method="post" enctype="text/plain" action="${origin}${path}">
        <input name='${name}' value='${value}'><button>Play</button></form>`
      await page.goto(hosts.originOf(host))
      const answered = page.waitForResponse(origin + path)
      await page.getByRole('button').click()
      expect([401, 403], path).toContain((await answered).status())
    }
    attack.page = ''
    await page.goto(hosts.originOf(host))
    const calls = [
      { method: 'GET' },
      { method: 'POST', mode: 'no-cors', body: '{"key":"x"}' },
      { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"key":"x"}' },
      { method: 'DELETE' },
    ]
    for (const call of calls)
      for (const path of ['/v2/me', '/v2/tag-keys', '/v2/me/sessions/current'])
        expect(
          await page.evaluate(
            `fetch('${origin}${path}', ${JSON.stringify({ ...call, credentials: 'include' })})
              .then(reply => reply.type, () => 'failed')`,
          ),
        ).toBe(call.mode ? 'opaque' : 'failed')
    expect(requests.filter(request => request.site !== site)).toEqual([])
    // The browser sends a strict cookie within a site, so only the app can refuse these requests.
    expect(requests.some(({ cookies }) => cookies.includes(COOKIE))).toBe(site === 'same-site')
    const accepted = lines.filter(({ method, status }) => method !== 'OPTIONS' && Number(status) < 400)
    expect(accepted).toEqual([])
    expect(await countEvents()).toBe(before)
    await page.goto(`${origin}/sign-in`)
    await showsPerson(page, member)
  })

  it('cannot show a page of this installation in a frame', async () => {
    const { page } = await newVisitor()
    attack.page = ['/sign-in', '/docs', '/v2/me'].map(path => `<iframe src="${origin}${path}"></iframe>`).join('')
    await page.goto(hosts.originOf(host))
    const [, ...frames] = page.frames()
    expect(frames.map(frame => frame.url())).toEqual(Array(3).fill('chrome-error://chromewebdata/'))
  })
})

describe('a protected deployment', () => {
  const servers: http.Server[] = []
  const listen = async (server: http.Server) => {
    servers.push(server)
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return (server.address() as AddressInfo).port
  }
  /** The cookies that the application got. */
  let seen: string[]
  let router: ReturnType<typeof createRouter>
  let route: Route
  let shop: string
  let stranger: (typeof handlers)[string] | undefined

  beforeEach(async () => {
    seen = []
    stranger = handlers[SHOP]
    shop = hosts.originOf(SHOP)
    const body = makeImageBody({ protection: { mode: 'members' } })
    const { response, body: deployment } = await api('POST', '/v2/deployments', body)
    expect(response.status, JSON.stringify(deployment)).toBe(201)
    const deployment_id = deployment.id as string
    await runAsSystem(slipway.app.database, sql`update deployments set url = ${shop} where id = ${deployment_id}::uuid`)
    const application = http.createServer((req, res) => {
      seen.push(req.headers.cookie ?? '')
      res.setHeader('Content-Type', 'text/html').end(`<!doctype html><title>Shop</title><h1>Page ${req.url}</h1>`)
    })
    const { keys } = await publicJwks(slipway.app.config)
    const grants = { issuer: origin, url: `${origin}/sign-in/deployment`, keys: keys.map(({ kid, x }) => ({ kid, x })) }
    route = {
      ...{
        host: SHOP,
        path: '/',
        targets: [{ host: '127.0.0.1', port: await listen(application) }],
        of: deployment_id,
      },
      access: { deployment_id, workspace_id: tenant, open_paths: [], bypasses: [], grants },
    }
    router = createRouter({}, ['127.0.0.1'])
    router.apply([route])
    const port = await listen(router.server())
    // The reverse proxy of an agent, which speaks TLS.
    handlers[SHOP] = async request => {
      const { pathname, search, host } = new URL(request.url)
      const headers = { ...Object.fromEntries(request.headers), host, 'X-Forwarded-Proto': 'https' }
      const forwarded = http.request({ port, method: request.method, path: pathname + search, headers, agent: false })
      forwarded.end(Buffer.from(await request.arrayBuffer()))
      const [answer] = (await once(forwarded, 'response')) as [http.IncomingMessage]
      const received = new Headers(
        headerPairs(answer.rawHeaders).map(([name, value]) => [name, value] as [string, string]),
      )
      received.delete('Content-Length')
      const bytes = await buffer(answer)
      return new Response(bytes.length > 0 ? new Uint8Array(bytes) : null, {
        status: answer.statusCode!,
        headers: received,
      })
    }
  })
  afterEach(() => {
    handlers[SHOP] = stranger!
    for (const server of servers.splice(0)) {
      server.closeAllConnections()
      server.close()
    }
  })

  it('is seen by a member after one sign-in, and comes back to the page that was asked for', async () => {
    const member = await newMember()
    await api('POST', '/workspaces/current/members', { member_id: member.id, role_id: VIEWER })
    const { page, context, problems } = await newVisitor()
    await page.goto(`${shop}/orders?id=7`)
    // A person who is not signed in yet.
    await showsWays(page)
    expect(page.url()).not.toContain('orders')
    await page.goto(await newLink(member))
    await showsPerson(page, member)
    await page.goto(`${shop}/orders?id=7`)
    await page.getByRole('heading', { name: 'Page /orders?id=7' }).waitFor()
    expect(page.url()).toBe(`${shop}/orders?id=7`)
    const cookies = (await context.cookies(shop)).filter(({ name }) => name.includes('slipway-access'))
    expect(cookies).toMatchObject([{ domain: SHOP, path: '/', httpOnly: true, secure: true, sameSite: 'Lax' }])
    expect(await page.evaluate('document.cookie')).toBe('')
    // At once, without the control plane.
    const controlPlane = handlers[SLIPWAY]!
    delete handlers[SLIPWAY]
    await page.goto(`${shop}/again`)
    await page.getByRole('heading', { name: 'Page /again' }).waitFor()
    handlers[SLIPWAY] = controlPlane
    expect(seen.filter(cookie => cookie !== '')).toEqual([])
    expect(problems.filter(problem => !problem.includes('favicon'))).toEqual([])
  })

  it.each(LOOKS)('says who may not see it, accessible in $colorScheme', async look => {
    const visitor = await newVisitor(look)
    const member = await signInByLink(visitor)
    const { page } = visitor
    await page.goto(shop)
    await page.getByText(`You are signed in to Acme as ${member.name}, who may not see`).waitFor()
    await takePicture(page, `protected-${look.colorScheme}-${look.viewport.width}`)
    await expectAccessible(page)
    expect(seen).toEqual([])
  })

  it.each(LOOKS)('is seen by a share link until that is revoked, and says so, in $colorScheme', async look => {
    const { page } = await newVisitor(look)
    const hash = sha256Hex('of a link')
    const expires_at = new Date(Date.now() + 3_600_000).toISOString()
    router.apply([{ ...route, access: { ...route.access!, bypasses: [{ kind: 'link', hash, expires_at }] } }])
    const link = `${shop}/.well-known/slipway/access#token=of%20a%20link`
    await page.goto(link)
    await page.getByRole('heading', { name: 'Page /' }).waitFor()
    expect(page.url()).toBe(`${shop}/`)
    router.apply([route])
    await page.goto(link)
    await page.getByRole('heading', { name: 'No access' }).waitFor()
    expect(page.url()).not.toContain('token')
    await takePicture(page, `share-link-${look.colorScheme}-${look.viewport.width}`)
    await expectAccessible(page)
  })
})

it('an application on the same site cannot set a cookie that counts', async () => {
  const token = await openOtherSession()
  const wide = 'Domain=example.test; Path=/; Secure'
  const cookies = [
    `${COOKIE}=${token}; ${wide}`,
    `${COOKIE}=${token}; Domain=example.test; Path=/v2/me; Secure`,
    `${COOKIE}=${token}; Path=/; Secure`,
    `${COOKIE.toLowerCase()}=${token}; ${wide}`,
    `=${COOKIE}=${token}; ${wide}`,
    ` ${COOKIE}=${token}; ${wide}`,
    `\u00a0${COOKIE}=${token}; ${wide}`,
    `shop="; ${COOKIE}=${token}; ${wide}`,
    `shop=1,${COOKIE}=${token}; ${wide}`,
    `${COOKIE}-sign-in=${token}; ${wide}`,
  ]
  const visitor = await newVisitor()
  const { page } = visitor
  const toss = async () => {
    attack.cookies = cookies
    await page.goto(hosts.originOf(SHOP))
    for (const cookie of cookies) await page.evaluate(`document.cookie = ${JSON.stringify(cookie)}`)
  }
  await toss()
  await page.goto(`${origin}/sign-in`)
  await showsWays(page)
  expect(requests.at(-1)).toMatchObject({ path: '/v2/me', site: 'same-origin' })
  expect(requests.at(-1)!.cookies).toContain(token)
  const member = await newMember()
  await visitProvider(visitor, member.who)
  await showsPerson(page, member)
  await toss()
  await page.goto(`${origin}/sign-in`)
  await showsPerson(page, member)
})
