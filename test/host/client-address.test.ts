// The client address of a request, and the rate limit by it, which applies before the database is queried.
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createAddressReader } from '../../src/host/client-address.ts'
import { createHost } from '../../src/host/host.ts'
import { newApiKey } from '../../src/kernel/crypto/crypto.ts'
import { isRange } from '../../src/protocol/client-address.ts'

const NO_HEADER = undefined
const addressOf = (trusted: string[], remoteAddress: string | undefined, forwarded?: string) =>
  createAddressReader(trusted)({
    req: { header: name => (name === 'X-Forwarded-For' ? forwarded : undefined) },
    env: { incoming: { socket: { remoteAddress } } },
  })

describe('the client address', () => {
  it.each<[string, string[], string | undefined, string | undefined, string | undefined]>([
    ['is the socket’s', [], '192.0.2.1', NO_HEADER, '192.0.2.1'],
    ['is the socket’s, if it is mapped into IPv6', [], '::ffff:192.0.2.1', NO_HEADER, '192.0.2.1'],
    ['is the socket’s without its zone', [], 'fe80::1%eth0', NO_HEADER, 'fe80::1'],
    ['is unknown without a socket', [], undefined, '192.0.2.1', undefined],
    ['is not in X-Forwarded-For without a trusted proxy', [], '192.0.2.1', '198.51.100.1', '192.0.2.1'],
    [
      'is not in X-Forwarded-For of another address than the trusted proxy’s',
      ['10.0.0.1'],
      '192.0.2.1',
      '198.51.100.1',
      '192.0.2.1',
    ],
    ['is in X-Forwarded-For of a trusted proxy', ['10.0.0.1'], '10.0.0.1', '198.51.100.1', '198.51.100.1'],
    [
      'is the last forwarded address that is not a proxy’s',
      ['10.0.0.0/8'],
      '10.0.0.1',
      '203.0.113.7, 198.51.100.1, 10.0.0.2',
      '198.51.100.1',
    ],
    ['is the proxy’s if it forwards none', ['10.0.0.0/8'], '10.0.0.1', NO_HEADER, '10.0.0.1'],
    ['is the proxy’s if it forwards an invalid one', ['10.0.0.0/8'], '10.0.0.1', '198.51.100.1, unknown', '10.0.0.1'],
    ['is the first forwarded one if all are proxies’', ['10.0.0.0/8'], '10.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['is normalized if it is an IPv6 address', ['2001:db8::/32'], '2001:db8::1', '2001:0DB9::1', '2001:db9::1'],
  ])('%s', (_, trusted, socket, forwarded, expected) => expect(addressOf(trusted, socket, forwarded)).toBe(expected))

  it.each([
    ['10.0.0.1', true],
    ['10.0.0.0/8', true],
    ['2001:db8::/32', true],
    ['10.0.0.0/33', false],
    ['10', false],
    ['010.0.0.1', false],
    ['10.0.0.1/', false],
  ])('%s is a valid range of proxies: %s', (text, expected) => expect(isRange(text)).toBe(expected))
})

it('requests with unknown keys are limited by address before a query, even with a forged header', async () => {
  const settings = {
    DATABASE_URL: 'postgres://unused@127.0.0.1:1/unused',
    PUBLIC_URL: 'http://slipway.test',
    SEALING_KEYS: `first:${Buffer.alloc(32, 7).toString('base64url')}`,
    UNKNOWN_KEYS_PER_MINUTE: '3',
    TRUSTED_PROXIES: '10.0.0.0/8',
  }
  const { app, close } = createHost(settings, { log: () => {} })
  const server = createAdaptorServer({ fetch: app.fetch }) as Server
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(async () => {
    server.close()
    server.closeAllConnections()
    await close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/workspaces`
  const statusOf = async (headers: Record<string, string>) => (await fetch(url, { headers })).status
  for (let i = 0; i < 3; i++) expect(await statusOf({ 'X-Forwarded-For': `192.0.2.${i}` })).toBe(401)
  expect(await statusOf({ 'X-Api-Key': newApiKey(), 'X-Forwarded-For': '192.0.2.9' })).toBe(429)
})
