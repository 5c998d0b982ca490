// What a tenant wrote for a builder is read in a time that nothing in it can stretch: patterns of a .dockerignore, and Dockerfiles.
import { expect, test } from 'vitest'
import { findBaseImages } from '../../src/agent/images/base-images.ts'
import { compileGlob } from '../../src/agent/images/dockerignore-glob.ts'

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
])('%s and %s: %s', (pattern, path, named) => expect(compileGlob(pattern)(path)).toBe(named))

test('one that would have to be tried in every way is not', () => {
  expect(compileGlob(`${'*a'.repeat(20)}*b`)('a'.repeat(250))).toBe(false)
  expect(compileGlob(`${'**/a/'.repeat(20)}b`)('a/'.repeat(60))).toBe(false)
})

test('nor is a Dockerfile of nothing but empty lines read as often as it has some', () => {
  expect(findBaseImages(`${' \n'.repeat(200_000)}FROM a`)).toEqual(['a'])
})
