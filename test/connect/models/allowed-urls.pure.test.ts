// The rules for URLs of model calls, against 10,000 spellings. The oracle splits a URL by hand, as RFC 3986 says, and
// reads its path as lenient servers do. It shares no code with the rules, and never uses `URL`.
import { describe, expect, it } from 'vitest'
import {
  type AllowedUrls,
  isAllowedUrl,
  joinUrl,
  parseBaseUrl,
  parsePattern,
} from '../../../src/connect/models/allowed-urls.ts'
import * as fc from '../../support/seeded-fast-check.ts'

const SPELLINGS = 10_000

type Address = { scheme: string; host: string; port: string; path: string }

function splitUrl(text: string): Address {
  const [, scheme, authority, path] = /^([a-z]+):\/\/([^/?#]*)([^?#]*)/.exec(text)!
  const [, host, port] = /^(?:[^@]*@)?(\[[^\]]*\]|[^:]*)(?::(\d*))?$/.exec(authority!)!
  return { scheme: scheme!, host: host!, port: port || (scheme === 'https' ? '443' : '80'), path: path || '/' }
}

/** Bytes that are no UTF-8 become the character that a lenient decoder reads, also from overlong forms. */
const decodeLeniently = (text: string): string =>
  text
    .replace(/%c0%ae|%e0%80%ae|%f0%80%80%ae|%u002e|%ef%bc%8e/gi, '.')
    .replace(/%c0%af|%e0%80%af|%u002f|%ef%bc%8f/gi, '/')
    .replace(/%c1%9c|%u005c|%ef%bc%bc/gi, '\\')
    .replace(/%([0-7][0-9a-f])/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))

function resolveDots(path: string): string {
  const kept: string[] = []
  for (const segment of path.split(/[/\\]+/)) {
    const name = segment.replace(/;.*$/s, '').trim()
    if (name === '..') kept.pop()
    else if (name !== '.' && name !== '') kept.push(segment)
  }
  return `/${kept.join('/')}`
}

