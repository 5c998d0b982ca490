import { describe, expect, it } from 'vitest'
import { loadOperations } from '../../src/app.ts'
import { resolveAlias } from '../../src/kernel/http/path-aliases.ts'
import { createClock } from '../../src/platform.ts'
import { getApp, logLines, newTenant, send, startApp, unusedId } from '../support/app.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'

const operations = await loadOperations()

const JSON_TYPE = { 'Content-Type': 'application/json' }
const makeRequestId = () => `test-${crypto.randomUUID()}`
const listLogLines = (id: string | null) => logLines.filter(line => line.request_id === id)
const sendPreflight = (app: ReturnType<typeof startApp>, origin: string) =>
  send('OPTIONS', '/workspaces', {
    app,
    headers: { Origin: origin, 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'x-api-key' },
  })

describe('a request id', () => {
  it('from the client is used, returned and logged', async () => {
    const id = makeRequestId()
    const { headers, body } = await send('GET', '/workspaces', { headers: { 'X-Request-Id': id } })
    expect([headers.get('X-Request-Id'), body.request_id]).toEqual([id, id])
    expect(listLogLines(id)).toHaveLength(1)
  })

  it.each(['', 'a b', 'a, b', 'x'.repeat(129), '{"a":1}', '<b>', 'é'])(
    'with the value %j is replaced',
    async sentId => {
      const { headers } = await send('GET', '/healthz', { headers: { 'X-Request-Id': sentId } })
      expect(headers.get('X-Request-Id')).toMatch(/^[0-9a-f-]{36}$/)
    },
  )
})

describe('the log', () => {
  it('has one line per request, without secrets', async () => {
    const tenant = await newTenant()
    const id = makeRequestId()
    const secret = crypto.randomUUID()
    const headers = { 'X-Request-Id': id, Authorization: `Bearer ${secret}`, Cookie: secret }
    const body = makeImageBody({ secrets: [{ name: 'TOKEN', value: secret }] })
    expect((await tenant.post(`/v2/deployments?token=${secret}`, body, headers)).status).toBe(201)
    const [line, ...otherLines] = listLogLines(id)
    expect(otherLines).toEqual([])
    expect(line).toEqual({
      level: 'info',
      request_id: id,
      method: 'POST',
      path: '/v2/deployments',
      status: 201,
      ms: expect.any(Number),
      organization_id: tenant.organization_id,
      tenant_id: tenant.tenant_id,
      actor_id: expect.any(String),
    })
    for (const word of [secret, tenant.key]) expect(JSON.stringify(logLines)).not.toContain(word)
  })

  it.each([
    ['/public/{}/run', '/public/*****/run'],
    ['/api/v1/public/{}/run', '/public/*****/run'],
    ['/api/v2/public/{}/runs/query', '/v2/public/*****/runs/query'],
    ['/feedback/tokens/{}', '/feedback/tokens/*****'],
  ])('has %s without what replaces a key', async (path, logged) => {
    const { headers } = await send('POST', path.replace('{}', unusedId()), { body: {} })
    const id = headers.get('X-Request-Id')
    expect(logLines.find(({ request_id }) => request_id === id)?.path).toBe(logged)
  })

  it('has the error code of a refused request', async () => {
    const { headers } = await send('GET', '/workspaces')
    expect(listLogLines(headers.get('X-Request-Id'))).toMatchObject([{ status: 401, code: 'key_missing' }])
  })
})

