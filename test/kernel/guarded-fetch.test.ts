import { afterEach, beforeEach, describe, expect, inject, it, vi } from 'vitest'
import { Failure } from '../../src/kernel/http/errors.ts'
import { BlockedAddressError, createGuardedClient, type FetchLimits } from '../../src/kernel/http/guarded-fetch.ts'
import { getApp, startApp } from '../support/app.ts'

const KIB = 1024
const MCP = 'https://mcp.example.com'
type Answer = (request: Request) => Response | Promise<Response>

/** A guarded client whose network is one function. It records the requests. */
function createClient(answer: Answer, settings: { allowLoopback?: boolean } = {}, limits?: FetchLimits) {
  const requests: Request[] = []
  const foreign = (async (url: string, init: RequestInit) => {
    const request = new Request(url, init)
    requests.push(request)
    return answer(request)
  }) as typeof fetch
  const config = { publicUrl: undefined, allowLoopback: false, ...settings }
  return {
    ...createGuardedClient({ config, platform: { foreignFetch: foreign } }, 'https://slipway.example.com', limits),
    requests,
  }
}

const catchFailure = async (work: Promise<unknown>): Promise<Failure> => {
  const error = await work.then(
    () => expect.unreachable('it was fetched'),
    (error: unknown) => error,
  )
  if (error instanceof Failure) return error
  throw error
}
const codeOf = async (work: Promise<unknown>) => (await catchFailure(work)).code
const redirect = (location: string, status = 302) => new Response('moved', { status, headers: { Location: location } })
const pathOf = ({ url }: Request) => new URL(url).pathname

/** A body of so many chunks of 1 KiB, and how far it was read. */
function streamKibibytes(kibibytes: number) {
  const progress = { sent: 0, cancelled: false }
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (progress.sent++ === kibibytes) controller.close()
        else controller.enqueue(new Uint8Array(KIB).fill(97))
      },
      cancel() {
        progress.cancelled = true
      },
    },
    { highWaterMark: 0 },
  )
  return { progress, body }
}

describe('a request', () => {
  it('is sent as given, without cookies, and with our User-Agent', async () => {
    const { fetch, requests } = createClient(() => Response.json({ ok: true }))
    const headers = { Accept: 'application/json', Cookie: 'a=b', Host: 'other.example', Authorization: 'Bearer secret' }
    const answer = await fetch(`${MCP}/token#part`, {
      method: 'post',
      headers,
      body: 'grant_type=x',
      credentials: 'include',
    })
    expect(await answer.json()).toEqual({ ok: true })
    const [request] = requests
    expect([request!.method, request!.url, request!.redirect, await request!.text()]).toEqual([
      'POST',
      `${MCP}/token`,
      'manual',
      'grant_type=x',
    ])
    expect(Object.fromEntries(request!.headers)).toMatchObject({
      accept: 'application/json',
      authorization: 'Bearer secret',
      'user-agent': 'Slipway',
    })
    expect([request!.headers.has('Cookie'), request!.headers.has('Host')]).toEqual([false, false])
  })

  it('returns status, headers and body, but no cookie', async () => {
    const headers = { 'Set-Cookie': 'a=b', 'WWW-Authenticate': 'Bearer', 'Content-Type': 'text/plain' }
    const answer = await createClient(() => new Response('no', { status: 401, headers })).fetch(MCP)
    expect([answer.status, await answer.text(), Object.fromEntries(answer.headers)]).toEqual([
      401,
      'no',
      { 'www-authenticate': 'Bearer', 'content-type': 'text/plain' },
    ])
    for (const status of [204, 205, 304, 500, 503])
      expect((await createClient(() => new Response(null, { status })).fetch(MCP)).status).toBe(status)
  })

  it('is not sent to a blocked address', async () => {
    const { fetch, requests, trace } = createClient(() => new Response())
    for (const url of ['http://mcp.example.com', 'https://127.0.0.1/', 'https://a:b@mcp.example.com/', 'nonsense'])
      expect(await codeOf(fetch(url))).toBe('blocked_url')
    expect(requests).toEqual([])
    expect(trace.map(({ outcome }) => outcome)).toEqual(Array(4).fill('blocked_url'))
  })
})

it('a server on this machine is reached only if loopback is allowed', async () => {
  const url = `${inject('trips')}/unused?a=b`
  const app = startApp({
    settings: { ALLOW_LOOPBACK: 'true' },
    overrides: { foreignFetch: fetch.bind(globalThis) },
  })
  expect(await (await createGuardedClient(app, 'http://slipway.test').fetch(url)).text()).toBe('0')
  expect(await codeOf(createGuardedClient(getApp(), 'http://slipway.test').fetch(url))).toBe('blocked_url')
})

