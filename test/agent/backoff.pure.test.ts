// The pause before the next request to the control plane.
import { expect, test } from 'vitest'
import { backoffSeconds, RequestRefused } from '../../src/agent/control-plane/client.ts'

test('a Retry-After is kept, up to five minutes', () => {
  const refused = (retryAfter: number) => new RequestRefused(503, 'overloaded', '', retryAfter)
  expect([40, 3_000_000].map(seconds => backoffSeconds(refused(seconds), 0))).toEqual([40, 300])
})
