// The client address of a request, and the limit by it before the database is queried.
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createAddressReader } from '../../src/host/client-address.ts'
import { createHost } from '../../src/host/node.ts'
import { newApiKey } from '../../src/kernel/crypto.ts'
import { isRange } from '../../src/protocol/client-address.ts'

const NOBODY = undefined
const addressOf = (trusted: string[], remoteAddress: string | undefined, forwarded?: string) =>
  createAddressReader(trusted)({
    req: { header: name => (name === 'X-Forwarded-For' ? forwarded : undefined) },
    env: { incoming: { socket: { remoteAddress } } },
  })

describe('the client’s address', () => {
  it.each<[string, string[], string | undefined, string | undefined, string | undefined]>([
    ['is the socket’s', [], '192.0.2.1', NOBODY, '192.0.2.1'],
    ['is the socket’s where it is mapped into IPv6', [], '::ffff:192.0.2.1', NOBODY, '192.0.2.1'],
    ['is the socket’s without its zone', [], 'fe80::1%eth0', NOBODY, 'fe80::1'],
    ['is unknown without a socket', [], undefined, '192.0.2.1', undefined],
    ['is not what a stranger forwards', [], '192.0.2.1', '198.51.100.1', '192.0.2.1'],
    ['is not what a stranger forwards beside a proxy', ['10.0.0.1'], '192.0.2.1', '198.51.100.1', '192.0.2.1'],
    ['is what a trusted proxy forwards', ['10.0.0.1'], '10.0.0.1', '198.51.100.1', '198.51.100.1'],
    [
      'is the last one that no proxy has',
      ['10.0.0.0/8'],
      '10.0.0.1',
      '203.0.113.7, 198.51.100.1, 10.0.0.2',
      '198.51.100.1',
    ],
    ['is the proxy’s where it forwards none', ['10.0.0.0/8'], '10.0.0.1', NOBODY, '10.0.0.1'],
    ['is the proxy’s where it forwards nonsense', ['10.0.0.0/8'], '10.0.0.1', '198.51.100.1, unknown', '10.0.0.1'],
    ['is the first where all are proxies', ['10.0.0.0/8'], '10.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['may be of IPv6', ['2001:db8::/32'], '2001:db8::1', '2001:0DB9::1', '2001:db9::1'],
  ])('%s', (_, trusted, socket, forwarded, wanted) => expect(addressOf(trusted, socket, forwarded)).toBe(wanted))

  it.each([
    ['10.0.0.1', true],
    ['10.0.0.0/8', true],
    ['2001:db8::/32', true],
    ['10.0.0.0/33', false],
    ['10', false],
    ['010.0.0.1', false],
    ['10.0.0.1/', false],
  ])('%s is a range of proxies: %s', (text, wanted) => expect(isRange(text)).toBe(wanted))
})

it('limits an address before the database is queried, whatever X-Forwarded-For the client sends', async () => {
  const settings = {
    DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing',
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
