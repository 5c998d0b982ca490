// The fetch of foreign servers connects only to addresses that it has checked, and limits the answer that it reads.
import { once } from 'node:events'
import { Agent, createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createPinnedFetch, type Resolve } from '../../src/host/pinned-fetch.ts'
import { Failure } from '../../src/kernel/http/errors.ts'
import { BlockedAddressError, createGuardedClient } from '../../src/kernel/http/guarded-fetch.ts'
import { classifyAddress } from '../../src/protocol/address-kind.ts'
import { embedInIpv6, PUBLIC_ADDRESSES, RESERVED_IPV4, RESERVED_IPV6 } from '../support/address-cases.ts'
import { makeCertificate } from '../support/certificate.ts'
import { waitFor } from '../support/commands.ts'

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

async function listen(server: Server, address = '127.0.0.1', port = 0) {
  servers.push(server)
  await once(server.listen(port, address), 'listening')
  return (server.address() as AddressInfo).port
}
const serve = (listener: RequestListener, address?: string, port?: number) =>
  listen(createServer(listener), address, port)

/** Resolves each name to the next of these answers, and at last always to the last one. */
const createResolver = (...answers: string[][]) => {
  let calls = 0
  return vi.fn<Resolve>(async () => {
    const addresses = answers[Math.min(calls++, answers.length - 1)]!
    return addresses.map(address => ({ address, family: address.includes(':') ? 6 : 4 }))
  })
}
const catchError = async (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'fetched',
    error => error,
  )

describe('an address', () => {
  it.each(PUBLIC_ADDRESSES)('%s is public', address => expect(classifyAddress(address)).toBe('unicast'))
  it.each(PUBLIC_ADDRESSES.filter(one => !one.includes(':')).flatMap(embedInIpv6))(
    '%s contains a public IPv4 address',
    address => expect(classifyAddress(address)).toBe('unicast'),
  )
  it.each([...RESERVED_IPV4, ...RESERVED_IPV6, ...RESERVED_IPV4.flatMap(embedInIpv6)])('%s is not public', address =>
    expect(classifyAddress(address)).not.toBe('unicast'),
  )
  it.each(['', '1', '127.1', '0x7f.1', '0177.0.0.1', '8.8.8', '8.8.8.8.', 'example.com', '2606:4700::1%eth0', '[::1]'])(
    '%j is not a valid address',
    address => expect(classifyAddress(address)).not.toBe('unicast'),
  )
})

