import type { HonoRequest } from 'hono'
import { describe, expect, it } from 'vitest'
import { readBytes } from '../../src/kernel/http/input.ts'
import { newTenant, send } from '../support/app.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import { nestBrackets } from '../support/hostile-values.ts'

type Expected = [status: number, code: string, ...faults: string[]]
const PATH = '/orgs/current/roles'
const makeRole = (permissions: string) => `{"display_name":"a","permissions":${permissions}}`
const withUnknownMember = (value: string) => `{"display_name":"a","permissions":[],"unknown":${value}}`
const toLatin1 = (text: string) => Uint8Array.from(text, unit => unit.charCodeAt(0))

async function readRefusal(init: Omit<NonNullable<Parameters<typeof send>[2]>, 'app'>, path = PATH, method = 'POST') {
  const { owner } = await newTenant()
  const headers = { 'X-Api-Key': owner.key, 'Content-Type': 'application/json', ...init.headers }
  const { status, body } = await send(method, path, { ...init, headers })
  const faults = (body.errors ?? []).map(({ type, loc }: { type: string; loc: string[] }) => `${loc.join('.')} ${type}`)
  return [status, body.code, ...faults.toSorted()]
}

const invalid = (...faults: string[]): Expected => [422, 'invalid_request', ...faults]
const missingMembers = invalid('body.display_name invalid_type', 'body.permissions invalid_type')

describe('a body', () => {
  it.each<[string, string | Uint8Array<ArrayBuffer>, Expected]>([
    ['that is empty where members are required', '', missingMembers],
    ['that is an array', '[]', invalid('body invalid_type')],
    ['that is null', 'null', invalid('body invalid_type')],
    ['that ends too early', '{"display_name":', invalid('body json_invalid')],
    ['that is not UTF-8', toLatin1('{"display_name":"\xff"}'), invalid('body utf8_invalid')],
    ['with a NUL character', withUnknownMember('["a\\u0000"]'), invalid('body.unknown.0 nul_character')],
    ['with a lone surrogate', withUnknownMember('{"a":"\\ud800"}'), invalid('body.unknown.a lone_surrogate')],
    ['with a NUL character in a name', withUnknownMember('{"a\\u0000":1}'), invalid('body.unknown name_invalid')],
    ['with an integer above 2^53', withUnknownMember('9007199254740993'), invalid('body.unknown number_too_large')],
    ['with an infinite number', withUnknownMember('-1e400'), invalid('body.unknown number_too_large')],
    ['nested too deep', withUnknownMember(nestBrackets(10_000, '[', ']')), invalid('body.unknown.0.0 too_deep')],
    ['with an unknown permission', makeRole('["a"]'), invalid('body.permissions.0 invalid_value')],
    [
      'in which every member is invalid',
      '{"display_name":"\u200b","permissions":0,"scope":1}',
      invalid('body.display_name custom', 'body.permissions invalid_type', 'body.scope invalid_value'),
    ],
  ])('%s is refused', async (_, raw, expected) => {
    expect(await readRefusal({ raw })).toEqual(expected)
  })

  it('may have a byte order mark and nesting up to the limit', async () => {
    const tenant = await newTenant()
    const headers = { 'X-Api-Key': tenant.key, 'Content-Type': 'application/json' }
    const deep = nestBrackets(60, '[', ']')
    const body = JSON.stringify(makeImageBody()).slice(0, -1)
    const raw = `\ufeff${body},"__proto__":{"name":"b"},"toString":1,"x":${deep}}`
    const { status, body: created } = await send('POST', '/v2/deployments', { raw, headers })
    expect([status, created.name]).toEqual([201, JSON.parse(`${body}}`).name])
  })

  it('with many faults and long names gets a response of at most 100 faults', async () => {
    const { owner } = await newTenant()
    const headers = { 'X-Api-Key': owner.key, 'Content-Type': 'application/json' }
    const raw = withUnknownMember(`{"${'k'.repeat(500_000)}":[${'"\\u0000",'.repeat(200)}1]}`)
    const { body, text } = await send('POST', PATH, { raw, headers })
    expect(body.errors).toHaveLength(100)
    expect(text.length).toBeLessThan(100_000)
  })

  it('whose stream breaks off is refused with 400 and not 500', async () => {
    const raw = new ReadableStream({
      pull: controller => controller.error(new Error('gone')),
    })
    expect(await readRefusal({ raw })).toEqual([400, 'body_cut'])
  })
})

