// The answer of a site to each kind of path and header, without any file.
import { describe, expect, it, test } from 'vitest'
import { answerSite, type SiteRequest } from '../../../src/agent/site/site-answer.ts'
import type { OpenSite, SiteFile } from '../../../src/agent/site/site-manifest.ts'
import { isImmutable } from '../../../src/agent/site/site-paths.ts'
import { parseHeaders, parseRedirects } from '../../../src/agent/site/site-rules.ts'

const BUILT = Date.UTC(2026, 10, 29, 12)
const file = (content: string, more: Partial<SiteFile> = {}): SiteFile => ({
  content,
  size: 1000,
  type: 'text/html; charset=utf-8',
  encoded: {},
  ...more,
})
const FILES: Record<string, SiteFile> = {
  '/index.html': file('home', { encoded: { br: 100, gzip: 200 } }),
  '/about.html': file('about'),
  '/docs/index.html': file('docs'),
  '/docs/a b.html': file('space'),
  '/empty.txt': file('empty', { size: 0 }),
  '/assets/app-BpS2m4Xn.js': file('script', { type: 'text/javascript; charset=utf-8' }),
}
function siteOf({ fallback = null as string | null, redirects = '', headers = '', files = {} } = {}): OpenSite {
  const rules = { redirects: parseRedirects(redirects), headers: parseHeaders(headers) }
  expect([rules.redirects.warnings, rules.headers.warnings]).toEqual([[], []])
  return {
    folder: '/nowhere',
    built_at: BUILT,
    fallback,
    files: new Map(Object.entries({ ...FILES, ...files })),
    redirects: rules.redirects.rules,
    headers: rules.headers.rules,
  }
}
const ask = (site: OpenSite, url: string, headers: SiteRequest['headers'] = {}, method = 'GET') =>
  answerSite(site, { method, url, headers })
const outcome = (site: OpenSite, url: string) => {
  const { status, headers, body } = ask(site, url)
  return [status, body?.content ?? headers.Location]
}

describe('a path', () => {
  it.each([
    ['/', 200, 'home'],
    ['/?x=/../', 200, 'home'],
    ['/index.html', 200, 'home'],
    ['/about', 200, 'about'],
    ['/about.html', 200, 'about'],
    ['/about/?x=1', 308, '/about?x=1'],
    ['/docs?x=1', 308, '/docs/?x=1'],
    ['/docs/', 200, 'docs'],
    ['/docs/a%20b', 200, 'space'],
    ['/docs/a%20b/', 308, '/docs/a%20b'],
    ['/%61bout', 200, 'about'],
    ['/empty.txt', 200, 'empty'],
    ['/about.html/', 404, undefined],
    ['/docs%2Findex.html', 404, undefined],
    ['//about', 404, undefined],
    ['/About', 404, undefined],
    ['/__proto__', 404, undefined],
    ['/constructor', 404, undefined],
    ['/..', 400, undefined],
    ['/docs/../about', 400, undefined],
    ['/%2e%2e/about', 400, undefined],
    ['/docs/%2E', 400, undefined],
    ['/a%00.html', 400, undefined],
    ['/%ff', 400, undefined],
    ['/%', 400, undefined],
    ['/..%5c..%5cetc', 404, undefined],
    ['/..%2f..%2fetc%2fpasswd', 404, undefined],
    ['/\\..\\etc', 404, undefined],
  ])('%s answers %i', (url, status, content) => {
    expect(outcome(siteOf(), url)).toEqual([status, content])
  })

  it('without a file gets the fallback, unless it asks for a file', () => {
    const site = siteOf({ fallback: 'index.html' })
    for (const url of ['/users/7', '/users/7/', '/a%2Fb', '//x', '/v1.2'])
      expect(outcome(site, url)).toEqual([200, 'home'])
    for (const url of ['/missing.js', '/a/b.JSON?x']) expect(outcome(site, url)).toEqual([404, undefined])
  })

  it('without a file gets the page of the site with the status 404, and no ETag', () => {
    const files = { '/404.html': file('lost', { encoded: { gzip: 9 } }) }
    for (const fallback of ['404.html', null]) {
      const answer = ask(siteOf({ fallback, files }), '/x', { 'accept-encoding': 'gzip', range: 'bytes=0-1' })
      expect([answer.status, answer.body?.content, answer.headers.ETag]).toEqual([404, 'lost', undefined])
      expect(answer.headers['Content-Encoding']).toBe('gzip')
    }
    expect(outcome(siteOf({ fallback: 'index.html', files }), '/x.js')).toEqual([404, 'lost'])
  })

  it('is answered to GET and HEAD only', () => {
    for (const method of ['POST', 'PUT', 'DELETE', 'TRACE', 'PATCH']) {
      const { status, headers } = ask(siteOf({ fallback: 'index.html' }), '/', {}, method)
      expect([status, headers.Allow]).toEqual([405, 'GET, HEAD, OPTIONS'])
    }
    const cors = siteOf({ headers: '/*\n  Access-Control-Allow-Origin: *' })
    const { status, headers } = ask(cors, '/', {}, 'OPTIONS')
    expect([status, headers['Access-Control-Allow-Origin']]).toEqual([204, '*'])
  })
})

