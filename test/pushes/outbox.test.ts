// How long the outbox waits between two attempts.
import { expect, it } from 'vitest'
import { fail } from '../../src/kernel/errors.ts'
import { backoffSeconds } from '../../src/pushes/outbox.ts'

const failWithRetryAfter = (seconds: string) => fail('upstream_error', { headers: { 'Retry-After': seconds } })

it.each([
  ['30 seconds after the first attempt', 1, undefined, 30],
  ['twice as long after each further attempt', 4, undefined, 240],
  ['never more than an hour', 20, undefined, 3600],
  ['as long as the server asks for', 1, failWithRetryAfter('600'), 600],
  ['as long as the attempts demand where the server asks for less', 5, failWithRetryAfter('60'), 480],
  ['an hour where the server asks for more', 1, failWithRetryAfter('86400'), 3600],
  ['as usual where the server asks for something that is not a number', 1, failWithRetryAfter('soon'), 30],
])('the outbox waits %s', (_, attempts, error, seconds) => {
  expect(backoffSeconds(attempts, error)).toBe(seconds)
})