describe('a time', () => {
  const readRefusalOfExpiry = (expires_at: string) =>
    readRefusal({ body: { description: 'x', permissions: ['deployments:read'], expires_at } }, '/orgs/current/api-keys')

  it.each([
    ['0000-01-01T00:00:00Z', 'custom'],
    ['1969-12-31T23:59:59Z', 'custom'],
    ['1970-01-01T00:00:00+00:01', 'custom'],
    ['9999-12-31T23:59:59-00:01', 'custom'],
    ['+275760-09-13T00:00:00Z', 'invalid_format'],
    ['2016-12-31T23:59:60Z', 'invalid_format'],
    ['2030-02-29T00:00:00Z', 'invalid_format'],
    ['2030-01-01', 'invalid_format'],
    ['infinity', 'invalid_format'],
  ])('%s is refused', async (time, type) => {
    expect(await readRefusalOfExpiry(time)).toEqual(invalid(`body.expires_at ${type}`))
  })

  it.each([
    ['9999-12-31T23:59:59.999999999Z', '9999-12-31T23:59:59.999Z'],
    ['2030-01-01T00:00:00+23:59', '2029-12-31T00:01:00.000Z'],
    [`2030-01-01T00:00:00.${'1'.repeat(400)}Z`, '2030-01-01T00:00:00.111Z'],
  ])('%s is returned as %s, when it is created and when it is listed', async (expires_at, expected) => {
    const { owner } = await newTenant()
    const path = '/orgs/current/api-keys'
    const created = await owner.post(path, { description: 'x', permissions: ['deployments:read'], expires_at })
    expect([created.status, created.body.expires_at]).toEqual([201, expected])
    expect((await owner.get(`${path}?limit=1`)).body.resources[0].expires_at).toBe(expected)
  })
})

describe('text', () => {
  it.each(['', ' ', '\u200b\u2060', '\ufeff', '\u3164', '\u00ad', '\t\u0001'])(
    '%j is refused as a name',
    async display_name => {
      const [status, code, fault] = await readRefusal({ body: { display_name } }, '/workspaces')
      expect([status, code]).toEqual([422, 'invalid_request'])
      expect(fault).toMatch(/^body\.display_name (too_small|custom)$/)
    },
  )

  it.each(['é', '名', '🙂', '👩‍👩‍👧', 'a\u200bb'])('%j is accepted as a name', async display_name => {
    const { owner } = await newTenant()
    expect((await owner.post('/workspaces', { display_name })).body.display_name).toBe(display_name)
  })

  it.each(['\u212a@example.com', 'a\u0130@example.com', 'a@b', `${'a'.repeat(250)}@example.com`])(
    '%j is refused as an e-mail address, even if its lower-case form is valid',
    async email => {
      const [status, , ...faults] = await readRefusal({ body: { email } }, '/orgs/current/members')
      expect(status).toBe(422)
      for (const fault of faults) expect(fault).toMatch(/^body\.email (invalid_format|too_big)$/)
    },
  )

  it('that repeats a permission in a list is stored once', async () => {
    const { owner } = await newTenant()
    const permissions = ['projects:read', 'deployments:read', 'projects:read']
    const { body } = await owner.post(PATH, { display_name: 'a', permissions })
    expect(body.permissions).toEqual(['projects:read', 'deployments:read'])
  })
})

describe('a query parameter that is repeated', () => {
  it.each([
    ['limit=1&limit=2', ['query.limit repeated']],
    ['limit=1&%6cimit=2&offset=-1', ['query.limit repeated', 'query.offset too_small']],
    ['limit=x&limit=1', ['query.limit invalid_type', 'query.limit repeated']],
  ])('with another value is refused, with all other faults: %s', async (query, faults) => {
    expect(await readRefusal({}, `${PATH}?${query}`, 'GET')).toEqual(invalid(...faults))
  })

  it('with the same value is accepted, and so is an unknown one on a route of the contract', async () => {
    const tenant = await newTenant()
    for (const query of ['limit=2&limit=2', 'limit=2&x=1&x=2'])
      expect((await tenant.get(`/v2/deployments?${query}`)).status).toBe(200)
  })

  it('never makes a plan a write', async () => {
    const tenant = await newTenant()
    for (const query of ['dry_run=false&dry_run=true', 'dry_run=true&dry_run=false', 'dry_run&dry_run=true']) {
      const { status, body } = await tenant.post(`/v2/deployments?${query}`, makeImageBody())
      expect([status, body.errors.map(({ type }: { type: string }) => type)]).toEqual([
        422,
        expect.arrayContaining(['repeated']),
      ])
    }
    expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
  })
})

