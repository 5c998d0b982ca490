import ipaddr from 'ipaddr.js'
import { describe, expect, it } from 'vitest'
import { Failure } from '../../src/kernel/http/errors.ts'
import { requireAllowedUrl } from '../../src/kernel/http/guarded-fetch.ts'
import {
  embedInIpv6,
  PUBLIC_ADDRESSES,
  REFUSED_HOSTNAMES,
  RESERVED_IPV4,
  RESERVED_IPV6,
  spellIpv4,
} from '../support/address-cases.ts'
import * as fc from '../support/seeded-fast-check.ts'

const ORIGIN = 'https://slipway.example.com'
const checkUrl = (text: string, policy = {}, origin = ORIGIN): string => {
  try {
    return requireAllowedUrl({ publicUrl: undefined, allowLoopback: false, ...policy }, origin, text).href
  } catch (error) {
    if (error instanceof Failure) return error.code
    throw error
  }
}
const addBrackets = (v6: string) => `[${v6}]`
const literals = [...RESERVED_IPV4, ...PUBLIC_ADDRESSES.filter(one => !one.includes(':'))]
const hosts = [
  ...literals.flatMap(spellIpv4),
  ...RESERVED_IPV4.flatMap(embedInIpv6).map(addBrackets),
  ...[...RESERVED_IPV6, ...PUBLIC_ADDRESSES.filter(one => one.includes(':'))].map(addBrackets),
  '[fe80::1%25eth0]',
  '[::1]',
  '[0:0:0:0:0:0:0:1]',
  '[0000::0001]',
  '0',
  '0x0',
  '127.1',
  '0x7f.1',
  '017700000001',
  ...REFUSED_HOSTNAMES,
]

describe('the URL of a public host', () => {
  it.each([
    ['https://mcp.example.com', 'https://mcp.example.com/'],
    ['https://MCP.Example.COM/Path?a=b', 'https://mcp.example.com/Path?a=b'],
    ['https://mcp.example.com./mcp', 'https://mcp.example.com/mcp'],
    ['https://mcp.example.com/mcp#part', 'https://mcp.example.com/mcp'],
    ['https://mcp.example.com:443/', 'https://mcp.example.com/'],
    ['https://mcp.example.com:8443/', 'https://mcp.example.com:8443/'],
    ['https://bücher.example.com/', 'https://xn--bcher-kva.example.com/'],
    ['https://under_score.example.com/', 'https://under_score.example.com/'],
    ['https://10.example.com/', 'https://10.example.com/'],
    ['https://localhost.example.com/', 'https://localhost.example.com/'],
    ['https://0x7f.example.com/', 'https://0x7f.example.com/'],
    ['https://slipway.example.com.evil.example/', 'https://slipway.example.com.evil.example/'],
  ])('%s is allowed', (text, href) => expect(checkUrl(text)).toBe(href))
})

it('with private addresses allowed, a URL may be of a local network, and not of this machine', () => {
  const check = (text: string) => checkUrl(text, { allowPrivate: true })
  for (const text of ['http://vllm:8000/v1', 'http://10.0.0.1:8000/', 'https://models.corp/', 'https://[fd12::1]/'])
    expect(check(text)).toBe(text)
  for (const text of ['http://localhost:8000/', 'http://127.0.0.1:8000/', 'http://a.localhost/', `${ORIGIN}/`])
    expect(check(text), text).toBe('blocked_url')
})