describe('a redirect', () => {
  const followRedirects = (count: number) =>
    createClient(request => {
      const at = Number(pathOf(request).slice(1))
      return at < count ? redirect(`/${at + 1}`) : new Response(String(at))
    }).fetch(`${MCP}/0`)

  it.each([301, 302, 303, 307, 308])('%i of a GET is followed within the origin', async status => {
    const { fetch, requests } = createClient(request =>
      pathOf(request) === '/a' ? redirect('b?c=d#e', status) : new Response('target'),
    )
    const answer = await fetch(`${MCP}/a`, { headers: { 'MCP-Protocol-Version': '1' } })
    expect(await answer.text()).toBe('target')
    expect(requests.map(({ url }) => url)).toEqual([`${MCP}/a`, `${MCP}/b?c=d`])
    expect(requests[1]!.headers.get('MCP-Protocol-Version')).toBe('1')
  })

  it('is followed up to five times', async () => {
    expect(await (await followRedirects(5)).text()).toBe('5')
    expect(await codeOf(followRedirects(6))).toBe('upstream_error')
  })

  it.each([
    'http://mcp.example.com/b',
    'https://other.example.com/b',
    '//other.example.com/b',
    `${MCP}:8443/b`,
    'https://127.0.0.1/',
    'https://169.254.169.254/latest',
    'file:///etc/passwd',
    'data:application/json,{}',
    'https://mcp.example.com./b',
    `https://user:pass@mcp.example.com/b`,
    'javascript:1',
    '\\\\127.0.0.1\\b',
  ])('to %s is blocked', async location => {
    const { fetch, requests, trace } = createClient(() => redirect(location))
    expect(await codeOf(fetch(`${MCP}/a`))).toBe('blocked_url')
    expect(requests).toHaveLength(1)
    expect(trace.at(-1)!.outcome).toBe('blocked_url')
  })

  it('to an invalid address is an upstream error, and one without a location is returned', async () => {
    expect(await codeOf(createClient(() => redirect('https://[')).fetch(MCP))).toBe('upstream_error')
    expect((await createClient(() => new Response(null, { status: 302 })).fetch(MCP)).status).toBe(302)
  })

  it.each(['POST', 'PUT', 'DELETE'])('after a %s is never followed', async method => {
    const { fetch, requests } = createClient(() => redirect('/b', 307))
    expect((await fetch(`${MCP}/a`, { method })).status).toBe(307)
    expect(requests).toHaveLength(1)
  })

  it('has its body cancelled', async () => {
    const { progress, body } = streamKibibytes(1)
    const headers = { Location: '/b' }
    await createClient(request =>
      pathOf(request) === '/a' ? new Response(body, { status: 302, headers }) : new Response(),
    ).fetch(`${MCP}/a`)
    expect(progress.cancelled).toBe(true)
  })
})

describe('a response body', () => {
  it('can be limited per client, together with the number of requests', async () => {
    const limits = { fetchMs: 1000, totalMs: 1000, fetches: 2, bytes: 100 * KIB }
    const { fetch } = createClient(() => new Response(streamKibibytes(100).body), {}, limits)
    expect(await (await fetch(MCP)).text()).toHaveLength(100 * KIB)
    const { fetch: fetchTooMuch } = createClient(() => new Response(streamKibibytes(101).body), {}, limits)
    expect(await codeOf((await fetchTooMuch(MCP)).text())).toBe('upstream_error')
    await (await fetch(MCP)).text()
    expect(await codeOf(fetch(MCP))).toBe('upstream_error')
  })

  it('is read up to 64 KiB by default', async () => {
    const text = await (await createClient(() => new Response(streamKibibytes(64).body)).fetch(MCP)).text()
    expect(text).toHaveLength(64 * KIB)
  })

  it.each(['text', 'json', 'arrayBuffer'] as const)(
    'beyond 64 KiB is cancelled, and %s() fails with upstream_error',
    async read => {
      const { progress, body } = streamKibibytes(10_000)
      const { fetch, trace } = createClient(() => new Response(body))
      const answer = await fetch(MCP)
      expect(await codeOf(answer[read]())).toBe('upstream_error')
      expect(progress.cancelled).toBe(true)
      expect(progress.sent).toBeLessThan(70)
      expect(trace).toMatchObject([{ status: 200, outcome: 'upstream_error' }])
    },
  )

  it('is not fetched before it is read, and can be cancelled unread', async () => {
    const { progress, body } = streamKibibytes(10_000)
    const answer = await createClient(() => new Response(body)).fetch(MCP)
    expect(progress.sent).toBe(0)
    await answer.body!.cancel()
    expect(progress).toEqual({ sent: 0, cancelled: true })
  })

  it('that breaks off is an upstream error', async () => {
    const body = new ReadableStream({
      pull(controller) {
        controller.error(new TypeError('reset'))
      },
    })
    const { fetch, trace } = createClient(() => new Response(body))
    expect(await codeOf((await fetch(MCP)).text())).toBe('upstream_error')
    expect(trace[0]!.outcome).toBe('upstream_error')
  })
})