/** The paths that servers could read, by how often they decode. They end a path at a null byte, `?` or `#`. */
function readingsOf(path: string): string[] {
  const readings: string[] = []
  for (let text = path, i = 0; i < 4; i++, text = decodeLeniently(text))
    readings.push(resolveDots(text.replace(/[\0?#].*$/s, '')), resolveDots(text))
  return readings
}

const isBelow = (path: string, base: string) => base === '/' || path === base || path.startsWith(`${base}/`)

// ---- spellings

const letters = fc.constantFrom(
  'a',
  'v1',
  'chat',
  'completions',
  'deployments',
  'gpt-4.1',
  'admin',
  '~x',
  '%41',
  '50%25',
)
const tricks = fc.constantFrom(
  '.',
  '..',
  '%2e%2e',
  '.%2e',
  '%2E.',
  '%252e%252e',
  '%25252e%25252e',
  '..;',
  '..;x=1',
  '%2e%2e%3b',
  '．．',
  '%ef%bc%8e%ef%bc%8e',
  '%c0%ae%c0%ae',
  '%u002e%u002e',
  '..%2f..%2fadmin',
  '%2f',
  '%5c',
  '%252f',
  'a%2f..%2f..',
  '\\..\\admin',
  '..\\',
  '／',
  '%ef%bc%8f',
  '',
  '@evil.example',
  ':@evil.example',
  'https:',
  'evil.example',
  '%00',
  'a%00',
  '..%3fx',
  '..%253f',
  '%2e.%23',
  '..%20',
  '%0d%0aHost:evil.example',
  '\t',
  '\n',
  ' ',
  '%09..',
  '?',
  '?x=/../../admin',
  '#',
  '#/../admin',
  '%3f',
  '%23',
  ';',
  ';/../',
  '*',
  '|',
  '..%00',
  '.%00.',
  '\u200b..',
  '\u2024\u2024',
  '…',
  '‥',
)
const rests = fc
  .tuple(
    fc.constantFrom('', '', '/', '/', '//', '\\', './'),
    fc.array(fc.oneof(letters, letters, letters, tricks), { maxLength: 6 }),
    fc.constantFrom('/', '/', '/', '//', '\\', '%2f'),
  )
  .map(([first, parts, separator]) => first + parts.join(separator))

const hosts = fc.constantFrom(
  'api.example.com',
  'api.example.com',
  'api.example.com',
  'API.Example.COM',
  'api.example.com.',
  'api.example.com:443',
  'api.example.com:8443',
  'api.example.com:',
  'ａｐｉ.example.com',
  'api。example.com',
  'api．example．com',
  'api%2eexample.com',
  '%61pi.example.com',
  'аpi.example.com',
  'xn--pi-6kc.example.com',
  'api.example.com@evil.example',
  'user:pass@api.example.com',
  'evil.example#@api.example.com',
  'evil.example\\@api.example.com',
  'evil.example?@api.example.com',
  'api.example.com.evil.example',
  'evilapi.example.com',
  'deep.api.example.com',
  'example.com',
  'evil.example',
  'api.example.com%00.evil.example',
  'team.models.example',
  'a.team.models.example',
  'models.example',
  '127.0.0.1',
  '0x7f.1',
  '2130706433',
  '0177.0.0.1',
  '[::1]',
  '[::ffff:7f00:1]',
  '[0:0:0:0:0:0:0:1]',
  'ap\u00adi.example.com',
  'api.exam\nple.com',
  'api.example.com\t',
  ' api.example.com',
  'api..example.com',
  'ⓐpi.example.com',
  'api.example.ｃｏｍ',
)
const schemes = fc.constantFrom(
  'https://',
  'https://',
  'https://',
  'HTTPS://',
  'http://',
  'https:',
  'https:/',
  'https:///',
  'https:\\\\',
  ' https://',
  'ht\ntps://',
  'ftp://',
  '//',
)
const basePaths = fc.oneof(
  fc.constantFrom('', '/', '/v1', '/v1/', '/openai/deployments/a'),
  rests.map(rest => `/${rest}`),
)
const plainBases = fc.constantFrom(
  'https://api.example.com/v1',
  'https://api.example.com:8443',
  'https://a.models.example/v1',
  'http://127.0.0.1',
)
const bases = fc.oneof(
  plainBases,
  fc.tuple(schemes, hosts, basePaths).map(parts => parts.join('')),
)

const PATTERNS: Record<string, (address: Address, path: string) => boolean> = {
  'https://api.example.com/v1/*': (at, path) => isAt(at, 'https', 'api.example.com', '443') && path.startsWith('/v1/'),
  'https://api.example.com:8443/*': at => isAt(at, 'https', 'api.example.com', '8443'),
  'https://*.models.example/v1/chat/completions': (at, path) =>
    at.scheme === 'https' &&
    at.port === '443' &&
    /^[^.]+\.models\.example$/.test(at.host) &&
    path === '/v1/chat/completions',
  'http://127.0.0.1/*': at => isAt(at, 'http', '127.0.0.1', '80'),
}
const isAt = (at: Address, scheme: string, host: string, port: string) =>
  at.scheme === scheme && at.host === host && at.port === port

describe('a URL that a call may address', () => {
  it('stays below its base and within the patterns, however it is spelled and however a server reads it', () => {
    const allowed: AllowedUrls = { mode: 'list', patterns: Object.keys(PATTERNS) }
    const outcomes = { refused: 0, joined: 0, allowed: 0 }
    fc.assert(
      fc.property(bases, rests, (base, rest) => {
        const url = joinUrl(base, rest)
        if (!url) {
          outcomes.refused++
          return
        }
        outcomes.joined++
        const at = splitUrl(url.href)
        const below = splitUrl(parseBaseUrl(base)!.href)
        expect([at.scheme, at.host, at.port]).toEqual([below.scheme, below.host, below.port])
        const bottoms = readingsOf(below.path)
        for (const [i, path] of readingsOf(at.path).entries())
          expect(isBelow(path, bottoms[i]!), `${base} + ${rest} as ${path}`).toBe(true)
        expect(at.host).toMatch(/^[a-z0-9.-]+[a-z0-9]$|^\[[0-9a-f:]+\]$/)
        expect(url.href).not.toMatch(/^[^/]+\/\/[^/]*@|[#\\\s]/)
        if (!isAllowedUrl(url, allowed)) return
        outcomes.allowed++
        const matching = Object.values(PATTERNS).filter(matches =>
          readingsOf(at.path).every(path => matches(at, path) || matches(at, `${path}/`)),
        )
        expect(matching.length, url.href).toBeGreaterThan(0)
      }),
      { numRuns: SPELLINGS },
    )
    // The rules neither refuse everything nor let everything pass.
    expect(outcomes.refused).toBeGreaterThan(SPELLINGS / 2)
    expect(outcomes.joined).toBeGreaterThan(SPELLINGS / 10)
    expect(outcomes.allowed).toBeGreaterThan(SPELLINGS / 20)
  })

  it.each([
    ['https://api.openai.com/v1', 'chat/completions', 'https://api.openai.com/v1/chat/completions'],
    [
      'https://api.openai.com/v1/',
      '/models/gpt-4.1?limit=1&after=a/../b',
      'https://api.openai.com/v1/models/gpt-4.1?limit=1&after=a/../b',
    ],
    ['https://API.Anthropic.com', 'v1/messages?beta=true', 'https://api.anthropic.com/v1/messages?beta=true'],
    [
      'https://x.openai.azure.com/openai',
      'deployments/a-b_c/chat/completions?api-version=2024-10-21',
      'https://x.openai.azure.com/openai/deployments/a-b_c/chat/completions?api-version=2024-10-21',
    ],
    ['http://vllm.models.svc:8000/v1', 'embeddings', 'http://vllm.models.svc:8000/v1/embeddings'],
    ['https://h.example:443/v1', 'files/a%20b%25/content/', 'https://h.example/v1/files/a%20b%25/content/'],
    ['https://bücher.example/v1', 'models/größe', 'https://xn--bcher-kva.example/v1/models/gr%C3%B6%C3%9Fe'],
    ['https://[2001:db8::1]:8000', 'v1/chat', 'https://[2001:db8::1]:8000/v1/chat'],
    ['https://h.example/v1', '', 'https://h.example/v1'],
    ['https://h.example/ai', 'run/@cf/meta/llama', 'https://h.example/ai/run/@cf/meta/llama'],
    [
      'https://h.example/v1',
      'models/gemini-2.0:generateContent',
      'https://h.example/v1/models/gemini-2.0:generateContent',
    ],
  ])('%s with %s is ordinary', (base, rest, href) => expect(joinUrl(base, rest)?.href).toBe(href))

  it.each([
    'a',
    'https://',
    'https://h.example?x=1',
    'https://h.example/v1?x',
    'https://u@h.example',
    'https://h.example./v1',
    'mailto:a@h.example',
  ])('does not begin with %s', base => expect(parseBaseUrl(base)).toBeNull())
})

describe('a pattern', () => {
  it.each([
    '',
    '*',
    'https://*',
    'https://*/*',
    'https://*.com/*',
    'https://api.*/v1/*',
    'https://a*.example.com/*',
    'https://h.example',
    'https://h.example/*/x',
    'https://h.example/a/../*',
    'https://*.0.0.1/*',
    'h.example/*',
    'https://h.example/?q=*',
    'https://*.*.example.com/*',
  ])('is not %j', text => expect(parsePattern(text)).toBeNull())

  it.each([
    ['https://h.example/*', 'https://h.example/v1', true],
    ['https://h.example/v2/*', 'https://h.example/v1', false],
    ['https://h.example/v1*', 'https://h.example/v1beta', true],
    ['https://h.example/v1', 'https://h.example/v1/chat', false],
    ['https://*.h.example/*', 'https://h.example/', false],
    ['https://*.h.example/*', 'https://a.b.h.example/', false],
    ['https://*.h.example:8443/*', 'https://a.h.example:8443/', true],
    ['http://h.example/*', 'https://h.example/', false],
  ])('%s and %s: %s', (pattern, url, isOpen) =>
    expect(isAllowedUrl(new URL(url), { mode: 'list', patterns: [pattern] })).toBe(isOpen),
  )

  it.each([
    ['all', true],
    ['configurations', true],
    ['none', false],
    ['list', false],
  ] as const)('does not matter for %s', (mode, isOpen) => {
    const url = joinUrl('https://h.example/v1', 'x')!
    expect(isAllowedUrl(url, { mode, patterns: [] })).toBe(isOpen)
  })
})
