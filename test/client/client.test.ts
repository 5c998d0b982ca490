// The typed client against the real app: types, errors, pages, uploads, and what it repeats after a failure.
import { expect, it } from 'vitest'
import { type Client, type ClientOptions, createClient } from '../../src/client/client.ts'
import { ApiError, ConnectionError } from '../../src/client/errors.ts'
import { fail, problemResponse } from '../../src/kernel/http/errors.ts'
import { getApp, newTenant } from '../support/app.ts'
import { makeArchive } from '../support/archives.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import { makeSourceBody } from '../support/uploads-suite.ts'

const url = 'http://slipway.test'
const DEPLOYMENT = 'PATCH /v2/deployments/{deployment_id}'
const UNKNOWN = '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11'
const newBody = () => makeImageBody() as ReturnType<typeof makeImageBody> & { source: 'internal_container' }
const requestApp: typeof fetch = async (input, init) => getApp().fetch(new Request(input, init))

const clientOf = ({ key }: { key: string }, options: Partial<ClientOptions> = {}) =>
  createClient({ url, key, fetch: requestApp, retry: { firstDelayMs: 1 }, ...options })

/** Runs the requests of a client through `intercept`, and keeps them. */
async function intercepted(intercept: (pass: () => Promise<Response>, attempt: number) => Promise<Response>) {
  const tenant = await newTenant()
  const sent: Request[] = []
  const delays: number[] = []
  const client = clientOf(tenant, {
    fetch: (input, init) => {
      const request = new Request(input, init)
      sent.push(request.clone())
      return intercept(async () => getApp().fetch(request), sent.length)
    },
    onRetry: ({ delayMs }) => delays.push(delayMs),
  })
  return { tenant, client, sent, delays }
}
const cut = () => Promise.reject(new TypeError('fetch failed'))
const refuse = (code: Parameters<typeof fail>[0], headers: Record<string, string> = {}) =>
  problemResponse(fail(code, { headers }), 'request-1')

it('types routes, members, values and replies by the declarations of the app', () => {
  const compileOnly = async (client: Client) => {
    const { id, status } = await client.call('POST /v2/deployments', { body: newBody() })
    status satisfies 'AWAITING_DATABASE' | 'AWAITING_DELETE' | 'READY' | 'UNKNOWN' | 'UNUSED'
    await client.call('GET /v2/deployments')
    await client.call('GET /v2/deployments', { query: { limit: 5, status: ['READY'], remote_reconciled: true } })
    const plan = await client.plan(DEPLOYMENT, { params: { deployment_id: id }, body: {} })
    plan.changes[0]?.effect satisfies 'immutable' | 'in_place' | 'revision' | undefined
    for await (const { event, data } of client.stream('GET /v2/events/stream', { query: { after: 1 } }))
      if (event === 'message') data.actor.kind satisfies string
    for await (const { name } of client.list('GET /v2/deployments')) name satisfies string
    // @ts-expect-error: no such route
    await client.call('GET /v2/deployment')
    // @ts-expect-error: another method
    await client.call('PUT /v2/deployments/{deployment_id}', { params: { deployment_id: id } })
    // @ts-expect-error: a path parameter is missing
    await client.call(DEPLOYMENT, { body: {} })
    // @ts-expect-error: no such path parameter
    await client.call(DEPLOYMENT, { params: { deployment_id: id, revision_id: id }, body: {} })
    // @ts-expect-error: no such query parameter
    await client.call('GET /v2/deployments', { query: { page: 2 } })
    // @ts-expect-error: no such value of an enum
    await client.call('GET /v2/deployments', { query: { deployment_type: 'huge' } })
    // @ts-expect-error: no such member of the body
    await client.call(DEPLOYMENT, { params: { deployment_id: id }, body: { nmae: 'shop' } })
    // @ts-expect-error: a member deep in the body has another type
    await client.call(DEPLOYMENT, { params: { deployment_id: id }, body: { secrets: [{ name: 'A', value: 1 }] } })
    // @ts-expect-error: the route has no body
    await client.call('GET /v2/deployments', { body: {} })
    // @ts-expect-error: the reply has no such member
    void (await client.call('GET /v2/deployments/{deployment_id}', { params: { deployment_id: id } })).title
    // @ts-expect-error: the route has no plan
    await client.plan('POST /workspaces', { body: { display_name: 'Shop' } })
    // @ts-expect-error: the route has no pages
    client.pages('GET /v2/deployments/{deployment_id}', { params: { deployment_id: id } })
    // @ts-expect-error: a route without a key, such as a page for browsers
    await client.call('GET /healthz')
  }
  expect(compileOnly).toBeTypeOf('function')
})

