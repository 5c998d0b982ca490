import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createPinnedFetch, type Resolve } from '../../src/host/pinned-fetch.ts'
import { Failure } from '../../src/kernel/errors.ts'
import { BlockedAddressError, createGuardedClient } from '../../src/kernel/guarded-fetch.ts'
import { classifyAddress } from '../../src/protocol/address-kind.ts'
import { embedInIpv6, PUBLIC_ADDRESSES, RESERVED_IPV4, RESERVED_IPV6 } from '../support/address-cases.ts'
import { makeCertificate } from '../support/certificate.ts'
import { waitFor } from '../support/commands.ts'

const running: Server[] = []
afterEach(() => {
  for (const server of running.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

async function served(server: Server, address = '127.0.0.1', port = 0) {
  running.push(server)
  await once(server.listen(port, address), 'listening')
  return (server.address() as AddressInfo).port
}
const listening = (listener: RequestListener, address?: string, port?: number) =>
  served(createServer(listener), address, port)

const answering = (...answers: string[][]) => {
  let turn = 0
  return vi.fn<Resolve>(async () => {
    const addresses = answers[Math.min(turn++, answers.length - 1)]!
    return addresses.map(address => ({ address, family: address.includes(':') ? 6 : 4 }))
  })
}
const caught = async (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'fetched',
    error => error,
  )

describe('an address', () => {
  it.each(PUBLIC_ADDRESSES)('%s is public', address => expect(classifyAddress(address)).toBe('unicast'))
  it.each(PUBLIC_ADDRESSES.filter(one => !one.includes(':')).flatMap(embedInIpv6))('%s carries a public one', address =>
    expect(classifyAddress(address)).toBe('unicast'),
  )
  it.each([...RESERVED_IPV4, ...RESERVED_IPV6, ...RESERVED_IPV4.flatMap(embedInIpv6)])('%s is not', address =>
    expect(classifyAddress(address)).not.toBe('unicast'),
  )
  it.each(['', '1', '127.1', '0x7f.1', '0177.0.0.1', '8.8.8', '8.8.8.8.', 'example.com', '2606:4700::1%eth0', '[::1]'])(
    '%j is none that a resolver gives',
    address => expect(classifyAddress(address)).not.toBe('unicast'),
  )
})

describe('a name', () => {
  it.each([...RESERVED_IPV4, ...RESERVED_IPV6, ...RESERVED_IPV4.flatMap(embedInIpv6)])(
    'that leads to %s is not connected to, nor if another of it is public',
    async address => {
      for (const addresses of [[address], ['93.184.216.34', address], [address, '93.184.216.34']]) {
        const resolve = answering(addresses)
        const error = await caught(
          createPinnedFetch({ allowLoopback: false, resolve })('https://mcp.example.com:8443/'),
        )
        expect(error).toBeInstanceOf(BlockedAddressError)
      }
    },
  )

  it('`localhost` must resolve to a loopback address, even where loopback is allowed', async () => {
    for (const address of ['10.0.0.1', '93.184.216.34', '169.254.169.254'])
      for (const host of ['localhost', address]) {
        const reach = createPinnedFetch({ allowLoopback: true, resolve: answering([address]) })
        expect(await caught(reach(`http://${host}:3001/`))).toBeInstanceOf(BlockedAddressError)
      }
    const reach = createPinnedFetch({ allowLoopback: true, resolve: answering(['127.0.0.1']) })
    expect(await caught(reach('https://mcp.example.com/'))).toBeInstanceOf(BlockedAddressError)
  })

  it('without an address, or with a failing resolver, is a connection error', async () => {
    for (const resolve of [answering([]), vi.fn<Resolve>().mockRejectedValue(new Error('ENOTFOUND'))]) {
      const error = await caught(createPinnedFetch({ allowLoopback: false, resolve })('https://mcp.example.com/'))
      expect(error).not.toBeInstanceOf(BlockedAddressError)
    }
  })

  it('whose resolver changes its answer is connected to the checked address', async () => {
    const told: string[] = []
    const tell =
      (address: string): RequestListener =>
      (_, response) => {
        told.push(address)
        response.end(address)
      }
    const port = await listening(tell('127.0.0.1'))
    await listening(tell('127.0.0.2'), '127.0.0.2', port)
    const resolve = answering(['127.0.0.1'], ['127.0.0.2'])
    const reach = createPinnedFetch({ allowLoopback: true, resolve })
    expect(await (await reach(`http://localhost:${port}/`)).text()).toBe('127.0.0.1')
    expect(resolve).toHaveBeenCalledTimes(1)
    // No connection of the first is used again: the second is resolved, checked and connected to anew.
    expect(await (await reach(`http://localhost:${port}/`)).text()).toBe('127.0.0.2')
    expect(resolve).toHaveBeenCalledTimes(2)
    expect(told).toEqual(['127.0.0.1', '127.0.0.2'])
  })

  it('that is rebound to this machine after the check is not connected there', async () => {
    let reached = false
    const port = await listening(() => {
      reached = true
    })
    // Public by its class, and nobody's.
    const resolve = answering(['192.0.1.1'], ['127.0.0.1'])
    const signal = AbortSignal.timeout(300)
    const reach = createPinnedFetch({ allowLoopback: false, resolve })
    expect(await caught(reach(`https://rebound.example.com:${port}/`, { signal }))).not.toBeInstanceOf(
      BlockedAddressError,
    )
    expect([reached, resolve.mock.calls]).toEqual([false, [['rebound.example.com']]])
  })
})

describe('over TLS', () => {
  const { key, cert } = makeCertificate('localhost')
  const secure = (pair: { key: string; cert: string }) => {
    const names: unknown[] = []
    const server = createSecureServer(pair, (_, response) => response.end('sealed'))
    server.on('secureConnection', socket => names.push(socket.servername))
    return { server, names }
  }
  const reach = createPinnedFetch({ allowLoopback: true, resolve: answering(['127.0.0.1']), ca: [cert] })

  it('the server is asked for the name, and its certificate must be for the name', async () => {
    const { server, names } = secure({ key, cert })
    const port = await served(server)
    expect(await (await reach(`https://localhost:${port}/`)).text()).toBe('sealed')
    expect(names).toEqual(['localhost'])
  })

  it('a certificate for another name or from an unknown issuer is refused', async () => {
    const other = makeCertificate('other.example.com')
    const port = await served(secure(other).server)
    const resolve = answering(['127.0.0.1'])
    const trusting = createPinnedFetch({ allowLoopback: true, resolve, ca: [other.cert] })
    expect(await caught(trusting(`https://localhost:${port}/`))).toMatchObject({ code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
    expect(await caught(reach(`https://localhost:${port}/`))).toBeInstanceOf(Error)
  })
})

describe('a request', () => {
  const reach = createPinnedFetch({ allowLoopback: true })

  it('sends method, headers and body, and returns the response unchanged', async () => {
    const seen: unknown[] = []
    const port = await listening(async (request, response) => {
      const body = await new Response(request as unknown as ReadableStream).text()
      seen.push(request.method, request.url, request.headers.accept, request.headers['content-type'], body)
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
    const answer = await reach(`http://127.0.0.1:${port}/a?b=c`, { method: 'POST', headers, body })
    expect([answer.status, answer.headers.get('X-One'), await answer.text()]).toEqual([201, 'a, b', 'made'])
    const type = 'application/x-www-form-urlencoded;charset=UTF-8'
    expect(seen).toEqual(['POST', '/a?b=c', 'application/json', type, 'grant_type=code'])
  })

  it('does not follow redirects, and accepts a response without a body', async () => {
    const port = await listening((request, response) =>
      response.writeHead(Number(request.url!.slice(1)), { Location: '/200' }).end(),
    )
    for (const status of [204, 205, 302, 304, 307, 404])
      expect((await reach(`http://127.0.0.1:${port}/${status}`)).status).toBe(status)
  })

  it.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ])('a response in %s that was not requested is decoded', async (encoding, compress) => {
    const port = await listening((request, response) => {
      expect(request.headers['accept-encoding']).toBe('identity')
      response.writeHead(200, { 'Content-Encoding': encoding }).end(compress('{"a":1}'))
    })
    expect(await (await reach(`http://127.0.0.1:${port}/`)).json()).toEqual({ a: 1 })
  })

  it('that is aborted leaves no connection open', async () => {
    let closed = 0
    const early = new AbortController()
    const port = await listening((request, response) => {
      request.socket.on('close', () => closed++)
      if (request.url === '/begun') response.write('a')
      else early.abort()
    })
    expect(await caught(reach(`http://127.0.0.1:${port}/`, { signal: early.signal }))).toMatchObject({
      name: 'AbortError',
    })
    const late = new AbortController()
    const begun = await reach(`http://127.0.0.1:${port}/begun`, { signal: late.signal })
    late.abort()
    expect(await caught(begun.text())).toBeInstanceOf(Error)
    await waitFor(() => closed === 2)
  })
})

describe('behind the guard', () => {
  let sockets: Set<Socket>
  let port: number
  const lines = Buffer.alloc(1024, 'a')
  beforeEach(async () => {
    sockets = new Set()
    const server = createServer(async (request, response) => {
      if (request.url === '/silent') return
      response.writeHead(200, request.url === '/bomb' ? { 'Content-Encoding': 'gzip' } : {})
      if (request.url === '/bomb') return response.end(gzipSync(Buffer.alloc(64 * 1024 * 1024)))
      // An answer without an end, as fast as it is read or one byte at a time.
      while (!response.destroyed) {
        const more = response.write(request.url === '/endless' ? lines : 'a')
        if (request.url === '/endless' && more) await new Promise(setImmediate)
        else await delay(20)
      }
    })
    server.on('connection', socket => {
      sockets.add(socket)
      socket.on('close', () => sockets.delete(socket))
    })
    port = await served(server)
  })
  const asking = (path: string) => {
    const config = {
      foreignFetch: createPinnedFetch({ allowLoopback: true }),
      allowLoopback: true,
      publicUrl: undefined,
    }
    return createGuardedClient(config, 'http://127.0.0.1:1').fetch(`http://127.0.0.1:${port}${path}`)
  }
  const outcome = async (work: Promise<unknown>) => ((await caught(work)) as Failure).code

  it.each(['/endless', '/bomb'])('%s is read up to 64 KiB, and its connection closed', async path => {
    expect(await outcome(asking(path).then(answer => answer.text()))).toBe('upstream_error')
    await waitFor(() => sockets.size === 0)
  })

  it('a silent or trickling server is disconnected after 5 s', async () => {
    const started = Date.now()
    const outcomes = await Promise.all([
      outcome(asking('/silent')),
      outcome(asking('/drops').then(answer => answer.text())),
    ])
    expect(outcomes).toEqual(['upstream_timeout', 'upstream_timeout'])
    expect(Date.now() - started).toBeGreaterThanOrEqual(4990)
    await waitFor(() => sockets.size === 0)
  })

  it('cancelling a body closes its connection', async () => {
    const answer = await asking('/drops')
    await answer.body!.cancel()
    await waitFor(() => sockets.size === 0)
  })

  it('a refused connection is an upstream error, and a name of this network a blocked address', async () => {
    running[0]!.close()
    running[0]!.closeAllConnections()
    expect(await outcome(asking('/'))).toBe('upstream_error')
    const resolve = answering(['10.0.0.1'])
    const config = {
      foreignFetch: createPinnedFetch({ allowLoopback: false, resolve }),
      allowLoopback: false,
      publicUrl: undefined,
    }
    const error = await caught(
      createGuardedClient(config, 'https://slipway.example.com').fetch('https://mcp.example.com/'),
    )
    expect(error).toBeInstanceOf(Failure)
    expect(error).toMatchObject({ code: 'blocked_url', extra: { about: expect.stringContaining('mcp.example.com') } })
    expect(JSON.stringify(error)).not.toContain('10.0.0.1')
  })
})
