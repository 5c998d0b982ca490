import { expect, it } from 'vitest'
import { backoffSeconds } from '../../src/kernel/db/outbox.ts'
import { fail } from '../../src/kernel/http/errors.ts'

const failWithRetryAfter = (seconds: string) => fail('upstream_error', { headers: { 'Retry-After': seconds } })

it.each([
  ['30 seconds after the first attempt', 1, undefined, 30],
  ['twice as long after each further attempt', 4, undefined, 240],
  ['an hour at most', 20, undefined, 3600],
  ['as long as Retry-After says', 1, failWithRetryAfter('600'), 600],
  ['its own backoff if Retry-After is shorter', 5, failWithRetryAfter('60'), 480],
  ['an hour at most if Retry-After is longer', 1, failWithRetryAfter('86400'), 3600],
  ['its own backoff if Retry-After is not a number', 1, failWithRetryAfter('soon'), 30],
])('the outbox waits %s', (_, attempts, error, seconds) => {
  expect(backoffSeconds(attempts, error)).toBe(seconds)
})
