// The way in which the router sends requests to copies: by the deployment, and then by the source.
import { expect, it } from 'vitest'
import { servingOf } from '../../src/agent/engines/local/serving.ts'

it('the protocol of the deployment comes before that of the source', () => {
  expect(servingOf({}, {})).toEqual({})
  expect(servingOf({}, { protocol: 'h2c' })).toEqual({ h2c: true })
  expect(servingOf({ protocol: 'http', request_limit: 2 }, { protocol: 'h2c' })).toEqual({ limit: 2 })
  expect(servingOf({ protocol: 'h2c', drain_seconds: 3 }, { protocol: 'http' })).toEqual({ h2c: true, drain_ms: 3_000 })
})
