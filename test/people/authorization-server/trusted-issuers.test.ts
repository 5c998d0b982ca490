// Trusted issuers: who may grant what, how long a grant lasts, and which subjects would accept strangers.
import { beforeAll, describe, expect, it } from 'vitest'
import { ADMIN, EDITOR, VIEWER } from '../../../src/people/access/built-in-roles.ts'
import { findSubjectFault } from '../../../src/people/authorization-server/trusted-issuers.schema.ts'
import { matchesPattern } from '../../../src/people/authorization-server/trusted-subjects.ts'
import { newTenant, type Reply, type Tenant, unusedId, withClockAhead } from '../../support/app.ts'

const GITHUB = 'https://token.actions.githubusercontent.com'
const HOUR_MS = 3_600_000
let tenant: Tenant
beforeAll(async () => {
  tenant = await newTenant()
})

type Caller = Pick<Tenant, 'post'>
const create = (members: Record<string, unknown> = {}, by: Caller = tenant) =>
  by.post('/v2/trusted-issuers', {
    name: unusedId(),
    issuer: GITHUB,
    subject: 'repo:acme/shop:*',
    role_id: EDITOR,
    ...members,
  })
const pathOf = ({ body }: Reply) => `/v2/trusted-issuers/${body.id}`
const codeOf = ({ status, body }: Reply) => [status, body?.code]
const newKey = async (members: Record<string, unknown> = {}) => {
  const { body } = await tenant.post('/workspaces/current/api-keys', { description: 'CI', ...members })
  return { ...tenant.as(body.key), id: body.id as string }
}

describe('a trusted issuer', () => {
  it('is created, read, listed by its name, changed with its version, and deleted', async () => {
    const created = await create({ name: 'shop', claims: { environment: 'prod*' } })
    expect(created).toMatchObject({
      status: 201,
      body: {
        name: 'shop',
        issuer: GITHUB,
        audience: 'http://slipway.test',
        subject: 'repo:acme/shop:*',
        claims: { environment: 'prod*' },
        key_minutes: 15,
        expires_at: null,
        state: 'active',
      },
    })
    expect(created.headers.get('Location')).toContain(pathOf(created))
    const read = await tenant.get(pathOf(created))
    expect(read.body).toEqual(created.body)
    const { body: list } = await tenant.get('/v2/trusted-issuers?name=shop')
    expect(list.resources).toEqual([created.body])
    const etag = read.headers.get('ETag')!
    const changed = await tenant.patch(pathOf(created), { name: 'store', key_minutes: 5 }, { 'If-Match': etag })
    expect(changed.body).toMatchObject({ name: 'store', key_minutes: 5, subject: 'repo:acme/shop:*' })
    expect(codeOf(await tenant.patch(pathOf(created), { name: 'x' }, { 'If-Match': etag }))[0]).toBe(412)
    expect(codeOf(await create({ name: 'store' }))).toEqual([409, 'trusted_issuer_exists'])
    expect((await tenant.delete(pathOf(created))).status).toBe(204)
    expect(codeOf(await tenant.get(pathOf(created)))).toEqual([404, 'trusted_issuer_not_found'])
  })

  it('grants no permission that the caller does not have, also when it is changed', async () => {
    const weak = await newKey({ role_id: ADMIN, permissions: ['workspaces:manage-keys', 'deployments:read'] })
    expect(codeOf(await create({}, weak))).toEqual([403, 'role_exceeds_actor'])
    const strong = await create()
    const other = { issuer: GITHUB, subject: 'repo:evil/shop:*', claims: {} }
    expect(codeOf(await weak.patch(pathOf(strong), other))).toEqual([403, 'role_exceeds_actor'])
    expect((await weak.patch(pathOf(strong), { name: unusedId() })).status).toBe(200)
    expect(codeOf(await create({ role_id: unusedId() }))).toEqual([404, 'role_not_found'])
  })

  it('ends with the key that granted it last', async () => {
    const key = await newKey()
    const granted = await create({}, key)
    expect(granted.body.granted_by).toBe(key.id)
    const taken = await create()
    const again = await key.patch(pathOf(taken), { key_minutes: 10 })
    expect(again.body.granted_by).toBe(key.id)
    const renamed = await create()
    await key.patch(pathOf(renamed), { name: unusedId() })

    await tenant.delete(`/workspaces/current/api-keys/${key.id}`)
    const stateOf = async (reply: Reply) => (await tenant.get(pathOf(reply))).body.state
    expect([await stateOf(granted), await stateOf(taken), await stateOf(renamed)]).toEqual(['ended', 'ended', 'active'])
  })

  it('ends no later than that key, and not later than its own end', async () => {
    const soon = new Date(Date.now() + HOUR_MS).toISOString()
    const later = new Date(Date.now() + 2 * HOUR_MS).toISOString()
    const key = await newKey({ expires_at: soon })
    const granted = await create({}, key)
    expect(granted.body.expires_at).toBe(soon)
    expect(codeOf(await create({ expires_at: later }, key))).toEqual([403, 'key_outlives_creator'])
    const own = await create({ expires_at: later })
    expect((await key.patch(pathOf(own), { role_id: VIEWER })).body.expires_at).toBe(soon)
    await withClockAhead(1.1 * HOUR_MS, async () =>
      expect((await tenant.get(pathOf(granted))).body.state).toBe('ended'),
    )
  })

  it('is refused with all faults at once', async () => {
    const wrong = { name: '', issuer: 'http//x', audience: 'two words', subject: '', claims: { sub: 'x' } }
    const { status, body } = await create({ ...wrong, role_id: 'editor', key_minutes: 16, expires_at: 'soon' })
    expect(status).toBe(422)
    const places = new Set(body.errors.map(({ loc }: { loc: string[] }) => loc[1]))
    expect([...places].sort()).toEqual([
      'audience',
      'claims',
      'expires_at',
      'issuer',
      'key_minutes',
      'name',
      'role_id',
      'subject',
    ])
    for (const issuer of ['https://localhost', 'https://10.0.0.7', 'https://slipway.test', 'http://ci.example.com'])
      expect(codeOf(await create({ issuer, subject: 'a' })), issuer).toEqual([422, 'blocked_url'])
    // A claim that is dropped would let more tokens in than were asked for.
    expect((await create({ claims: JSON.parse('{"__proto__": "prod"}') })).status).toBe(422)
    const alone = await tenant.patch(pathOf(await create()), { subject: 'repo:acme/*' })
    expect(alone.body.errors.map(({ loc }: { loc: string[] }) => loc[1])).toEqual(['issuer', 'claims'])
  })
})