describe('a rule', () => {
  it('comes after a file, unless it is forced', () => {
    const site = siteOf({ redirects: '/about /x 302\n/docs/* /y/:splat 302!\n/gone /about 200\n/no /about 404' })
    expect(outcome(site, '/about')).toEqual([200, 'about'])
    expect(outcome(site, '/docs/')).toEqual([302, '/y/'])
    expect(outcome(site, '/docs/a%20b?q=1')).toEqual([302, '/y/a%20b?q=1'])
    expect(outcome(site, '/gone')).toEqual([200, 'about'])
    expect(outcome(site, '/no')).toEqual([404, 'about'])
  })

  it('rewrites within the list of files only', () => {
    const site = siteOf({ redirects: '/f/* /:splat 200\n/p/:x /docs 200' })
    expect(outcome(site, '/f/about')).toEqual([200, 'about'])
    expect(outcome(site, '/p/1')).toEqual([200, 'docs'])
    for (const url of ['/f/etc/passwd', '/f//etc/passwd', '/f/..%2f..%2fetc%2fpasswd', '/f/%5c..%5cetc'])
      expect(outcome(site, url)).toEqual([404, undefined])
  })

  it('does not send a visitor to another host by their own path', () => {
    const site = siteOf({ redirects: '/go/* /:splat 302' })
    expect(outcome(site, '/go//evil.example')).toEqual([302, '/evil.example'])
    expect(outcome(site, '/go/%2F%2Fevil.example')).toEqual([302, '/evil.example'])
    expect(outcome(site, '/go/%5Cevil.example')).toEqual([302, '/%5Cevil.example'])
  })

  it('keeps the query of the request, unless the target has one', () => {
    const site = siteOf({ redirects: '/a /b#c\n/d /e?x=1' })
    expect(outcome(site, '/a?q=1')).toEqual([301, '/b?q=1#c'])
    expect(outcome(site, '/d?q=1')).toEqual([301, '/e?x=1'])
  })

  it('sets headers of files, also over those of the router, and adds to Vary', () => {
    const rules =
      '/*\n  vary: Origin\n  Set-Cookie: a=1\n  Set-Cookie: b=2\n  content-type: text/plain\n  ! X-Content-Type-Options'
    const { headers } = ask(siteOf({ headers: rules }), '/')
    expect(headers).toMatchObject({ Vary: 'Accept-Encoding, Origin', 'Set-Cookie': ['a=1', 'b=2'] })
    expect(headers['Content-Type']).toBe('text/plain')
    expect(Object.keys(headers).map(name => name.toLowerCase())).not.toContain('x-content-type-options')
    expect(ask(siteOf({ headers: '/x\n  X-A: 1' }), '/x').headers['X-A']).toBe('1')
  })
})

test.each([
  ['gzip, br', 'br'],
  ['gzip', 'gzip'],
  ['GZIP;Q=0.5', 'gzip'],
  ['br;q=0.1, gzip;q=0.9', 'gzip'],
  ['br;q=0, gzip;q=0', undefined],
  ['br;q=0, *', 'gzip'],
  ['*;q=0', undefined],
  ['identity, br;q=0.5', undefined],
  ['identity;q=0.5, br', 'br'],
  ['deflate', undefined],
  ['br;q=x', undefined],
  ['', undefined],
  [undefined, undefined],
])('Accept-Encoding: %s chooses %s', (accepted, encoding) => {
  const { headers, body } = ask(siteOf(), '/', { 'accept-encoding': accepted })
  expect([headers['Content-Encoding'], body!.encoding]).toEqual([encoding, encoding])
  const size = encoding === 'br' ? '100' : encoding === 'gzip' ? '200' : '1000'
  expect([headers.Vary, headers['Content-Length']]).toEqual(['Accept-Encoding', size])
})