it('plans a change, applies that plan and no other, and compares versions', async () => {
  const client = clientOf(await newTenant())
  const { reply, etag } = await client.answer('POST /v2/deployments', { body: newBody() })
  const params = { deployment_id: reply.id }
  const read = await client.answer('GET /v2/deployments/{deployment_id}', { params })
  expect([etag, read.etag]).toEqual([undefined, expect.stringMatching(/^"1\./)])
  const body = { source_config: { resource_spec: { min_scale: 2 } } }
  const plan = await client.plan(DEPLOYMENT, { params, body })
  expect(plan.changes.map(({ path }) => path)).toEqual(['source_config.resource_spec.min_scale'])
  const applied = await client.call(DEPLOYMENT, { params, body, headers: { 'Plan-Digest': plan.plan_digest } })
  expect(applied.source_config.resource_spec).toMatchObject({ min_scale: 2 })
  const again = client.call(DEPLOYMENT, { params, body, headers: { 'Plan-Digest': plan.plan_digest } })
  await expect(again).rejects.toMatchObject({ code: 'plan_stale', status: 409 })
  const old = client.call(DEPLOYMENT, { params, body: {}, headers: { 'If-Match': read.etag } })
  await expect(old).rejects.toMatchObject({ code: 'precondition_failed', status: 412 })
})

it('throws a problem as an error with its code, status, request id and all faults', async () => {
  const client = clientOf(await newTenant())
  const error = await client
    .call('POST /v2/deployments', { body: { ...newBody(), name: 'No!', secrets: [{ name: '1', value: '' }] } })
    .catch(error => error)
  expect(error).toBeInstanceOf(ApiError)
  expect(error).toMatchObject({ code: 'invalid_request', status: 422, name: 'ApiError' })
  expect(error.requestId).toMatch(/^\S{8,}$/)
  expect(error.errors.map(({ loc }: { loc: string[] }) => loc.join('.'))).toEqual(
    expect.arrayContaining(['body.name', 'body.secrets.0.name']),
  )
  await expect(createClient({ url, fetch: requestApp }).call('GET /v2/deployments')).rejects.toMatchObject({
    code: 'key_missing',
  })
})

it('walks the pages of a list by cursor, each item once', async () => {
  const client = clientOf(await newTenant())
  const keys = ['a', 'b', 'c', 'd', 'e']
  for (const key of keys) await client.call('POST /v2/tag-keys', { body: { key } })
  const listed: string[] = []
  for await (const { key } of client.list('GET /v2/tag-keys', { query: { limit: 2 } })) listed.push(key)
  expect(listed).toEqual(keys.toReversed())
  const lengths: number[] = []
  for await (const { resources } of client.pages('GET /v2/tag-keys', { query: { limit: 2 } }))
    lengths.push(resources.length)
  expect(lengths).toEqual([2, 2, 1])
})

it('repeats a write whose reply was cut, with the same Idempotency-Key, and it has one effect', async () => {
  const { client, sent, delays } = await intercepted(async (pass, attempt) => {
    const response = await pass()
    return attempt <= 2 ? cut() : response
  })
  const { id } = await client.call('POST /v2/deployments', { body: newBody() })
  const keys = new Set(sent.map(({ headers }) => headers.get('Idempotency-Key')))
  expect([sent.length, delays.length, keys.size]).toEqual([3, 2, 1])
  expect(keys.has(null)).toBe(false)
  expect((await client.call('GET /v2/deployments')).resources.map(deployment => deployment.id)).toEqual([id])
  await client.call('POST /v2/tag-keys', { body: { key: 'team' } })
  expect(keys.has(sent.at(-1)!.headers.get('Idempotency-Key')), 'each call has its own key').toBe(false)
})

it('repeats a read whose body was cut in the middle', async () => {
  const { client, sent } = await intercepted(async (pass, attempt) => {
    if (attempt > 1) return pass()
    const half = new ReadableStream({
      start: controller => controller.enqueue(new TextEncoder().encode('{"resources":')),
      pull: controller => controller.error(new TypeError('terminated')),
    })
    return new Response(half, { headers: { 'Content-Type': 'application/json' } })
  })
  expect(await client.call('GET /v2/deployments')).toEqual({ resources: [], offset: 0 })
  expect(sent.length).toBe(2)
})

it.each([
  'database_unavailable',
  'upstream_timeout',
  'upstream_error',
  'rate_limited',
  'idempotency_in_flight',
] as const)('after %s it waits as long as the server asks, then repeats', async code => {
  const aborter = new AbortController()
  const tenant = await newTenant()
  const client = clientOf(tenant, {
    fetch: () => refuse(code, { 'Retry-After': '7' }),
    onRetry: ({ delayMs }) => aborter.abort(delayMs),
  })
  const read = client.call('GET /v2/deployments', { signal: aborter.signal })
  await expect(read).rejects.toBe(7000)
})

it.each([
  ['a problem that a repeat does not solve', () => refuse('plan_stale'), 'POST', ApiError],
  [
    'a wait that is longer than the client waits',
    () => refuse('journal_full', { 'Retry-After': '3600' }),
    'POST',
    ApiError,
  ],
  ['a cut DELETE, which takes no Idempotency-Key', cut, 'DELETE', ConnectionError],
] as const)('gives up at once on %s', async (_, failure, method, kind) => {
  const { client, sent } = await intercepted(failure)
  const call =
    method === 'POST'
      ? client.call('POST /v2/tag-keys', { body: { key: 'team' } })
      : client.call('DELETE /v2/tag-keys/{tag_key_id}', { params: { tag_key_id: UNKNOWN } })
  await expect(call).rejects.toBeInstanceOf(kind)
  expect(sent.length).toBe(1)
})

it('downloads bytes as they arrive, repeats only the opening, and throws when it is cut', async () => {
  let cutAfter = Number.POSITIVE_INFINITY
  const { tenant, client, sent } = await intercepted(async (pass, attempt) => {
    if (attempt === 1) return cut()
    const bytes = new Uint8Array(await (await pass()).arrayBuffer())
    const part = new ReadableStream({
      start(controller) {
        controller.enqueue(bytes.subarray(0, cutAfter))
        if (cutAfter < bytes.length) controller.error(new TypeError('terminated'))
        else controller.close()
      },
    })
    return new Response(part)
  })
  const query = { start_time: '2020-01-01T00:00:00Z', end_time: '2099-01-01T00:00:00Z' }
  const headers = { 'X-Api-Key': tenant.owner.key }
  const download = async () => {
    const chunks: Uint8Array[] = []
    for await (const chunk of client.download('GET /v1/audit-logs/export', { query, headers })) chunks.push(chunk)
    return Buffer.concat(chunks).toString()
  }
  const first = JSON.parse((await download()).split('\n')[0]!)
  expect([first.operation, sent.length]).toEqual(['create_api_key', 2])
  cutAfter = 10
  await expect(download()).rejects.toThrow(ConnectionError)
  expect(sent.length).toBe(3)
})

it('gives up after five attempts, and waits about twice as long each time', async () => {
  const { client, sent, delays } = await intercepted(cut)
  const error = await client.call('GET /v2/deployments').catch(error => error)
  expect(error).toBeInstanceOf(ConnectionError)
  expect(error.message).toContain(url)
  expect(sent.length).toBe(5)
  delays.forEach((delay, i) => {
    expect(delay).toBeGreaterThanOrEqual(2 ** i / 2)
    expect(delay).toBeLessThanOrEqual(2 ** i)
  })
})

it('counts a request without an answer as cut', async () => {
  const { key } = await newTenant()
  const silent: typeof fetch = (_, init) =>
    new Promise((_, reject) => init?.signal?.addEventListener('abort', () => reject(init.signal?.reason)))
  const client = clientOf({ key }, { fetch: silent, timeoutMs: 5, retry: { attempts: 1 } })
  await expect(client.call('GET /v2/deployments')).rejects.toBeInstanceOf(ConnectionError)
})

it('follows no redirect, which could take the key to another server', async () => {
  const { client, sent } = await intercepted(async () =>
    Response.redirect('https://elsewhere.example/v2/deployments?signature=hush', 301),
  )
  const error = await client.call('GET /v2/deployments').catch(error => error)
  expect(error).toBeInstanceOf(ApiError)
  expect(error.message).toContain('https://elsewhere.example/v2/deployments')
  expect(error.message).not.toContain('hush')
  expect(sent.map(({ redirect }) => redirect)).toEqual(['manual'])
})

it.each([200, 404])('reports that a server that answers %i is no installation', async status => {
  const { client } = await intercepted(async () => new Response('<html>', { status }))
  await expect(client.call('GET /v2/deployments')).rejects.toMatchObject({ code: 'unexpected_response', status })
})

it('escapes path parameters, and refuses those that would lead to another route', async () => {
  const { client, sent } = await intercepted(pass => pass())
  const read = (deployment_id: string) =>
    client.call('GET /v2/deployments/{deployment_id}/explain', { params: { deployment_id } })
  for (const value of ['', '.', '..']) await expect(read(value)).rejects.toBeInstanceOf(TypeError)
  await expect(read('a/../b?c')).rejects.toMatchObject({ code: 'invalid_request' })
  expect(sent.map(request => new URL(request.url).pathname)).toEqual(['/v2/deployments/a%2F..%2Fb%3Fc/explain'])
})

it('names the workspace that a key of the organization acts in', async () => {
  const tenant = await newTenant()
  const client = clientOf(tenant.owner, { workspace: tenant.tenant_id })
  expect((await client.call('GET /v2/deployments')).resources).toEqual([])
})

it('uploads an archive, by a new link if the first upload was cut', async () => {
  const { client, sent } = await intercepted(async (pass, attempt) => {
    const response = await pass()
    return attempt === 2 ? cut() : response
  })
  const deployment = await client.call('POST /v2/deployments', { body: makeSourceBody() as never })
  sent.length = 0
  const archive = await makeArchive()
  const { object_path, size } = await client.upload(deployment.id, () => new Blob([archive]))
  expect(size).toBe(archive.length)
  expect(sent.map(({ method }) => method)).toEqual(['POST', 'PUT', 'POST', 'PUT'])
  expect(sent.every(({ method, headers }) => method === 'POST' || !headers.has('X-Api-Key'))).toBe(true)
  const params = { deployment_id: deployment.id }
  const body = { source_revision_config: { source_tarball_path: object_path } }
  const changed = await client.call(DEPLOYMENT, { params, body })
  expect(changed.source_revision_config.source_tarball_path).toBe(object_path)
})

it('follows the events of a workspace over cut connections, each once and in order', async () => {
  const { client, tenant, sent } = await intercepted(async (pass, attempt) => {
    const response = await pass()
    return attempt % 2 === 1 ? cutAfter(response, 700) : response
  })
  for (const key of ['a', 'b', 'c', 'd', 'e']) await tenant.post('/v2/tag-keys', { key })
  const numbers: number[] = []
  for await (const item of client.stream('GET /v2/events/stream', { query: { after: 1 } })) {
    if (item.event === 'message') numbers.push(item.data.number)
    if (numbers.length === 5) break
  }
  expect(numbers).toEqual([2, 3, 4, 5, 6])
  expect(sent.length).toBeGreaterThan(1)
})

/** The first bytes of an answer, and then a cut. */
function cutAfter(response: Response, bytes: number): Response {
  let left = bytes
  const cutting = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      controller.enqueue(chunk.subarray(0, left))
      left -= chunk.length
      if (left <= 0) controller.error(new TypeError('terminated'))
    },
  })
  return new Response(response.body!.pipeThrough(cutting), response)
}

it('drops unknown members of the problem of another server', async () => {
  const fault = { type: 'x', loc: ['body'], msg: 'is wrong' }
  const problem = {
    code: 7,
    title: null,
    detail: 'refused',
    request_id: {},
    errors: [null, { loc: 'x' }, fault],
    trace: 1,
  }
  const { client } = await intercepted(async () => Response.json(problem, { status: 422 }))
  await expect(client.call('GET /v2/deployments')).rejects.toMatchObject({
    code: 'unexpected_response',
    message: 'refused',
    requestId: undefined,
    errors: [fault],
    trace: [],
  })
})

it('reads no answer without an end, and asks only once', async () => {
  const chunk = new Uint8Array(16 * 1024 ** 2).fill(32)
  const endless = () => new ReadableStream({ pull: controller => controller.enqueue(chunk) })
  const { client, sent } = await intercepted(async () => new Response(endless()))
  await expect(client.call('GET /v2/deployments')).rejects.toMatchObject({ code: 'unexpected_response' })
  expect(sent).toHaveLength(1)
})