describe('a host name', () => {
  it.each([...RESERVED_IPV4, ...RESERVED_IPV6, ...RESERVED_IPV4.flatMap(embedInIpv6)])(
    'that resolves to %s is refused, also if it resolves to a public address, too',
    async address => {
      for (const addresses of [[address], ['93.184.216.34', address], [address, '93.184.216.34']]) {
        const resolve = createResolver(addresses)
        const error = await catchError(
          createPinnedFetch({ allowLoopback: false, resolve })('https://mcp.example.com:8443/'),
        )
        expect(error).toBeInstanceOf(BlockedAddressError)
      }
    },
  )

  it('is refused if it is `localhost` without a loopback address, or another name with one', async () => {
    for (const address of ['10.0.0.1', '93.184.216.34', '169.254.169.254'])
      for (const host of ['localhost', address]) {
        const pinnedFetch = createPinnedFetch({ allowLoopback: true, resolve: createResolver([address]) })
        expect(await catchError(pinnedFetch(`http://${host}:3001/`))).toBeInstanceOf(BlockedAddressError)
      }
    const pinnedFetch = createPinnedFetch({ allowLoopback: true, resolve: createResolver(['127.0.0.1']) })
    expect(await catchError(pinnedFetch('https://mcp.example.com/'))).toBeInstanceOf(BlockedAddressError)
  })

  it('with a private address is fetched where that is allowed, unless it is of this machine or a cloud', async () => {
    const fetchAt = (address: string, scheme = 'http') => {
      const signal = AbortSignal.timeout(50)
      const pinnedFetch = createPinnedFetch({
        allowLoopback: false,
        allowPrivate: true,
        resolve: createResolver([address]),
      })
      return catchError(pinnedFetch(`${scheme}://vllm.models.svc:8000/`, { signal }))
    }
    const ofClouds = ['169.254.169.254', '169.254.170.2', '100.100.100.200', '168.63.129.16']
    const inIpv6 = ['fd00:ec2::254', 'fd00:ec2::23', 'fd20:ce::254', 'fd00:42::42', 'fe80::a9fe:a9fe']
    for (const address of ['127.0.0.1', '::1', '0.0.0.0', ...ofClouds, ...ofClouds.flatMap(embedInIpv6), ...inIpv6])
      for (const scheme of ['http', 'https'])
        expect(await fetchAt(address, scheme), address).toBeInstanceOf(BlockedAddressError)
    for (const address of ['10.255.255.1', 'fd12::1'])
      expect(await fetchAt(address), address).not.toBeInstanceOf(BlockedAddressError)
    // Plain http is for private addresses. No host has this one.
    expect(await fetchAt('192.0.1.1')).toBeInstanceOf(BlockedAddressError)
    expect(await fetchAt('192.0.1.1', 'https')).not.toBeInstanceOf(BlockedAddressError)
  })

  it('that does not resolve causes a connection error', async () => {
    for (const resolve of [createResolver([]), vi.fn<Resolve>().mockRejectedValue(new Error('ENOTFOUND'))]) {
      const error = await catchError(createPinnedFetch({ allowLoopback: false, resolve })('https://mcp.example.com/'))
      expect(error).not.toBeInstanceOf(BlockedAddressError)
    }
  })

  it('whose address changes is resolved and checked for each request', async () => {
    const reached: string[] = []
    const recordAddress =
      (address: string): RequestListener =>
      (_, response) => {
        reached.push(address)
        response.end(address)
      }
    const port = await serve(recordAddress('127.0.0.1'))
    await serve(recordAddress('127.0.0.2'), '127.0.0.2', port)
    const resolve = createResolver(['127.0.0.1'], ['127.0.0.2'])
    const pinnedFetch = createPinnedFetch({ allowLoopback: true, resolve })
    expect(await (await pinnedFetch(`http://localhost:${port}/`)).text()).toBe('127.0.0.1')
    expect(resolve).toHaveBeenCalledTimes(1)
    // The second request does not reuse the connection of the first.
    expect(await (await pinnedFetch(`http://localhost:${port}/`)).text()).toBe('127.0.0.2')
    expect(resolve).toHaveBeenCalledTimes(2)
    expect(reached).toEqual(['127.0.0.1', '127.0.0.2'])
  })

  it('that resolves to this machine after the check is not connected there', async () => {
    let isReached = false
    const port = await serve(() => {
      isReached = true
    })
    // A public address that no host has.
    const resolve = createResolver(['192.0.1.1'], ['127.0.0.1'])
    const signal = AbortSignal.timeout(300)
    const pinnedFetch = createPinnedFetch({ allowLoopback: false, resolve })
    expect(await catchError(pinnedFetch(`https://rebound.example.com:${port}/`, { signal }))).not.toBeInstanceOf(
      BlockedAddressError,
    )
    expect([isReached, resolve.mock.calls]).toEqual([false, [['rebound.example.com']]])
  })
})

describe('over TLS', () => {
  const { key, cert } = makeCertificate('localhost')
  const createServerWith = (pair: { key: string; cert: string }) => {
    const names: unknown[] = []
    const server = createSecureServer(pair, (_, response) => response.end('sealed'))
    server.on('secureConnection', socket => names.push(socket.servername))
    return { server, names }
  }
  const pinnedFetch = createPinnedFetch({ allowLoopback: true, resolve: createResolver(['127.0.0.1']), ca: [cert] })

  it('the requested name is sent to the server', async () => {
    const { server, names } = createServerWith({ key, cert })
    const port = await listen(server)
    expect(await (await pinnedFetch(`https://localhost:${port}/`)).text()).toBe('sealed')
    expect(names).toEqual(['localhost'])
  })

  it('a certificate for another name or from an unknown issuer is refused', async () => {
    const otherName = makeCertificate('other.example.com')
    const port = await listen(createServerWith(otherName).server)
    const resolve = createResolver(['127.0.0.1'])
    const trusting = createPinnedFetch({ allowLoopback: true, resolve, ca: [otherName.cert] })
    expect(await catchError(trusting(`https://localhost:${port}/`))).toMatchObject({
      code: 'ERR_TLS_CERT_ALTNAME_INVALID',
    })
    expect(await catchError(pinnedFetch(`https://localhost:${port}/`))).toBeInstanceOf(Error)
  })
})

