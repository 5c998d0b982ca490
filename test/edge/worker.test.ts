import { expect, it } from 'vitest'
import worker from '../../src/worker.ts'

it('answers that it lacks its settings, and keeps which to the log', async () => {
  const context = { waitUntil() {}, passThroughOnException() {}, props: {} }
  const reply = await worker.fetch(
    new Request('http://slipway.test/healthz'),
    { DATABASE_URL: 'mysql://secret' },
    context,
  )
  expect([reply.status, reply.headers.get('Content-Type')]).toEqual([503, 'application/problem+json'])
  const body = (await reply.json()) as { code: string }
  expect(body.code).toBe('not_configured')
  expect(JSON.stringify(body)).not.toMatch(/DATABASE_URL|mysql/)
})
