import { expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { getExampleBody, getExampleQuery, guardedOperations, newTenant, send, unusedId } from './support/app.ts'

it.each(guardedOperations.map(operation => [operation.id, operation] as const))(
  '%s makes exactly one trip, or one before and one after foreign servers are asked',
  async (id, operation) => {
    const { owner, tenant_id } = await newTenant()
    const requestId = `trip-${id.replaceAll(' ', '-')}-${unusedId()}`
    const path = operation.path.replace(/\{\w+\}/g, unusedId) + getExampleQuery(operation)
    const headers = { 'X-Api-Key': owner.key, 'X-Tenant-Id': tenant_id, 'X-Request-Id': requestId }
    const { status } = await send(operation.method.toUpperCase(), path, { body: getExampleBody(operation), headers })
    // No external server exists in this test.
    expect([200, 201, 207, 404, ...(operation.callsExternalServers ? [502] : [])]).toContain(status)
    expect(await countTrips(requestId)).toBe(1)
  },
)

it('a write with an idempotency key takes one trip, fresh or replayed', async () => {
  const { owner } = await newTenant()
  for (const replayed of [null, 'true']) {
    const requestId = `trip-idempotent-${unusedId()}`
    const headers = { 'Idempotency-Key': 'once', 'X-Request-Id': requestId }
    const reply = await owner.post('/workspaces', { display_name: 'Once' }, headers)
    expect(reply.headers.get('Idempotency-Replayed')).toBe(replayed)
    expect(await countTrips(requestId)).toBe(1)
  }
})

it('a missing or mistyped key and an invalid body cost no trip', async () => {
  const { owner } = await newTenant()
  const requestId = `trip-none-${unusedId()}`
  await send('GET', '/workspaces', { headers: { 'X-Request-Id': requestId } })
  await send('GET', '/workspaces', { headers: { 'X-Request-Id': requestId, 'X-Api-Key': 'slw_typo' } })
  await owner.post('/workspaces', {}, { 'X-Request-Id': requestId })
  expect(await countTrips(requestId)).toBe(0)
})