describe('a path', () => {
  it.each([
    ['/api/v1/healthz', '/healthz'],
    ['/api/v1/platform/x', '/v1/platform/x'],
    ['/api/v1/audit-logs?limit=1', '/v1/audit-logs'],
    ['/v1/orgs/current/info', '/orgs/current/info'],
    ['/api/v2/x', '/v2/x'],
    ['/api/v1/v2/deployments', '/v2/deployments'],
    ['/api/v1/api/v1/healthz', '/api/v1/healthz'],
    ['/api/v1', '/api/v1'],
    ['/api/v3/healthz', '/api/v3/healthz'],
    ['//api/v1/healthz', '//api/v1/healthz'],
  ])('%s is that of the route %s', async (sent, path) => {
    const { headers } = await send('GET', sent)
    expect(listLogLines(headers.get('X-Request-Id'))).toMatchObject([{ path }])
  })

  it('is reached with each prefix of published clients, on every route', () => {
    const missed = operations.flatMap(({ path }) => {
      const sent = path.startsWith('/v2/') ? ['/api', '/api/v1'] : ['/api/v1', '/v1']
      const rest = path.startsWith('/v1/') ? path.slice('/v1'.length) : path
      return [path, ...sent.map(prefix => prefix + rest)].filter(one => resolveAlias(one) !== path)
    })
    expect(missed).toEqual([])
  })

  it('below /v1 serves the audit log to clients that call it below /api/v1', async () => {
    const { owner } = await newTenant()
    const page = await owner.get('/api/v1/audit-logs?start_time=2026-01-01T00:00:00Z&end_time=2027-01-01T00:00:00Z')
    expect(page.status).toBe(200)
  })

  it('with a prefix of published clients reaches its route with its parameters, query and body', async () => {
    const tenant = await newTenant()
    const made = await tenant.post('/api/v2/deployments', makeImageBody())
    expect(made.status).toBe(201)
    expect((await tenant.get(`/api/v2/deployments/${made.body.id}`)).body.id).toBe(made.body.id)
    await tenant.post('/api/v1/v2/deployments', makeImageBody())
    const page = await tenant.get('/api/v1/v2/deployments?limit=1')
    expect(page.headers.get('Link')).toMatch(/^<\/api\/v1\/v2\/deployments\?limit=1&/)
  })
})

describe('headers', () => {
  it.each(['/healthz', '/openapi.json', '/workspaces', '/nowhere', `/${'x'.repeat(17_000)}`])(
    'that protect browsers are in the response of %s',
    async path => {
      const { headers } = await send('GET', path)
      expect(Object.fromEntries(headers)).toMatchObject({
        'content-security-policy': expect.stringContaining("default-src 'none'"),
        'referrer-policy': 'no-referrer',
        'strict-transport-security': expect.stringMatching(/max-age=\d{8}/),
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
      })
    },
  )

  it('allow the API pages their own script and style', async () => {
    const { headers } = await send('GET', '/docs')
    const policy = headers.get('Content-Security-Policy')
    expect(policy).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self';/)
    expect(policy).not.toContain('unsafe')
    expect((await send('GET', '/docs', { headers: { 'If-None-Match': headers.get('ETag')! } })).status).toBe(304)
  })

  it('in a response are readable from every origin by default', async () => {
    const reply = await sendPreflight(getApp(), 'https://page.example')
    expect(reply.status).toBe(204)
    expect(reply.headers.get('Access-Control-Allow-Origin')).toBe('*')
    const methods = reply.headers.get('Access-Control-Allow-Methods')!.split(', ')
    for (const { method } of operations) expect(methods).toContain(method.toUpperCase())
    expect(reply.headers.get('Access-Control-Allow-Headers')).toContain('x-api-key')
    for (const path of ['/healthz', '/workspaces']) {
      const { headers } = await send('GET', path, { headers: { Origin: 'https://page.example' } })
      expect(headers.get('Access-Control-Allow-Origin')).toBe('*')
      for (const name of ['ETag', 'Link', 'Location', 'Retry-After', 'X-Request-Id'])
        expect(headers.get('Access-Control-Expose-Headers')).toContain(name)
    }
  })

  it('are readable only from the configured origins', async () => {
    const app = startApp({ settings: { CORS_ORIGINS: 'https://one.example, https://two.example' } })
    const readAllowedOrigin = async (origin: string) =>
      (await sendPreflight(app, origin)).headers.get('Access-Control-Allow-Origin')
    expect(await readAllowedOrigin('https://two.example')).toBe('https://two.example')
    expect(await readAllowedOrigin('https://three.example')).toBe(null)
    expect((await sendPreflight(app, 'https://one.example')).headers.get('Vary')).toContain('Origin')
  })
})

