// Patterns of a .dockerignore: what they name, and that none of them takes its time.
import { expect, test } from 'vitest'
import { fromOf } from '../../src/agent/engines/container/dockerfile.ts'
import { glob } from '../../src/agent/engines/container/glob.ts'

test.each([
  ['**/a/**/b', 'x/a/b', true],
  ['**/a/**/b', 'x/a/y/z/b/below', true],
  ['**/a/**/b', 'x/b/a', false],
  ['a*b*c', 'axbxbxc', true],
  ['a*b*c', 'axbxbx', false],
  ['**', 'a/b', true],
  ['a/**', 'a', false],
  ['\\*', '*', true],
  ['\\*', 'a', false],
  ['a?', 'a🚀', true],
  ['[^a]b', 'cb', true],
])('%s and %s: %s', (pattern, path, named) => expect(glob(pattern)(path)).toBe(named))

test('one that would have to be tried in every way is not', () => {
  expect(glob(`${'*a'.repeat(20)}*b`)('a'.repeat(250))).toBe(false)
  expect(glob(`${'**/a/'.repeat(20)}b`)('a/'.repeat(60))).toBe(false)
  expect(fromOf('\n'.repeat(200_000))).toEqual([])
})
