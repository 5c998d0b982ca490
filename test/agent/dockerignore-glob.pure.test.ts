// The patterns of a .dockerignore. They come from tenants, so matching and parsing take bounded time.
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
])('the pattern %s matches %s: %s', (pattern, path, isMatch) => expect(compileGlob(pattern)(path)).toBe(isMatch))

test('a pattern with many wildcards does not backtrack exponentially', () => {
  expect(compileGlob(`${'*a'.repeat(20)}*b`)('a'.repeat(250))).toBe(false)
  expect(compileGlob(`${'**/a/'.repeat(20)}b`)('a/'.repeat(60))).toBe(false)
})

test('a Dockerfile of many empty lines is parsed in linear time', () => {
  expect(findBaseImages(`${' \n'.repeat(200_000)}FROM a`)).toEqual(['a'])
})