test('an ETag names the content and its form, and a client that has it gets 304', () => {
  const site = siteOf()
  const encoded = { 'accept-encoding': 'br' }
  expect(ask(site, '/').headers.ETag).toBe('"home"')
  expect(ask(site, '/', encoded).headers.ETag).toBe('"home-br"')
  for (const tag of ['"home-br"', 'W/"home-br"', '"x", "home-br"', '*']) {
    const answer = ask(site, '/', { ...encoded, 'if-none-match': tag })
    expect([answer.status, answer.body, answer.headers.ETag]).toEqual([304, null, '"home-br"'])
    expect(answer.headers.Vary).toBe('Accept-Encoding')
  }
  expect(ask(site, '/', { 'if-none-match': '"home-br"' }).status).toBe(200)
  const time = new Date(BUILT).toUTCString()
  expect(ask(site, '/', { 'if-modified-since': time }).status).toBe(304)
  expect(ask(site, '/', { 'if-modified-since': new Date(BUILT + 60_000).toUTCString() }).status).toBe(200)
  expect(ask(site, '/', { 'if-modified-since': time, 'if-none-match': '"x"' }).status).toBe(200)
})

test.each([
  ['bytes=0-9', 206, 0, 9],
  ['bytes=990-', 206, 990, 999],
  ['bytes=990-5000', 206, 990, 999],
  ['bytes=-10', 206, 990, 999],
  ['bytes=-5000', 206, 0, 999],
  ['bytes=1000-', 416],
  ['bytes=-0', 416],
  ['bytes=5-1', 200, 0, 999],
  ['bytes=0-1,5-6', 200, 0, 999],
  ['bytes=-', 200, 0, 999],
  ['bytes=a-b', 200, 0, 999],
  ['bytes=99999999999999999999-', 200, 0, 999],
  ['pages=1-2', 200, 0, 999],
])('Range: %s answers %i', (range, status, start?: number, end?: number) => {
  const { headers, body, ...answer } = ask(siteOf(), '/', { range, 'accept-encoding': 'br' })
  expect([answer.status, body?.start, body?.end, body?.encoding]).toEqual([status, start, end, undefined])
  if (status === 206) expect(headers['Content-Range']).toBe(`bytes ${start}-${end}/1000`)
  if (status === 416) expect(headers['Content-Range']).toBe('bytes */1000')
})

test('a range of a file that has changed is the whole file, and a HEAD has no range', () => {
  const status = (condition: string | undefined, method = 'GET') =>
    ask(siteOf(), '/', { range: 'bytes=0-1', 'if-range': condition }, method).status
  expect(['"home"', new Date(BUILT).toUTCString()].map(one => status(one))).toEqual([206, 206])
  expect(['"home-br"', 'W/"home"', '"x"', new Date(0).toUTCString()].map(one => status(one))).toEqual(
    Array(4).fill(200),
  )
  expect(status(undefined, 'HEAD')).toBe(200)
  expect(ask(siteOf(), '/empty.txt', { range: 'bytes=0-' }).status).toBe(416)
  expect(ask(siteOf(), '/empty.txt').headers['Content-Length']).toBe('0')
})

test('only a file with a hash in its name stays in caches', () => {
  for (const path of [
    '/assets/index-BpS2m4Xn.js',
    '/assets/index.3f2a1b4c.css',
    '/static/js/main.3f2a1b4c.chunk.js',
    '/_next/static/chunks/main-app-0f3c2d1e4b5a6978.js',
    '/_next/static/Zx3kLmPqRsTuVw/_buildManifest.js',
    '/_astro/page.B_S-m4xn.css',
    '/_nuxt/entry.CabcdEfg.js',
    '/_app/immutable/nodes/0.BwlTzPsQ.js',
    '/de/assets/logo-5a6b7c8d9e0f.svg',
  ])
    expect(isImmutable(path), path).toBe(true)
  for (const path of [
    '/index.html',
    '/index-BpS2m4Xn.js',
    '/assets/app.js',
    '/assets/bootstrap-datepicker.js',
    '/assets/jquery-3.7.1.min.js',
    '/assets/report-20261129.pdf',
    '/assets/lesson12-exercise3.html',
    '/assets/jquery.fullCalendar.js',
    '/assets/README',
    '/_nuxt/builds/latest.json',
  ])
    expect(isImmutable(path), path).toBe(false)
  const { headers } = ask(siteOf(), '/assets/app-BpS2m4Xn.js')
  expect(headers['Cache-Control']).toBe('public, max-age=31536000, immutable')
  expect(ask(siteOf(), '/').headers['Cache-Control']).toBe('public, max-age=0, must-revalidate')
  const fallback = siteOf({ redirects: '/assets/* /index.html 200' })
  expect(ask(fallback, '/assets/old-BpS2m4Xn.js').headers['Cache-Control']).toBe('public, max-age=0, must-revalidate')
})
