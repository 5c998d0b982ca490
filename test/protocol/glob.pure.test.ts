import { expect, test } from 'vitest'
import { compileGlob } from '../../src/agent/images/dockerignore-glob.ts'
import { matchesBranch } from '../../src/hosting/pushes/branch-globs.ts'

test.each([
  ['main', 'main', true],
  ['main', 'main2', false],
  ['*', 'main', true],
  ['*', '', true],
  ['*', 'a/b', false],
  ['**', 'a/b', true],
  ['feature/*', 'feature/a', true],
  ['feature/*', 'feature/a/b', false],
  ['feature/**', 'feature/a/b', true],
  ['feature/**', 'feature', false],
  ['a/**/b', 'a/b', false],
  ['a/**/b', 'a//b', true],
  ['a/**/b', 'a/x/y/b', true],
  ['a**z', 'a/x/z', true],
  ['**/*.x', 'a/b/c.x', true],
  ['**/*.x', 'a/b.x/c', false],
  ['*a/**b*c', 'xa/b/ybzc', true],
  ['*a/**b*c', 'xa/b/ybz/c', false],
  ['***', 'a/b', true],
  ['?', '/', false],
  ['a?c', 'abc', true],
  ['a.c', 'abc', false],
  ['(a|b)+[c]{1}$^', '(a|b)+[c]{1}$^', true],
  ['a\\*', 'a\\b', true],
])('the branch glob %s matches the branch "%s": %s', (pattern, branch, matches) => {
  expect(matchesBranch([pattern], branch)).toBe(matches)
})

test('an excluding glob wins over all including globs', () => {
  expect(matchesBranch(['**', '!wip/*', 'wip/a'], 'wip/a')).toBe(false)
  expect(matchesBranch(['!wip/*'], 'main')).toBe(false)
})

test.each([
  ['[a-c]x', 'bx', true],
  ['[a-c]x', 'dx', false],
  ['[^a-c]x', 'dx', true],
  ['[a-]', '-', true],
  ['[\\]]', ']', true],
  ['[\\^a]', '^', true],
  ['[z-a]', 'm', false],
  ['[]a', '[]a', true],
  ['[a', '[a', true],
  ['[.]', 'a', false],
  ['[\\d]', '7', false],
  ['a\\', 'a\\', true],
  ['[🚀-🚂]', '🚁', true],
])('the .dockerignore pattern %s matches the path %s: %s', (pattern, path, matches) =>
  expect(compileGlob(pattern)(path)).toBe(matches),
)

/** CPU time, because elapsed time would include other work of the machine. */
function cpuMsOf(work: () => unknown): number {
  const before = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

test.runIf(typeof process.cpuUsage === 'function' && navigator.userAgent !== 'Cloudflare-Workers').each([
  ['a glob with eight stars', () => matchesBranch(['*a*a*a*a*a*a*a*b'], 'a'.repeat(255))],
  ['a glob with eight double stars', () => matchesBranch(['**a**a**a**a**a**a**a**b'], 'a/'.repeat(127))],
  ['a glob with a hundred stars', () => matchesBranch(['*a'.repeat(100)], `${'a'.repeat(254)}/`)],
  ['a glob with single and double stars', () => matchesBranch(['**/*a'.repeat(40)], 'a/'.repeat(127))],
  ['twenty globs', () => matchesBranch(Array<string>(20).fill('**a*a**a*a**a*a**a*b'), 'a'.repeat(255))],
  ['a .dockerignore pattern of stars', () => compileGlob(`${'*a'.repeat(2000)}b`)('a'.repeat(255))],
  ['a .dockerignore pattern of folders', () => compileGlob('**/a/'.repeat(400))('a/'.repeat(1000))],
  ['a .dockerignore pattern of open brackets', () => compileGlob('['.repeat(32_000))('a')],
  ['a .dockerignore pattern of closed brackets', () => compileGlob('[a]'.repeat(10_000))('a'.repeat(255))],
])('matching %s takes less than 250 ms of CPU', (_, work) => expect(cpuMsOf(work)).toBeLessThan(250))
