// Signing in at a real OpenID Connect provider on this machine, walked by HTTP.
import { generateKeyPairSync } from 'node:crypto'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createHost } from '../../src/host/host.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { bootstrap } from '../../src/people/access/bootstrap.ts'
import { AUDITOR, ORGANIZATION_ADMIN, ORGANIZATION_USER } from '../../src/people/access/built-in-roles.ts'
import { createClock } from '../../src/platform.ts'
import { completeSignIn } from '../support/headless-user.ts'
import {
  CLIENT_SECRET,
  createIdentityProvider,
  listenLocally,
  oidcSettings,
  type Person,
} from '../support/identity-provider.ts'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'

const PUBLIC_URL = 'https://slipway.example.com'
const FLOW_COOKIE = '__Host-slipway-sign-in'
const CALLBACK = `${PUBLIC_URL}/sign-in/oidc/callback`
const root = fs.mkdtempSync(join(tmpdir(), 'slipway-sign-in-'))
const closers: (() => void)[] = []
const clock = { aheadMs: 0 }
const lines: Record<string, unknown>[] = []
let databaseUrl: string
let slipway: ReturnType<typeof createHost>
let owner: string
let organization: string
let issuer: string
/** The person who signs in. */
let person: Person

const identityProvider = (origin: string) => createIdentityProvider(origin, CALLBACK, () => person)

async function listen(createHandler: Parameters<typeof listenLocally>[0]): Promise<string> {
  const { origin, close } = await listenLocally(createHandler)
  closers.push(close)
  return origin
}

const start = (settings: Record<string, string>) =>
  createHost(
    {
      DATABASE_URL: databaseUrl,
      SEALING_KEYS: `first:${Buffer.alloc(32, 7).toString('base64url')}`,
      PUBLIC_URL,
      ALLOW_LOOPBACK: 'true',
      UPLOADS_DIR: root,
      RATE_LIMIT_PER_MINUTE: '0',
      ...settings,
    },
    { clock: createClock(() => clock.aheadMs), log: line => void lines.push(line) },
  )

beforeAll(async () => {
  databaseUrl = await createMigratedDatabase()
  issuer = await listen(identityProvider)
  const first = start({})
  const input = { organization: 'Acme', emails: ['boss@example.com'], scope: 'organization' as const }
  const made = await bootstrap(first.app.database, input)
  await first.close()
  owner = made.api_key
  organization = made.organization_id
  slipway = start({
    ...oidcSettings(issuer),
    OIDC_ALLOWED_DOMAINS: `joining.example=${organization}`,
    OIDC_GROUP_ROLES: `auditors=${AUDITOR},everyone=${ORGANIZATION_USER}`,
  })
})
beforeEach(() => {
  clock.aheadMs = 0
  lines.length = 0
})
afterAll(async () => {
  for (const close of closers) close()
  await slipway?.close()
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 9 })
})

const get = (path: string, headers: Record<string, string> = {}) =>
  slipway.app.fetch(new Request(new URL(path, PUBLIC_URL), { headers }))
const cookieOf = (response: Response, name: string): string | undefined =>
  response.headers
    .getSetCookie()
    .map(cookie => new RegExp(`^${name}=([^;]+);`).exec(cookie)?.[1])
    .find(Boolean)

async function api(method: string, path: string, body?: unknown) {
  const headers = { 'X-Api-Key': owner, 'Content-Type': 'application/json' }
  const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) }
  const response = await slipway.app.fetch(new Request(PUBLIC_URL + path, init))
  const text = await response.text()
  return text ? JSON.parse(text) : undefined
}

let people = 0
const newPerson = (claims: Record<string, unknown> = {}) => {
  const sub = `person-${++people}`
  return { sub, email: `${sub}@example.com`, email_verified: true, name: `Person ${people}`, ...claims }
}
const invite = (email: unknown) => api('POST', '/orgs/current/members', { email })

async function begin() {
  const response = await get('/sign-in/oidc')
  expect(response.status).toBe(302)
  return { url: response.headers.get('Location')!, cookie: cookieOf(response, FLOW_COOKIE)! }
}
/** The address to which the provider sends the browser back. */
const visitProvider = (url: string) => completeSignIn(url, CALLBACK, person.sub)
const finish = (back: string, cookie?: string) => get(back, cookie ? { Cookie: `${FLOW_COOKIE}=${cookie}` } : {})