describe('a request', () => {
  const pinnedFetch = createPinnedFetch({ allowLoopback: true })

  it('sends method, headers and body, and returns the response unchanged', async () => {
    const received: unknown[] = []
    const port = await serve(async (request, response) => {
      const body = await new Response(request as unknown as ReadableStream).text()
      received.push(request.method, request.url, request.headers.accept, request.headers['content-type'], body)
      response.writeHead(
        201,
        [
          ['X-One', 'a'],
          ['X-One', 'b'],
          ['Content-Type', 'text/plain'],
        ].flat(),
      )
      response.end('made')
    })
    const headers = { Accept: 'application/json' }
    const body = new URLSearchParams({ grant_type: 'code' })
    const answer = await pinnedFetch(`http://127.0.0.1:${port}/a?b=c`, { method: 'POST', headers, body })
    expect([answer.status, answer.headers.get('X-One'), await answer.text()]).toEqual([201, 'a, b', 'made'])
    const type = 'application/x-www-form-urlencoded;charset=UTF-8'
    expect(received).toEqual(['POST', '/a?b=c', 'application/json', type, 'grant_type=code'])
  })

  it('does not follow redirects, and accepts a response without a body', async () => {
    const port = await serve((request, response) =>
      response.writeHead(Number(request.url!.slice(1)), { Location: '/200' }).end(),
    )
    for (const status of [204, 205, 302, 304, 307, 404])
      expect((await pinnedFetch(`http://127.0.0.1:${port}/${status}`)).status).toBe(status)
  })

  it.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ])('whose response is encoded with %s, though it accepts none, returns it decoded', async (encoding, compress) => {
    const port = await serve((request, response) => {
      expect(request.headers['accept-encoding']).toBe('identity')
      response.writeHead(200, { 'Content-Encoding': encoding }).end(compress('{"a":1}'))
    })
    expect(await (await pinnedFetch(`http://127.0.0.1:${port}/`)).json()).toEqual({ a: 1 })
  })

  it('streams its body: the server has the first part before the second one is made', async () => {
    const received: string[] = []
    let hasFirst = Promise.withResolvers<void>()
    let end = () => {}
    const port = await serve((request, response) => {
      request.on('data', part => {
        received.push(String(part))
        hasFirst.resolve()
      })
      request.on('error', () => end())
      request.on('end', () => response.end(request.headers['transfer-encoding']))
    })
    const post = (second: (controller: ReadableStreamDefaultController) => void) => {
      hasFirst = Promise.withResolvers()
      let isFirst = true
      const pull = async (controller: ReadableStreamDefaultController) => {
        if (!isFirst) await hasFirst.promise.then(() => second(controller))
        else controller.enqueue(Buffer.from('first'))
        isFirst = false
      }
      const body = new ReadableStream<Uint8Array>({ pull }, { highWaterMark: 0 })
      return pinnedFetch(`http://127.0.0.1:${port}/`, { method: 'POST', body, duplex: 'half' } as RequestInit)
    }
    expect(await (await post(controller => controller.close())).text()).toBe('chunked')
    // A body that breaks off is not taken for a whole one.
    const ended = new Promise<void>(resolve => {
      end = resolve
    })
    expect(await catchError(post(controller => controller.error(new Error('cut'))))).toBeInstanceOf(Error)
    await ended
    expect(received).toEqual(['first', 'first'])
  })

  it.each(['DELETE', 'POST'])('has a body that no server takes for the next request: %s', async method => {
    const received: string[] = []
    const port = await serve(async (request, response) => {
      const body = await new Response(request as unknown as ReadableStream).text()
      received.push(`${request.method} ${request.url} ${body}`)
      response.end()
    })
    const smuggled = 'GET /admin HTTP/1.1\r\nHost: a\r\n\r\n'
    for (const body of [smuggled, new Response(smuggled).body!])
      await pinnedFetch(`http://127.0.0.1:${port}/a`, { method, body, duplex: 'half' } as RequestInit)
    expect(received).toEqual(Array(2).fill(`${method} /a ${smuggled}`))
  })

  it('ends with an error if the server changes the protocol', async () => {
    const port = await serve((_request, response) => {
      response.socket!.end('HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n')
    })
    const error = await catchError(pinnedFetch(`http://127.0.0.1:${port}/`))
    expect(String(error)).toContain('protocol')
  })

  it('uses no agent: those of Deno obey the proxies of the environment, which resolve the name again', async () => {
    const connecting = vi.spyOn(Agent.prototype, 'createConnection')
    const port = await serve((_request, response) => response.end('direct'))
    expect(await (await pinnedFetch(`http://127.0.0.1:${port}/`)).text()).toBe('direct')
    expect(connecting).not.toHaveBeenCalled()
    connecting.mockRestore()
  })

  it('that is aborted leaves no connection open', async () => {
    let closedCount = 0
    const beforeAnswer = new AbortController()
    const port = await serve((request, response) => {
      request.socket.on('close', () => closedCount++)
      if (request.url === '/begun') response.write('a')
      else beforeAnswer.abort()
    })
    expect(await catchError(pinnedFetch(`http://127.0.0.1:${port}/`, { signal: beforeAnswer.signal }))).toMatchObject({
      name: 'AbortError',
    })
    const duringAnswer = new AbortController()
    const begun = await pinnedFetch(`http://127.0.0.1:${port}/begun`, { signal: duringAnswer.signal })
    duringAnswer.abort()
    expect(await catchError(begun.text())).toBeInstanceOf(Error)
    await waitFor(() => closedCount === 2)
  })
})