describe('URLs in responses', () => {
  it('begin with PUBLIC_URL', async () => {
    const readProblemType = async (app = getApp()) => (await send('GET', '/nowhere', { app })).body.type
    const settings = { PUBLIC_URL: 'https://slipway.example.com/' }
    expect(await readProblemType(startApp({ settings }))).toMatch(/^https:\/\/slipway\.example\.com\/docs#/)
    expect(await readProblemType()).not.toContain('slipway.example.com')
  })
})

describe('paths and methods', () => {
  it('answer no failure that a cache stores: it would give the 404 of one caller to another', async () => {
    const tenant = await newTenant()
    for (const [method, path, status] of [
      ['GET', '/', 404],
      ['GET', `/v2/deployments/${unusedId()}`, 404],
      ['PUT', '/v2/deployments', 405],
      ['GET', '/v2/deployments?limit=x', 422],
    ] as const) {
      const reply = await send(method, path, { headers: { 'X-Api-Key': tenant.key } })
      expect([reply.status, reply.headers.get('Cache-Control')]).toEqual([status, 'no-store'])
    }
  })

  it('that do not exist are answered with 404', async () => {
    for (const path of ['/nowhere', '/workspaces/', '/Workspaces', '/workspaces/current/keys']) {
      expect((await send('GET', path)).body.code).toBe('route_not_found')
    }
  })

  const paths = [...new Set(operations.map(operation => operation.path))]
  it.each(paths)('like %s refuse unsupported methods with a list of the supported ones', async template => {
    const path = template.replace(/\{\w+\}/g, unusedId())
    const supported = operations
      .filter(operation => operation.path === template)
      .map(({ method }) => method.toUpperCase())
    if (supported.includes('GET')) supported.push('HEAD')
    for (const method of ['GET', 'POST', 'PATCH', 'DELETE', 'PUT', 'PROPFIND'].filter(
      one => !supported.includes(one),
    )) {
      const response = await getApp().fetch(new Request(`http://slipway.test${path}`, { method }))
      const { code } = (await response.json()) as { code: string }
      expect([response.status, code]).toEqual([405, 'method_not_allowed'])
      expect(response.headers.get('Allow')?.split(', ').sort()).toEqual(supported.sort())
    }
  })

  it('answer HEAD with the status and headers of GET, without a body', async () => {
    const tenant = await newTenant()
    const headers = { 'X-Api-Key': tenant.key }
    const [head, get] = await Promise.all([
      send('HEAD', '/orgs/current/info', { headers }),
      send('GET', '/orgs/current/info', { headers }),
    ])
    expect([head.status, head.text]).toEqual([200, ''])
    expect(head.headers.get('ETag')).toBe(get.headers.get('ETag'))
    expect((await send('HEAD', '/orgs/current/info')).status).toBe(401)
  })
})

describe('a body', () => {
  const makeTooLargeBody = () => new Uint8Array(1024 * 1024 + 1).fill(32)
  const post = async (init: object, headers: Record<string, string> = JSON_TYPE) => {
    const { owner } = await newTenant()
    const reply = await send('POST', '/workspaces', { ...init, headers: { 'X-Api-Key': owner.key, ...headers } })
    return [reply.status, reply.body.code]
  }

  it('may have up to 1 MiB, whether or not it declares its length', async () => {
    const streamTooMuch = () => {
      let remaining = 64
      return new ReadableStream({
        pull: controller => (remaining-- > 0 ? controller.enqueue(new Uint8Array(64 * 1024)) : controller.close()),
      })
    }
    expect(await post({ raw: makeTooLargeBody() })).toEqual([413, 'body_too_large'])
    expect(await post({ raw: streamTooMuch() })).toEqual([413, 'body_too_large'])
    expect(await post({ raw: '{}' }, { ...JSON_TYPE, 'Content-Length': '1048577' })).toEqual([413, 'body_too_large'])
    const largestBody = `{"display_name":"a"}${' '.repeat(1024 * 1024 - 20)}`
    expect(await post({ raw: largestBody })).toEqual([201, undefined])
    expect(await post({ raw: largestBody.slice(1) }, { ...JSON_TYPE, 'Content-Length': '5' })).toEqual([
      422,
      'invalid_request',
    ])
  })

  it.each(['text/plain', 'application/jsonx', 'application/x-www-form-urlencoded', 'json', ''])(
    'with type %j is not read as JSON',
    async type => {
      expect(await post({ raw: '{"display_name":"a"}' }, { 'Content-Type': type })).toEqual([415, 'not_json'])
    },
  )

  it.each(['application/json; charset=utf-8', 'APPLICATION/JSON', 'application/merge-patch+json'])(
    'with type %j is read as JSON',
    async type => {
      expect((await post({ raw: '{"display_name":"a"}' }, { 'Content-Type': type }))[0]).toBe(201)
    },
  )

  it('and its content type may be missing if no member is required', async () => {
    const { owner } = await newTenant()
    const headers = { 'X-Api-Key': owner.key }
    expect((await send('PATCH', '/orgs/current', { headers })).status).toBe(200)
    expect((await send('DELETE', `/workspaces/${unusedId()}`, { headers })).status).toBe(404)
  })

  it.each([
    ['no key', {}, 'key_missing'],
    ['a malformed key', { 'X-Api-Key': `slw_${'0'.repeat(42)}` }, 'key_malformed'],
  ])('after a request head with %s is not read', async (_, headers, code) => {
    let isRead = false
    const raw = new ReadableStream(
      {
        pull() {
          isRead = true
          throw new Error('was read')
        },
      },
      { highWaterMark: 0 },
    )
    const reply = await send('POST', '/workspaces', { raw, headers: { ...JSON_TYPE, ...headers } })
    expect([reply.status, reply.body.code]).toEqual([401, code])
    expect(reply.headers.get('WWW-Authenticate')).toContain('Bearer')
    expect(isRead).toBe(false)
  })
})

describe('the validation of a request', () => {
  it('reports all faults in one response', async () => {
    const { owner } = await newTenant()
    const { body } = await owner.patch('/workspaces/x', { display_name: 1, require_if_match: 'yes' })
    expect(body.errors.map(({ loc }: { loc: string[] }) => loc.join('.')).sort()).toEqual([
      'body.display_name',
      'body.require_if_match',
      'path.workspace_id',
    ])
  })
})

describe('an internal error', () => {
  it.each<[string, () => number]>([
    [
      'thrown by the code',
      () => {
        throw new Error('an internal message')
      },
    ],
    ['raised by the database', () => Number.NaN],
  ])('%s is logged with message and stack, and the response has only the request id', async (_, ahead) => {
    const { key } = await newTenant()
    const app = startApp({ overrides: { clock: createClock(ahead) } })
    const { status, body, text, headers } = await send('GET', '/workspaces', { app, headers: { 'X-Api-Key': key } })
    expect([status, body.code, body.request_id]).toEqual([500, 'internal', headers.get('X-Request-Id')])
    expect(text).not.toMatch(/internal message|interval|syntax|NaN/)
    const logged = listLogLines(body.request_id)
    expect(logged).toHaveLength(2)
    expect(logged[0]).toMatchObject({
      level: 'error',
      error: expect.any(String),
      stack: expect.stringContaining(' at '),
    })
    expect(logged[0]!.message).toMatch(/internal message|interval/)
    expect(logged[1]).toMatchObject({ level: 'error', status: 500, code: 'internal' })
  })

  it('is not the answer if the database cannot be reached, but 503 with Retry-After', async () => {
    const { key } = await newTenant()
    const closedPort = 'postgres://dbuser@127.0.0.1:1/none'
    const settings = {
      DATABASE_URL: closedPort,
      DATABASE_SYSTEM_URL: closedPort,
      DATABASE_GATEWAY_URL: 'http://127.0.0.1:1',
    }
    const app = startApp({ settings })
    for (const [method, path] of [
      ['GET', '/workspaces'],
      ['POST', '/workspaces'],
      ['GET', '/readyz'],
    ] as const) {
      const body = method === 'POST' ? { display_name: 'a' } : undefined
      const reply = await send(method, path, { app, body, headers: { 'X-Api-Key': key } })
      expect([reply.status, reply.body.code]).toEqual([503, 'database_unavailable'])
      expect(Number(reply.headers.get('Retry-After'))).toBeGreaterThan(0)
      expect(reply.text).not.toMatch(/127\.0\.0\.1|ECONN|dbuser/)
    }
    expect((await send('GET', '/healthz', { app })).status).toBe(200)
  })
})