describe('URLs and headers', () => {
  it.each<[string, Expected]>([
    ['/workspaces/current', invalid('path.workspace_id invalid_format')],
    ['/workspaces/%00', invalid('path.workspace_id nul_character')],
    ['/workspaces/%ff', invalid('path.workspace_id invalid_format')],
    ['/workspaces?limit=0&offset=-1', invalid('query.limit too_small', 'query.offset too_small')],
    ['/workspaces?limit=101&offset=1.5', invalid('query.limit too_big', 'query.offset invalid_type')],
    [`/workspaces?offset=${'9'.repeat(40)}`, invalid('query.offset invalid_type')],
    ['/workspaces?limit=%00', invalid('query.limit nul_character')],
    ['/workspaces?limit=', invalid('query.limit invalid_type')],
    ['/workspaces/', [404, 'route_not_found']],
    [`/workspaces?x=${'x'.repeat(17_000)}`, [431, 'headers_too_large']],
  ])('%s is refused', async (path, expected) => {
    expect(await readRefusal({}, path, 'GET')).toEqual(expected)
  })

  it.each<[Record<string, string>, Expected]>([
    [{ 'X-Tenant-Id': 'x' }, invalid('header.X-Tenant-Id invalid_format')],
    [{ 'X-Tenant-Id': '' }, invalid('header.X-Tenant-Id invalid_format')],
    [{ 'Idempotency-Key': 'a b' }, invalid('header.Idempotency-Key invalid_format')],
    [{ 'Idempotency-Key': 'é' }, invalid('header.Idempotency-Key invalid_format')],
    [{ 'Idempotency-Key': 'x'.repeat(256) }, invalid('header.Idempotency-Key invalid_format')],
    [{ Accept: 'x'.repeat(17_000) }, [431, 'headers_too_large']],
  ])('%j is refused', async (headers, expected) => {
    expect(await readRefusal({ headers, raw: makeRole('[]') })).toEqual(expected)
  })

  it('accept ids in upper case and the largest offset', async () => {
    const { owner, tenant_id } = await newTenant()
    expect((await owner.get(`/workspaces/${tenant_id.toUpperCase()}`)).body.id).toBe(tenant_id)
    expect((await owner.get('/workspaces', { 'X-Tenant-Id': tenant_id.toUpperCase() })).status).toBe(200)
    const { body } = await owner.get(`/workspaces?offset=${'9'.repeat(15)}&limit=100`)
    expect(body).toEqual({ resources: [], offset: 999_999_999_999_999 })
  })

  it('with an If-Match that names no version are refused with precondition_failed', async () => {
    const { owner } = await newTenant()
    for (const tag of [`"${'9'.repeat(40)}"`, 'W/"1"', '""', '"-1"', '1', '"0", '.repeat(900)]) {
      const { body } = await owner.patch('/orgs/current', { display_name: 'a' }, { 'If-Match': tag })
      expect(body.code).toBe('precondition_failed')
    }
  })
})

describe('a body in many chunks', () => {
  it('is copied, so a stream can reuse the buffer of its chunks', async () => {
    const text = 'abc'.repeat(10_000)
    const chunk = new Uint8Array(1)
    let at = 0
    const letters = new ReadableStream(
      {
        pull(controller) {
          if (at === text.length) return controller.close()
          chunk[0] = text.charCodeAt(at++)
          controller.enqueue(chunk)
        },
      },
      { highWaterMark: 0 },
    )
    const request = { header: () => undefined, raw: { body: letters } } as unknown as HonoRequest
    expect(new TextDecoder().decode(await readBytes(request))).toBe(text)
  })
})