async function signIn(who: typeof person) {
  person = who
  const { url, cookie } = await begin()
  return finish(await visitProvider(url), cookie)
}
const readMe = async (response: Response) => {
  const token = cookieOf(response, '__Host-slipway')
  return (
    await get('/v2/me', { Cookie: `__Host-slipway=${token}`, 'Sec-Fetch-Site': 'same-origin' })
  ).json() as Promise<Record<string, Record<string, unknown>>>
}
const eventsOf = async (subject: string) => {
  const [rows] = await runAsSystem(
    slipway.app.database,
    sql`select type, data::text, request ->> 'operation' from events where subject_id = ${subject}::uuid order by seq`,
  )
  return rows as [type: string, data: string, operation: string][]
}
const expectRefusal = async (response: Response, status: number, code: string) => {
  expect(response.status).toBe(status)
  expect(response.headers.get('Content-Type')).toBe('text/html; charset=utf-8')
  expect(cookieOf(response, '__Host-slipway')).toBeUndefined()
  expect(lines.find(line => line.path === new URL(CALLBACK).pathname)).toMatchObject({ code })
  expect(lines.find(line => line.event === 'session.refused')).toMatchObject({ code, client_address: null })
}

describe('signing in at the identity provider', () => {
  it('binds the identity of an invited member, and later finds the member by the subject alone', async () => {
    const who = newPerson()
    const member = await invite(who.email)
    const opened = await signIn(who)
    expect([opened.status, opened.headers.get('Location')]).toEqual([302, `${PUBLIC_URL}/sign-in`])
    const me = await readMe(opened)
    expect(me).toMatchObject({ member: { id: member.id }, session: { method: 'oidc' } })
    const events = await eventsOf(member.id)
    expect(events.map(([type]) => type)).toEqual(['member.added', 'identity.bound'])
    expect([JSON.parse(events[1]![1]), events[1]![2]]).toEqual([{ issuer, subject: who.sub }, 'finishSignIn'])
    expect((await eventsOf(String(me.session!.id))).map(([type]) => type)).toEqual(['session.opened'])

    const again = await signIn({ ...who, email: 'renamed@example.com', email_verified: false })
    expect((await readMe(again)).member!.id).toBe(member.id)
    expect(JSON.stringify(lines)).not.toContain(CLIENT_SECRET)
  })

  it('is refused to a stranger, and lets people of an allowed domain join', async () => {
    await expectRefusal(await signIn(newPerson()), 403, 'identity_unknown')
    const joined = await readMe(await signIn(newPerson({ email: 'new@joining.example' })))
    expect(joined).toMatchObject({
      organization: { id: organization },
      member: { email: 'new@joining.example', role_id: ORGANIZATION_USER },
      workspaces: [],
    })
    await expectRefusal(await signIn(newPerson({ email: 'x@notjoining.example' })), 403, 'identity_unknown')
  })

  it('is refused if the address is not verified, which the journal of the organization shows', async () => {
    for (const email_verified of [false, undefined, 'true']) {
      const who = newPerson({ email_verified })
      const member = await invite(who.email)
      lines.length = 0
      await expectRefusal(await signIn(who), 403, 'email_unverified')
      expect((await eventsOf(member.id)).at(-1)![0]).toBe('session.refused')
    }
    lines.length = 0
    const who = newPerson({ email: 'y@joining.example', email_verified: false })
    await expectRefusal(await signIn(who), 403, 'email_unverified')
    const [type, data] = (await eventsOf(organization)).at(-1)!
    expect(type).toBe('session.refused')
    expect(JSON.parse(data)).toMatchObject({ reason: 'email_unverified', subject: who.sub, email: who.email })
  })

  it('is refused to another subject with the address of a bound member', async () => {
    const who = newPerson()
    const member = await invite(who.email)
    await signIn(who)
    lines.length = 0
    await expectRefusal(await signIn({ ...who, sub: 'somebody-else' }), 403, 'identity_unknown')
    expect((await eventsOf(member.id)).at(-1)![0]).toBe('session.refused')
  })

  it('does not depend on the journals of other organizations that have the address', async () => {
    const who = newPerson()
    const { organization_id } = await bootstrap(slipway.app.database, {
      organization: 'Full',
      emails: [who.email],
      scope: 'organization',
    })
    await runAsSystem(
      slipway.app.database,
      sql`
        update journals set today = 1000000000, day = journal_day()
        where scope_id = ${organization_id}::uuid`,
    )
    await expectRefusal(await signIn({ ...who, email_verified: false }), 403, 'email_unverified')
    lines.length = 0
    await expectRefusal(await signIn(who), 429, 'journal_full')
    const member = await invite(who.email)
    expect((await readMe(await signIn(who))).member!.id).toBe(member.id)
  })

  it('gives the role of the first matching group, but never takes the last Admin away', async () => {
    const who = newPerson()
    await invite(who.email)
    const groups = ['everyone', 'auditors', 'other']
    expect((await readMe(await signIn({ ...who, groups }))).member!.role_id).toBe(AUDITOR)
    expect((await readMe(await signIn({ ...who, groups: ['everyone'] }))).member!.role_id).toBe(ORGANIZATION_USER)
    expect((await readMe(await signIn(who))).member!.role_id).toBe(ORGANIZATION_USER)
    const boss = newPerson({ email: 'boss@example.com', groups })
    expect((await readMe(await signIn(boss))).member!.role_id).toBe(ORGANIZATION_ADMIN)
  })
})

