import { expect, it } from 'vitest'
import { findPostgresFault } from '../../src/host/postgres-version.ts'

it.each([
  [150_099, false],
  [160_004, false],
  [160_005, true],
  [170_000, false],
  [170_001, true],
  [180_000, true],
  [190_002, true],
])('a Postgres of the number %i can be used: %s', (version, canBeUsed) => {
  expect(findPostgresFault(version) === undefined).toBe(canBeUsed)
})