describe('a failure', () => {
  it('to connect is upstream_error, and a BlockedAddressError of the platform is blocked_url', async () => {
    const fail = (error: Error) => () => Promise.reject(error)
    expect(await codeOf(createClient(fail(new TypeError('ECONNREFUSED'))).fetch(MCP))).toBe('upstream_error')
    expect(await codeOf(createClient(fail(new BlockedAddressError('private'))).fetch(MCP))).toBe('blocked_url')
  })

  it('names the stage and the host, but no path, query, user or response', async () => {
    const { fetch, stage, trace } = createClient(() => Promise.reject(new TypeError('foreign message')))
    stage('registration')
    const secret = crypto.randomUUID()
    for (const url of [`${MCP}/${secret}?token=${secret}`, `https://${secret}:${secret}@mcp.example.com/?${secret}`]) {
      const { extra } = await catchFailure(fetch(url))
      expect(extra.about).toContain('registration')
      expect(extra.about).toContain('mcp.example.com')
      expect(JSON.stringify(extra.about)).not.toContain(secret)
      expect(extra.about).not.toContain('foreign message')
    }
    expect(JSON.stringify(trace.map(({ url }) => url.replace(`/${secret}`, '')))).not.toContain(secret)
  })

  it('is recorded in the trace, in order with the successful requests', async () => {
    const { fetch, stage, trace } = createClient(request =>
      pathOf(request) === '/a' ? redirect('/b?x=y') : new Response('', { status: 404 }),
    )
    stage('probe')
    await fetch(`${MCP}/p?q=r`, { method: 'POST', body: 'x' })
    stage('metadata')
    await fetch(new URL(`${MCP}/a`))
    expect(await codeOf(fetch('https://localhost/'))).toBe('blocked_url')
    const ms = expect.any(Number)
    expect(trace).toEqual([
      { stage: 'probe', method: 'POST', url: `${MCP}/p`, status: 404, ms },
      { stage: 'metadata', method: 'GET', url: `${MCP}/a`, status: 302, ms },
      { stage: 'metadata', method: 'GET', url: `${MCP}/b`, status: 404, ms },
      { stage: 'metadata', method: 'GET', url: 'https://localhost/', outcome: 'blocked_url', ms },
    ])
  })

  it('is also the seventeenth request of an operation, where each redirect counts as a request', async () => {
    const { fetch, requests } = createClient(request => (pathOf(request) === '/a' ? redirect('/b') : new Response()))
    for (let i = 0; i < 8; i++) await fetch(`${MCP}/a`)
    expect(await codeOf(fetch(`${MCP}/b`))).toBe('upstream_error')
    expect(requests).toHaveLength(16)
  })
})

describe('the time limit', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] }))
  afterEach(() => void vi.useRealTimers())
  const never = new Promise<never>(() => {})
  const outcomeAfter = async (ms: number, work: Promise<unknown>) => {
    const settled = work.then(
      () => 'fetched',
      (error: Failure) => error.code,
    )
    const pending = Symbol()
    await vi.advanceTimersByTimeAsync(ms - 1)
    expect(await Promise.race([settled, Promise.resolve(pending).then(one => one)])).toBe(pending)
    await vi.advanceTimersByTimeAsync(1)
    return settled
  }

  it('for a request is 5 s, even if fetch ignores the signal', async () => {
    const { fetch, requests, trace } = createClient(() => never)
    expect(await outcomeAfter(5000, fetch(MCP))).toBe('upstream_timeout')
    expect(requests[0]!.signal.aborted).toBe(true)
    expect(trace).toMatchObject([{ outcome: 'upstream_timeout', ms: 5000 }])
  })

  it('for a request includes its body', async () => {
    let cancelled = false
    const body = new ReadableStream({
      pull: () => never,
      cancel() {
        cancelled = true
      },
    })
    const { fetch } = createClient(() => new Response(body))
    const answer = await fetch(MCP)
    expect(await outcomeAfter(5000, answer.text())).toBe('upstream_timeout')
    expect(cancelled).toBe(true)
  })

  it('for an operation is 20 s, and no request is sent after it', async () => {
    const { fetch, requests } = createClient(async () => {
      await new Promise(resolve => setTimeout(resolve, 4500))
      return new Response()
    })
    for (let i = 0; i < 4; i++) {
      const answered = fetch(MCP)
      await vi.advanceTimersByTimeAsync(4500)
      await answered
    }
    expect(await outcomeAfter(2000, fetch(MCP))).toBe('upstream_timeout')
    expect(await codeOf(fetch(MCP))).toBe('upstream_timeout')
    expect(requests).toHaveLength(5)
  })

  it('ends early when the caller aborts', async () => {
    const controller = new AbortController()
    const { fetch } = createClient(() => never)
    const pending = fetch(MCP, { signal: controller.signal })
    controller.abort()
    expect(await codeOf(pending)).toBe('upstream_timeout')
    expect(await codeOf(fetch(MCP, { signal: AbortSignal.abort() }))).toBe('upstream_timeout')
  })
})