describe('an answer to the guarded client', () => {
  let sockets: Set<Socket>
  let port: number
  const chunk = Buffer.alloc(1024, 'a')
  beforeEach(async () => {
    sockets = new Set()
    const server = createServer(async (request, response) => {
      if (request.url === '/silent') return
      response.writeHead(200, request.url === '/bomb' ? { 'Content-Encoding': 'gzip' } : {})
      if (request.url === '/bomb') return response.end(gzipSync(Buffer.alloc(64 * 1024 * 1024)))
      // An endless answer, as fast as it is read or one byte at a time.
      while (!response.destroyed) {
        const canWrite = response.write(request.url === '/endless' ? chunk : 'a')
        if (request.url === '/endless' && canWrite) await new Promise(setImmediate)
        else await delay(20)
      }
    })
    server.on('connection', socket => {
      sockets.add(socket)
      socket.on('close', () => sockets.delete(socket))
    })
    port = await listen(server)
  })
  const send = (path: string) => {
    const policy = {
      config: { allowLoopback: true, publicUrl: undefined },
      platform: { foreignFetch: createPinnedFetch({ allowLoopback: true }) },
    }
    return createGuardedClient(policy, 'http://127.0.0.1:1').fetch(`http://127.0.0.1:${port}${path}`)
  }
  const errorCode = async (work: Promise<unknown>) => ((await catchError(work)) as Failure).code

  it.each(['/endless', '/bomb'])('is read up to 64 KiB, and its connection is closed: %s', async path => {
    expect(await errorCode(send(path).then(answer => answer.text()))).toBe('upstream_error')
    await waitFor(() => sockets.size === 0)
  })

  it('is awaited for 5 s if the server is silent or slow', async () => {
    const start = Date.now()
    const codes = await Promise.all([
      errorCode(send('/silent')),
      errorCode(send('/drops').then(answer => answer.text())),
    ])
    expect(codes).toEqual(['upstream_timeout', 'upstream_timeout'])
    expect(Date.now() - start).toBeGreaterThanOrEqual(4990)
    await waitFor(() => sockets.size === 0)
  })

  it('whose body is canceled closes its connection', async () => {
    const answer = await send('/drops')
    await answer.body!.cancel()
    await waitFor(() => sockets.size === 0)
  })

  it('is an upstream error if the connection is refused, and a blocked URL if the address is private', async () => {
    servers[0]!.close()
    servers[0]!.closeAllConnections()
    expect(await errorCode(send('/'))).toBe('upstream_error')
    const resolve = createResolver(['10.0.0.1'])
    const policy = {
      config: { allowLoopback: false, publicUrl: undefined },
      platform: { foreignFetch: createPinnedFetch({ allowLoopback: false, resolve }) },
    }
    const error = await catchError(
      createGuardedClient(policy, 'https://slipway.example.com').fetch('https://mcp.example.com/'),
    )
    expect(error).toBeInstanceOf(Failure)
    expect(error).toMatchObject({ code: 'blocked_url', extra: { about: expect.stringContaining('mcp.example.com') } })
    expect(JSON.stringify(error)).not.toContain('10.0.0.1')
  })
})