describe('a subject', () => {
  const cases: [issuer: string, subject: string, claims: Record<string, string>, isRefused: boolean][] = [
    [GITHUB, '*', {}, true],
    [GITHUB, 'repo:*', {}, true],
    [GITHUB, 'repo:acme*', {}, true],
    [GITHUB, 'repo:acme', {}, true],
    [GITHUB, 'repo:*/shop:ref:refs/heads/main', {}, true],
    [`${GITHUB}/`, 'repo:*', {}, true],
    [GITHUB, 'repo:*', { environment: 'production' }, true],
    [GITHUB, '*', { repository_owner: 'acme*' }, true],
    [GITHUB, '*', { repository_owner: 'acme' }, false],
    [GITHUB, 'repo:*', { repository: 'acme/*' }, false],
    [GITHUB, 'repo:acme/*', {}, false],
    [GITHUB, 'repo:acme/shop:ref:refs/heads/main', {}, false],
    ['https://gitlab.com', 'project_path:*', {}, true],
    ['https://gitlab.com', 'project_path:acme/*', {}, false],
    ['https://accounts.google.com', '1122*', {}, true],
    ['https://accounts.google.com', '1122', {}, false],
    ['https://oidc.vercel.com', 'owner:*', {}, true],
    ['https://oidc.vercel.com', 'owner:acme:*', {}, false],
    ['https://oidc.codefresh.io', 'account:*', {}, true],
    ['https://oidc.codefresh.io', 'account:64f0:*', {}, false],
    ['https://api.pulumi.com/oidc', 'pulumi:deploy:*', {}, true],
    ['https://api.pulumi.com/oidc', 'pulumi:deploy:org:acme:*', {}, false],
    ['https://oidc.modal.com', 'modal:workspace_id:*', {}, true],
    ['https://oidc.modal.com', 'modal:workspace_id:ac-1:*', {}, false],
    // Other ways to write the host of an issuer.
    ['HTTPS://GitLab.com', 'project_path:*', {}, true],
    ['https://gitlab.com:443', 'project_path:*', {}, true],
    ['https://gitlab.com./', 'project_path:*', {}, true],
    ['https://a@gitlab.com/x', 'project_path:*', {}, true],
    ['https://gitla%62.com', 'project_path:*', {}, true],
    ['https://oidc.example.com', 'p*', {}, true],
    ['https://oidc.example.com', 'deployer', {}, false],
    ['https://oidc.example.com', 'auth0|*', {}, false],
    ['https://oidc.example.com', ':*', {}, true],
    ['https://oidc.example.com', '*', {}, true],
    ['https://oidc.example.com', '*:deployer', { namespace: 'ci' }, true],
    ['https://oidc.example.com', 'system:serviceaccount:ci:*', {}, false],
  ]
  it.each(cases)('at %s: %s with %j is refused: %j', (issuer, subject, claims, isRefused) => {
    expect(findSubjectFault({ issuer, subject, claims }) !== null).toBe(isRefused)
  })

  it.each([
    ['repo:a/b:*', 'repo:a/b:ref:refs/heads/x', true],
    ['repo:a/b:*', 'repo:a/b:', true],
    ['repo:a/b:*', 'repo:a/bc:x', false],
    ['*', '', true],
    ['a.c', 'abc', false],
    ['a*c', 'a\nc', true],
    ['a?c', 'abc', false],
    ['😀*', '😀x', true],
    ['Main', 'main', false],
  ])('%j matches %j: %j', (pattern, text, matches) => {
    expect(matchesPattern(pattern, text)).toBe(matches)
  })

  it('are matched as a regular expression would, in a time that hostile patterns cannot raise', () => {
    const textsOf = (letters: string, length: number): string[] =>
      length === 0 ? [''] : ['', ...textsOf(letters, length - 1).flatMap(text => [...letters].map(one => text + one))]
    const texts = textsOf('ab', 5)
    for (const pattern of textsOf('ab*', 5)) {
      const regex = new RegExp(`^${pattern.replaceAll('*', '[^]*')}$`)
      expect([pattern, texts.filter(text => matchesPattern(pattern, text))]).toEqual([
        pattern,
        texts.filter(text => regex.test(text)),
      ])
    }
    // The longest pattern that a workspace may store, for the longest text that an issuer may send. Trying every
    // position takes half a second each.
    const text = 'a'.repeat(12_000)
    for (let i = 0; i < 2000; i++) expect(matchesPattern(`${'*a'.repeat(250)}*b*`, text)).toBe(false)
  })
})
