// The router matches as Hono's own: literals before parameters, middleware first, a method before all methods.
import { describe, expect, it } from 'vitest'
import { SegmentRouter } from '../../src/kernel/http/segment-router.ts'

const router = new SegmentRouter<string>()
router.add('ALL', '*', 'middleware')
for (const path of [
  '/',
  '/a',
  '/a/:id',
  '/a/current/b',
  '/a/current/b/:other',
  '/a/:id/c/:other',
  '/u/x/:id',
  '/u/*',
  '/p/:id/:rest*',
]) {
  router.add('GET', path, `GET ${path}`)
  router.add('ALL', path, `ALL ${path}`)
}
const listMatches = (method: string, path: string) =>
  router.match(method, path)[0].map(([handler, params]) => [handler, params])

describe('a path', () => {
  it.each([
    ['/', '/', {}],
    ['/a', '/a', {}],
    ['/a/1', '/a/:id', { id: '1' }],
    ['/a/current', '/a/:id', { id: 'current' }],
    ['/a/current/b', '/a/current/b', {}],
    ['/a/current/b/2', '/a/current/b/:other', { other: '2' }],
    ['/u/', '/u/*', {}],
    ['/u/y/z', '/u/*', {}],
    ['/u/x/1', '/u/x/:id', { id: '1' }],
    ['/u/x/1/2', '/u/*', {}],
    ['/u/x/', '/u/*', {}],
    ['/p/1/', '/p/:id/:rest*', { id: '1', rest: '' }],
    ['/p/1/b//c', '/p/:id/:rest*', { id: '1', rest: 'b//c' }],
    ['/a/current/c/2', '/a/:id/c/:other', { id: 'current', other: '2' }],
  ])('%s is routed to %s', (path, route, params) => {
    expect(listMatches('GET', path)).toEqual([
      ['middleware', {}],
      [`GET ${route}`, params],
      [`ALL ${route}`, params],
    ])
    expect(listMatches('PUT', path)).toEqual([
      ['middleware', {}],
      [`ALL ${route}`, params],
    ])
  })

  it.each([
    '',
    '/b',
    '/a/',
    '/a/1/',
    '/a/1/b',
    '/a//c/2',
    '/a/current/b/',
    '/a/1/c/2/3',
    'a',
    '//',
    '/u',
    '/p/1',
    '/p//b',
  ])('%j matches no route', path => {
    expect(listMatches('GET', path)).toEqual([['middleware', {}]])
  })

  it.each(['/a/*/b', '/*/b', '*/b', '/a*', '/:a*/b'])(
    '%s cannot be added, because the router would match its wildcard literally',
    path => {
      expect(() => router.add('GET', path, 'never')).toThrow()
    },
  )
})
