// `_headers` and `_redirects`: what is understood, what is refused by line, and which paths a rule matches.
import { describe, expect, it, test } from 'vitest'
import {
  fillTarget,
  headersFor,
  MAX_RULES_BYTES,
  matchPath,
  parseHeaders,
  parseRedirects,
} from '../../../src/agent/site/site-rules.ts'

const match = (pattern: string, path: string) => {
  const { rules } = parseRedirects(`${pattern} /elsewhere`)
  const values = matchPath(rules[0]!.from, path.split('/').slice(1))
  return values && Object.fromEntries(values)
}

describe('a path of a rule', () => {
  it.each([
    ['/', '/x', undefined],
    ['/a/b', '/a/b', {}],
    ['/a/b/', '/a/b', {}],
    ['/a%20b', '/a b', {}],
    ['/a/b', '/a/b/c', undefined],
    ['/a/:id', '/a/7', { id: '7' }],
    ['/a/:id', '/a/', undefined],
    ['/a/:id', '/a/7/8', undefined],
    ['/:year/:slug', '/2026/x', { year: '2026', slug: 'x' }],
    ['/blog/*', '/blog', { splat: '' }],
    ['/blog/*', '/blog/a/b', { splat: 'a/b' }],
    ['/blog/*', '/blogs', undefined],
    ['/*', '/', { splat: '' }],
    ['/*/old', '/a/b/old', { splat: 'a/b' }],
    ['/*/old', '/old', undefined],
    ['/img/*.png', '/img/a/b.png', { splat: 'a/b' }],
    ['/img/*.png', '/img/.pn', undefined],
    ['/a*a', '/a', undefined],
    ['/:x/*', '/a/b', { x: 'a', splat: 'b' }],
  ])('%s and %s', (pattern, path, values) => {
    expect(match(pattern, path)).toEqual(values)
  })
})

describe('_redirects', () => {
  it('has a status, forced or not, and comments', () => {
    const { rules, warnings } = parseRedirects(
      '# all\n/a /b\n/c /d#part 302 # why\r\n/e  https://x.example/:splat  307!\n/* /app.html 200\n/s /404.html 404!\n',
    )
    expect(warnings).toEqual([])
    expect(rules).toEqual([
      { from: ['a'], to: '/b', status: 301, forced: false },
      { from: ['c'], to: '/d#part', status: 302, forced: false },
      { from: ['e'], to: 'https://x.example/:splat', status: 307, forced: true },
      { from: ['*'], to: '/app.html', status: 200, forced: false },
      { from: ['s'], to: '/404.html', status: 404, forced: true },
    ])
  })

  it.each([
    ['a line without a target', '/a'],
    ['a path of another host', 'https://other.example/a /b'],
    ['a parameter', '/a id=:id /b/:id'],
    ['a query', '/a?x=1 /b'],
    ['a condition', '/a /b 302 Country=de'],
    ['an unknown status', '/a /b 418'],
    ['a rewrite to another site', '/a https://other.example/ 200'],
    ['a rewrite to another site without its scheme', '/a //other.example/ 200'],
    ['a target that a browser reads as a host', '/a /\\other.example/ 301'],
    ['another scheme', '/a javascript:alert(1)'],
    ['a password in an address', '/a https://me:secret@other.example/'],
    ['two splats', '/*/a/* /b'],
    ['a name that is none', '/:1 /b'],
    ['a path that leaves', '/../a /b'],
    ['a bad encoding', '/%ff /b'],
    ['a loop', '/a /a/'],
    ['a forced loop', '/* /a 302!'],
    ['a long line', `/${'a'.repeat(3000)} /b`],
  ])('names %s and leaves it out', (_, line) => {
    const { rules, warnings } = parseRedirects(`/first /1\n${line}\n/last /2`)
    expect(rules.map(rule => rule.to)).toEqual(['/1', '/2'])
    expect(warnings).toEqual([expect.stringContaining('Line 2 of `_redirects`')])
  })

  it('is bounded in rules and warnings', () => {
    const { rules, warnings } = parseRedirects('/a /b\n'.repeat(MAX_RULES_BYTES / 6))
    expect([rules.length, warnings.length]).toEqual([2_000, 21])
    expect(parseRedirects(`${'\n'.repeat(5_000)}/a /b`)).toEqual({
      rules: [],
      warnings: [expect.stringContaining('5000')],
    })
  })
})

test('a filled target stays on its host, whatever the path was', () => {
  const fill = (to: string, splat: string) => fillTarget(to, new Map([['splat', splat]]))
  expect(fill('/:splat', '/evil.example/x')).toBe('/evil.example/x')
  expect(fill('/:splat', '\\evil.example')).toBe('/%5Cevil.example')
  expect(fill('/n/:splat', 'a b/ü\r\nSet-Cookie: x')).toBe('/n/a%20b/%C3%BC%0D%0ASet-Cookie%3A%20x')
  expect(fill('https://x.example:8080/:splat/:other', '@evil.example')).toBe(
    'https://x.example:8080/%40evil.example/:other',
  )
})

describe('_headers', () => {
  it('has headers below a path, joins those of one name, and removes others', () => {
    const { rules, warnings } = parseHeaders(
      '/*\n  X-Frame-Options: DENY\n  Cache-Control: no-store\n/a/:id\n\tX-Frame-Options:  ALLOW\n  ! Cache-Control\n',
    )
    expect(warnings).toEqual([])
    const found = headersFor(rules, ['a', '7'])
    expect(Object.fromEntries([...found].map(([name, { values }]) => [name, values]))).toEqual({
      'x-frame-options': ['DENY', 'ALLOW'],
      'cache-control': [],
    })
    expect([...headersFor(rules, ['b']).keys()]).toEqual(['x-frame-options', 'cache-control'])
  })

  it.each([
    'Content-Length: 7',
    'transfer-encoding: chunked',
    'Connection: close',
    'Keep-Alive: timeout=5',
    'Content-Encoding: br',
    'Content-Range: bytes 0-1/2',
    'ETag: "x"',
    'Location: https://other.example/',
    'Upgrade: h2c',
    'Trailer: x',
    'Basic-Auth: me:secret',
    'Bad Name: x',
    'X-Value: a\u0000b',
    'X-Value: a\u2028b',
    'no colon',
    ': empty',
  ])('does not set `%s`', line => {
    const { rules, warnings } = parseHeaders(`/*\n  ${line}\n  X-Good: yes`)
    expect(rules[0]!.headers).toEqual([['X-Good', 'yes']])
    expect(warnings).toHaveLength(1)
  })

  it('leaves out the headers of a path that is not understood', () => {
    const { rules, warnings } = parseHeaders('  X-A: 1\nhttps://other.example/*\n  X-B: 1\n/c\n  Set-Cookie: c=1')
    expect(rules).toEqual([{ path: ['c'], headers: [['Set-Cookie', 'c=1']] }])
    expect(warnings).toHaveLength(3)
  })
})
