// TXT records of a host, from a real DNS server on this machine.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTxtResolver, lookUpTxtRecords } from '../../src/kernel/http/txt-records.ts'
import { startDnsServer } from '../support/dns-server.ts'

let server: Awaited<ReturnType<typeof startDnsServer>>
const longRecord = `slipway-host=${'a'.repeat(600)}`
beforeAll(async () => {
  server = await startDnsServer({
    '_slipway.app.example.com': ['v=spf1 -all', longRecord],
    '_slipway.empty.example.com': 'empty',
    '_slipway.silent.example.com': 'silence',
    '_slipway.broken.example.com': 'garbage',
    '_slipway.refused.example.com': 'refused',
  })
})
afterAll(() => server.close())

const lookUp = (name: string) =>
  lookUpTxtRecords({ resolveTxt: createTxtResolver([server.address]) }, name).catch(error => error.code)

it('the strings of a TXT record are joined', async () => {
  expect((await lookUp('_slipway.app.example.com')).sort()).toEqual([longRecord, 'v=spf1 -all'])
})

it.each([
  ['missing', []],
  ['empty', []],
  ['refused', 'upstream_error'],
  ['broken', 'upstream_error'],
])('a lookup at a host whose answer is %s results in %j', async (host, outcome) => {
  expect(await lookUp(`_slipway.${host}.example.com`)).toEqual(outcome)
})

it('a lookup fails after five seconds if the server or the resolver does not answer', async () => {
  const start = performance.now()
  const unanswered = lookUpTxtRecords({ resolveTxt: () => new Promise<never>(() => {}) }, '_slipway.a.b').catch(
    ({ code }) => code,
  )
  const outcomes = await Promise.all([lookUp('_slipway.silent.example.com'), unanswered])
  expect(outcomes).toEqual(['upstream_timeout', 'upstream_timeout'])
  expect(performance.now() - start).toBeLessThan(9000)
})
