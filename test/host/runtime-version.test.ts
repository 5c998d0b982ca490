// The versions of Deno and Bun that serve.
import { expect, it } from 'vitest'
import { isOlder } from '../../src/host/runtime-version.ts'

it.each([
  ['2.9.6', false],
  ['2.10.0', false],
  ['3.0.0-rc.1', false],
  ['2.8.9', true],
  ['1.46.3', true],
])('%s is older than 2.9: %s', (version, expected) => {
  expect(isOlder(version, [2, 9])).toBe(expected)
})