describe('a URL is blocked', () => {
  it.each([...new Set(hosts)])('with the host %s', host => {
    for (const text of [`https://${host}/`, `https://${host}:8443/mcp?a=b#c`, `http://${host}/`])
      expect(checkUrl(text), text).toBe('blocked_url')
  })

  it.each([
    'http://mcp.example.com',
    'ftp://mcp.example.com',
    'file:///etc/passwd',
    'data:text/plain,x',
    'javascript:1',
    'blob:https://mcp.example.com/x',
    'ws://mcp.example.com',
    'wss://mcp.example.com',
    'gopher://mcp.example.com',
    'about:blank',
    'mailto:a@example.com',
    'https:',
    'https://',
    'https:///',
    '',
    ' ',
    'mcp.example.com',
    '/mcp',
    '//mcp.example.com',
    'https://a@mcp.example.com',
    'https://a:b@mcp.example.com',
    'https://:b@mcp.example.com',
    'https://mcp.example.com@127.0.0.1',
    'https://127.0.0.1#@mcp.example.com',
    'https://127.0.0.1\\@mcp.example.com',
    'https:\\\\mcp.example.com',
    'https://mcp.exa\nmple.com',
    'https://mcp.example.com\t',
    ' https://mcp.example.com',
    ...['https://mcp.example.com\u0000.evil.example', 'https://mcp.example.com/\u00a0', 'https://mcp.example.com:0'],
    ...[
      'https://mcp.example.com:22',
      'https://mcp.example.com:25',
      'https://mcp.example.com:80',
      'https://mcp.example.com:99999',
    ],
    ...[
      `${ORIGIN}/mcp`,
      `${ORIGIN}:8443/`,
      'https://SLIPWAY.example.com./',
      `https://mcp.example.com/${'a'.repeat(2048)}`,
    ],
  ])('if it is %j', text => expect(checkUrl(text)).toBe('blocked_url'))

  it('if it is the public URL of this installation', () => {
    const policy = { publicUrl: 'https://public.example.com' }
    expect(checkUrl('https://public.example.com/', policy)).toBe('blocked_url')
    expect(checkUrl(`${ORIGIN}/`, policy)).toBe('blocked_url')
    expect(checkUrl('https://mcp.example.com/', policy, '')).toBe('https://mcp.example.com/')
  })
})

describe('at its limits', () => {
  const LABEL = 'a'.repeat(63)
  const hostOf = (length: number) => `${LABEL}.${LABEL}.${LABEL}.${'b'.repeat(length - 192)}`
  const pad = (length: number) => 'https://mcp.example.com/'.padEnd(length, 'a')
  it.each<[string, object, string, boolean]>([
    ['has 2048 characters', {}, pad(2048), true],
    ['has 2049 characters', {}, pad(2049), false],
    ['has a host of 253 characters', {}, `https://${hostOf(253)}/`, true],
    ['has a host of 254 characters', {}, `https://${hostOf(254)}/`, false],
    ['has a private host of 253 characters', { allowPrivate: true }, `http://${hostOf(253)}/`, true],
    ['has a private host of 254 characters', { allowPrivate: true }, `http://${hostOf(254)}/`, false],
    ['has port 1024', {}, 'https://mcp.example.com:1024/', true],
    ['has port 1023', {}, 'https://mcp.example.com:1023/', false],
    ['is of a word in a local network', { allowPrivate: true }, 'http://a-b:8000/', true],
    ['is of a word that ends in a hyphen', { allowPrivate: true }, 'http://word-:8000/', false],
    ['is of a word that starts with a hyphen', { allowPrivate: true }, 'http://-word:8000/', false],
    ['is of a private name that is not valid', { allowPrivate: true }, 'http://a.-b.corp:8000/', false],
    ['starts like this machine', { allowPrivate: true }, 'http://localhost.example.com:8000/', true],
    ['starts like loopback', { allowLoopback: true }, 'http://localhost.example.com:8000/', false],
    ['is of loopback with long numbers', { allowLoopback: true }, 'http://127.0.10.100:8000/', true],
    ['beside a public URL that is none', { publicUrl: 'slipway' }, 'https://mcp.example.com/', true],
  ])('a URL that %s', (_, policy, text, isAllowed) => {
    expect(checkUrl(text, policy)).toBe(isAllowed ? text : 'blocked_url')
  })

  it('a private URL loses the dot after its host', () => {
    expect(checkUrl('http://models.corp./v1', { allowPrivate: true })).toBe('http://models.corp/v1')
  })

  it.each([
    ['http://localhost', 'http://127.0.0.1/', 'https://127.0.0.1/'],
    ['https://localhost', 'https://127.0.0.1/', 'http://127.0.0.1/'],
    ['http://localhost:8787', 'http://127.0.0.1:8787/', 'http://127.0.0.1/'],
  ])('an installation at %s is %s, and not %s', (own, same, other) => {
    for (const [publicUrl, origin] of [[undefined, own] as const, [own, ORIGIN] as const]) {
      expect(checkUrl(same, { allowLoopback: true, publicUrl }, origin)).toBe('blocked_url')
      expect(checkUrl(other, { allowLoopback: true, publicUrl }, origin)).toBe(other)
    }
  })
})