describe('a sign-in is refused', () => {
  const invited = async () => {
    person = newPerson()
    await invite(person.email)
    return begin()
  }

  it('when its code is used twice', async () => {
    const { url, cookie } = await invited()
    const back = await visitProvider(url)
    expect((await finish(back, cookie)).status).toBe(302)
    lines.length = 0
    await expectRefusal(await finish(back, cookie), 502, 'sign_in_refused')
  })

  it('without the cookie of the browser that began it, or with that of another sign-in', async () => {
    const [own, other] = [await invited(), await begin()]
    const back = await visitProvider(own.url)
    await expectRefusal(await finish(back), 401, 'sign_in_expired')
    lines.length = 0
    await expectRefusal(await finish(back, `${own.cookie.slice(0, -2)}xx`), 401, 'sign_in_expired')
    lines.length = 0
    await expectRefusal(await finish(back, other.cookie), 502, 'sign_in_refused')
  })

  it('when the token has another nonce', async () => {
    const { url, cookie } = await invited()
    const other = new URL(url)
    other.searchParams.set('nonce', 'of-another-sign-in')
    await expectRefusal(await finish(await visitProvider(other.href), cookie), 502, 'sign_in_refused')
  })

  it('when the answer names another issuer', async () => {
    const { url, cookie } = await invited()
    const back = new URL(await visitProvider(url))
    expect(back.searchParams.get('iss')).toBe(issuer)
    back.searchParams.set('iss', 'https://evil.example.com')
    await expectRefusal(await finish(back.href, cookie), 502, 'sign_in_refused')
  })

  it('ten minutes after its start', async () => {
    const { url, cookie } = await invited()
    const back = await visitProvider(url)
    clock.aheadMs = 601_000
    await expectRefusal(await finish(back, cookie), 401, 'sign_in_expired')
  })

  it('when the person denies it', async () => {
    const { url, cookie } = await invited()
    const state = new URL(url).searchParams.get('state')
    const denied = `${CALLBACK}?error=access_denied&state=${state}&iss=${encodeURIComponent(issuer)}`
    await expectRefusal(await finish(denied, cookie), 502, 'sign_in_refused')
  })
})

describe('a provider is refused', () => {
  async function expectRefused(impostor: string, changeAnswer: (back: URL) => void = () => {}): Promise<void> {
    const own = slipway
    slipway = start(oidcSettings(impostor))
    try {
      person = newPerson()
      await invite(person.email)
      const { url, cookie } = await begin()
      const back = new URL(await visitProvider(url))
      changeAnswer(back)
      await expectRefusal(await finish(back.href, cookie), 502, 'sign_in_refused')
    } finally {
      await slipway.close()
      slipway = own
    }
  }

  it('whose tokens are signed with a foreign key', async () => {
    const impostor = await listen(origin => {
      const real = identityProvider(origin)
      return (request, response) => {
        if (request.url !== '/jwks') return real(request, response)
        // The same ids, so that only the signature can tell.
        const { n } = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey.export({ format: 'jwk' })
        fetch(new URL('/jwks', issuer)).then(async answer => {
          const { keys } = (await answer.json()) as { keys: object[] }
          response.setHeader('Content-Type', 'application/json')
          response.end(JSON.stringify({ keys: keys.map(key => ({ ...key, n })) }))
        })
      }
    })
    await expectRefused(impostor)
  })

  it('whose tokens name another issuer, also with a valid signature', async () => {
    // Only the discovery document is its own: it leads to the endpoints of the real provider.
    const impostor = await listen(at => async (request, response) => {
      const real = (await (await fetch(issuer + request.url)).json()) as object
      response.setHeader('Content-Type', 'application/json')
      const own = { issuer: at, authorization_response_iss_parameter_supported: false }
      response.end(JSON.stringify({ ...real, ...own }))
    })
    await expectRefused(impostor, back => back.searchParams.delete('iss'))
    expect(lines.find(line => line.level === 'error')?.message).toContain('"iss"')
  })
})

it('without the settings there is no such way to sign in', async () => {
  const without = start({})
  const page = await without.app.fetch(new Request(`${PUBLIC_URL}/sign-in`))
  expect(await page.text()).not.toContain('/sign-in/oidc')
  expect((await without.app.fetch(new Request(`${PUBLIC_URL}/sign-in/oidc`))).status).toBe(404)
  await without.close()
  expect(await (await get('/sign-in')).text()).toContain('href="/sign-in/oidc"')
})
