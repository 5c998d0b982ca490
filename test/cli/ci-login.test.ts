// `slipway login --oidc`: a key for the token of a CI job, in place of a stored one.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { EDITOR } from '../../src/people/access/built-in-roles.ts'
import { foreignServers, newTenant, type Tenant } from '../support/app.ts'
import { makeFolder, serveApp } from '../support/cli.ts'
import { startHere } from '../support/cli-here.ts'
import { sendJson, startTokenIssuer, type TokenIssuer } from '../support/token-issuer.ts'

/** The name under which the installation reaches the issuer on this machine. */
const ISSUER = 'https://ci.example.com'
const SUBJECT = 'repo:acme/shop:ref:refs/heads/main'
let url: string
let tenant: Tenant
let issuer: TokenIssuer
let config: string
beforeAll(async () => {
  url = (await serveApp()).url
  issuer = await startTokenIssuer()
  issuer.instead[issuer.discovery] = (_, response) => sendJson(response, { issuer: ISSUER, jwks_uri: `${ISSUER}/keys` })
  issuer.instead['/token'] = async ({ url: asked, headers }, response) => {
    if (headers.authorization !== 'Bearer hush-request') return response.writeHead(401).end()
    const aud = new URL(asked!, issuer.origin).searchParams.get('audience')
    sendJson(response, { value: await newToken({ aud }) })
  }
  tenant = await newTenant()
})
afterAll(() => issuer.close())
beforeEach(async () => {
  foreignServers.fetch = (input, init) => fetch(String(input).replace(ISSUER, issuer.origin), init)
  config = makeFolder()
})

const newToken = (claims: object = {}) => issuer.sign({ iss: ISSUER, sub: SUBJECT, aud: url, ...claims })
const trust = async () =>
  (
    await tenant.post('/v2/trusted-issuers', {
      name: crypto.randomUUID(),
      issuer: ISSUER,
      audience: url,
      subject: SUBJECT,
      role_id: EDITOR,
    })
  ).body

const GITHUB = {
  ACTIONS_ID_TOKEN_REQUEST_URL: () => `${issuer.origin}/token?api-version=2.0`,
  ACTIONS_ID_TOKEN_REQUEST_TOKEN: () => 'hush-request',
}
const inJob = (env: Record<string, () => string>, ...args: string[]) => {
  vi.stubEnv('SLIPWAY_CONFIG_HOME', config)
  for (const name of ['ACTIONS_ID_TOKEN_REQUEST_URL', 'SLIPWAY_OIDC_TOKEN', 'SLIPWAY_OIDC_TOKEN_FILE'])
    vi.stubEnv(name, undefined)
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value())
  return startHere({ url, key: undefined as never }, args).ended
}
const logIn = (env: Record<string, () => string>, ...more: string[]) =>
  inJob(env, 'login', '--oidc', '--url', url, '--workspace', tenant.tenant_id, ...more)
const file = () => join(config, 'login.json')
const stored = () => JSON.parse(readFileSync(file(), 'utf8'))
const letKeyEndSoon = () => {
  const login = stored()
  login.ci.ends_at = new Date(Date.now() + 60_000).toISOString()
  writeFileSync(file(), JSON.stringify(login))
}

it('gets a key in GitHub Actions, and another one when it ends soon, and revokes it at the end', async () => {
  await trust()
  const { code, objects } = await logIn(GITHUB)
  expect([code, objects.at(-1)?.outcome]).toEqual([0, 'signed_in'])
  expect(issuer.requests.filter(path => path.startsWith('/token'))).toEqual([
    `/token?api-version=2.0&audience=${encodeURIComponent(url)}`,
  ])
  const first = stored()
  expect(first).toMatchObject({ url, workspace: tenant.tenant_id, is_own: true })
  expect((await inJob(GITHUB, 'whoami')).objects[0]).toMatchObject({ workspace: { id: tenant.tenant_id } })
  expect(stored().key).toBe(first.key)

  letKeyEndSoon()
  expect((await inJob(GITHUB, 'list')).code).toBe(0)
  const second = stored()
  expect(second.key).not.toBe(first.key)
  expect((await inJob(GITHUB, 'logout')).objects[0]).toMatchObject({ outcome: 'signed_out', revoked: true })
  expect((await tenant.as(second.key).get('/v2/me')).body.code).toBe('key_revoked')
})

it('gets a key for a token in a variable or a file, which works once', async () => {
  const trusted = await trust()
  const token = await newToken()
  expect((await logIn({ SLIPWAY_OIDC_TOKEN: () => token })).code).toBe(0)
  const { key } = stored()
  // There is no other token, so the key stays, and works as long as it lasts.
  letKeyEndSoon()
  expect((await inJob({ SLIPWAY_OIDC_TOKEN: () => token }, 'whoami')).code).toBe(0)
  expect(stored().key).toBe(key)

  const again = await logIn({ SLIPWAY_OIDC_TOKEN: () => token })
  expect([again.code, again.error?.code]).toEqual([4, 'token_refused'])
  for (const part of [ISSUER, url, SUBJECT]) expect(again.error?.message).toContain(part)

  const path = join(makeFolder({ token: `${await newToken()}\n` }), 'token')
  expect((await logIn({ SLIPWAY_OIDC_TOKEN_FILE: () => path })).code).toBe(0)
  await tenant.delete(`/v2/trusted-issuers/${trusted.id}`)
  expect((await tenant.as(key).get('/v2/me')).body.code).toBe('key_revoked')
})

it('names the missing setting', async () => {
  const failed = async (...args: Parameters<typeof inJob>) => {
    const { code, error } = await inJob(...args)
    return [code, error?.code]
  }
  const own = ['login', '--oidc', '--url', url]
  expect(await failed(GITHUB, ...own)).toEqual([2, 'usage'])
  expect(await failed(GITHUB, ...own, '--workspace', 'production')).toEqual([2, 'usage'])
  expect(await failed(GITHUB, ...own, '--workspace', tenant.tenant_id, '--key-stdin')).toEqual([2, 'usage'])
  expect(await failed({}, ...own, '--workspace', tenant.tenant_id)).toEqual([2, 'usage'])
  const wrongAudience = await logIn(GITHUB, '--audience', 'https://other.example.com')
  expect([wrongAudience.code, wrongAudience.error?.code]).toEqual([4, 'token_refused'])
})
