// The split of requests between two revisions: exact, sticky, and never to a revision without a ready copy.
import type { IncomingMessage } from 'node:http'
import { describe, expect, test } from 'vitest'
import { copiesOfShare, pickRevision, type Split, sidesOf } from '../../src/agent/engines/local/split.ts'
import { createChooser, pointOf } from '../../src/agent/engines/local/sticky.ts'
import * as fc from '../support/seeded-fast-check.ts'

const target = (port: number) => ({ host: '127.0.0.1', port })
const makeSplit = (share: number, targets = [target(2)]): Split => ({ revision: 'new', targets, share, sticky: null })
const makeRoute = (split?: Split, targets = [target(1)]) => ({ revision: 'old', targets, ...(split && { split }) })
const shares = fc.integer({ min: 0, max: 100 })
const points = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

describe('a request', () => {
  test('goes to one of the two, with the copies of that one alone', () => {
    fc.assert(
      fc.property(shares, points, (share, point) => {
        const { revision, targets } = pickRevision(makeRoute(makeSplit(share)), point)
        expect([revision, targets[0]!.port]).toEqual(point * 100 < share ? ['new', 2] : ['old', 1])
      }),
    )
  })

  test('never goes to a revision without a ready copy, nor again to one that did not accept it', () => {
    fc.assert(
      fc.property(shares, points, fc.integer({ min: 3, max: 100 }), (share, point, tries) => {
        expect(pickRevision(makeRoute(makeSplit(share, [])), point).revision).toBe('old')
        expect(pickRevision(makeRoute(makeSplit(share)), point, tries).revision).toBe('old')
      }),
    )
  })

  test('stays where a share has taken its client, while the share grows', () => {
    fc.assert(
      fc.property(shares, shares, points, (a, b, point) => {
        const at = (share: number) => pickRevision(makeRoute(makeSplit(share)), point).revision
        if (at(Math.min(a, b)) === 'new') expect(at(Math.max(a, b))).toBe('new')
      }),
    )
  })
})

test.each([1, 10, 50, 99])('%d percent of many clients are so many, within what chance allows', share => {
  const clients = 20_000
  const route = makeRoute(makeSplit(share))
  const isNew = (i: number) => pickRevision(route, pointOf(`client ${i}`, 'r1')).revision === 'new'
  const count = Array.from({ length: clients }, (_, i) => isNew(i)).filter(Boolean).length
  const deviation = Math.sqrt(clients * (share / 100) * (1 - share / 100))
  // The keys are always the same, so this never fails by chance.
  expect(Math.abs(count - (clients * share) / 100)).toBeLessThan(4 * deviation)
})

test.each<[isMeantForAll: boolean, headers: string[]]>([
  [true, ['Cache-Control', 'public']],
  [true, ['cache-control', 'must-revalidate, S-MaxAge=60']],
  [true, ['Cache-Control', 'max-age = "060"']],
  [true, ['Expires', 'Tue, 01 Dec 2026 00:00:00 GMT']],
  [true, ['CDN-Cache-Control', 'max-age=60']],
  [false, []],
  [false, ['Cache-Control', 'no-cache']],
  [false, ['Cache-Control', 'max-age=0', 'Expires', '0']],
  [false, ['Cache-Control', 'max-age=60', 'Cache-Control', 'private']],
  [false, ['Cache-Control', 'no-store, public']],
])('the cookie that keeps a client is on no answer for all of them: %s, %j', (isMeantForAll, headers) => {
  const req = { headers: {}, socket: {} } as IncomingMessage
  const { choose, withCookie } = createChooser(req, [])
  choose(makeRoute({ ...makeSplit(50), sticky: { by: 'cookie' } }))
  const added = withCookie(headers).slice(headers.length)
  if (isMeantForAll) expect(added).toEqual([])
  else expect(added).toEqual(['Set-Cookie', expect.any(String), 'Cache-Control', 'private'])
})

test('another revision draws other clients', () => {
  const taken = (revision: string) =>
    Array.from({ length: 2_000 }, (_, i) => i).filter(i => pointOf(`client ${i}`, revision) < 0.1)
  const both = taken('r1').filter(i => taken('r2').includes(i))
  expect(both.length).toBeLessThan(60)
})

test('the share of the copies is at least one, and never less than the share of the requests', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1000 }), shares, (copies, share) => {
      const own = copiesOfShare(copies, share)
      expect(own).toBeGreaterThanOrEqual(1)
      expect(own).toBeLessThanOrEqual(copies)
      expect(own / copies).toBeGreaterThanOrEqual(share / 100)
    }),
  )
  expect(sidesOf(makeRoute()).map(({ revision }) => revision)).toEqual(['old'])
  expect(sidesOf(makeRoute(makeSplit(1))).map(({ revision }) => revision)).toEqual(['old', 'new'])
})