describe('with ALLOW_LOOPBACK', () => {
  const checkWithLoopback = (text: string) => checkUrl(text, { allowLoopback: true }, 'http://127.0.0.1:8787')

  it.each([
    'http://127.0.0.1:3001/mcp',
    'http://127.1.2.3:3001/',
    'http://[::1]:3001/',
    'http://localhost:3001/',
    'http://localhost/',
  ])('%s is allowed', text => expect(checkWithLoopback(text)).toBe(text))

  it('URLs of other hosts are blocked by the same rules', () => {
    for (const host of new Set(hosts)) {
      const text = `http://${host}:3001/`
      const hostname = URL.canParse(text) ? new URL(text).hostname.replace(/\.$/, '') : ''
      if (/^(127\..*|localhost|\[::1\])$/.test(hostname)) continue
      expect(checkWithLoopback(text), text).toBe('blocked_url')
      expect(checkWithLoopback(`https://${host}/`), text).toBe('blocked_url')
    }
    for (const text of [
      'http://mcp.example.com/',
      'http://a@127.0.0.1:3001/',
      'ftp://127.0.0.1/',
      'http://127.0.0.1:22/',
    ])
      expect(checkWithLoopback(text), text).toBe('blocked_url')
  })

  it('URLs of this installation are blocked under every loopback name', () => {
    for (const host of ['127.0.0.1', 'localhost', '[::1]', '127.9.9.9'])
      expect(checkWithLoopback(`http://${host}:8787/v2/deployments`)).toBe('blocked_url')
  })
})

it('every allowed URL uses https and has a public host name', () => {
  const number = fc.nat({ max: 0xffffffff })
  const quad = fc.tuple(number).map(([one]) => [24, 16, 8, 0].map(bits => (one >>> bits) & 255).join('.'))
  const host = fc.oneof(
    quad.chain(one => fc.constantFrom(...spellIpv4(one))),
    quad.chain(one => fc.constantFrom(...embedInIpv6(one).map(addBrackets))),
    fc.ipV6().map(addBrackets),
    fc.ipV4Extended(),
    fc.constantFrom(...REFUSED_HOSTNAMES),
    fc.domain(),
    fc.string({ unit: 'grapheme', maxLength: 20 }),
  )
  const scheme = fc.constantFrom('https://', 'http://', 'HTTPS:', 'https:/', 'ftp://')
  const rest = fc.oneof(fc.webPath(), fc.string({ maxLength: 20 }))
  const address = fc.oneof(
    fc.tuple(scheme, host, rest).map(parts => parts.join('')),
    fc.webUrl({ withQueryParameters: true }),
    fc.string(),
  )
  fc.assert(
    fc.property(address, text => {
      const href = checkUrl(text)
      if (href === 'blocked_url') return
      const { protocol, hostname, username, password, hash } = new URL(href)
      expect({ protocol, username, password, hash }).toEqual({
        protocol: 'https:',
        username: '',
        password: '',
        hash: '',
      })
      expect(hostname).toMatch(/^[a-z0-9_-]+(\.[a-z0-9_-]+)+$/)
      const bare = hostname.replace(/^\[|\]$/g, '')
      if (ipaddr.isValid(bare)) expect(ipaddr.process(bare).range()).toBe('unicast')
      expect(ipaddr.isValid(bare)).toBe(false)
    }),
    { numRuns: 5000 },
  )
})
