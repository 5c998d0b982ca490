import { expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { getExampleQuery, getExampleRequest, guardedOperations, newTenant, send, unusedId } from './support/app.ts'

it.each(guardedOperations.map(operation => [operation.id, operation] as const))(
  '%s makes exactly one database round trip',
  async (id, operation) => {
    const { owner, tenant_id } = await newTenant()
    const requestId = `trip-${id.replaceAll(' ', '-')}-${unusedId()}`
    const path =
      operation.path
        .replace('{index}', '0')
        .replace('{action}', 'pause')
        .replace(/\{\w+\}/g, unusedId) + getExampleQuery(operation)
    const example = getExampleRequest(operation)
    const who = { 'X-Api-Key': owner.key, 'X-Tenant-Id': tenant_id, 'X-Request-Id': requestId }
    const headers = { ...example.headers, ...who }
    const { status } = await send(operation.method.toUpperCase(), path, { ...example, headers })
    // No foreign server exists in this test, so an operation that calls one ends before its second round trip.
    const ofPeople = ['member_required', 'instance_admin_required', 'channel_needs_member']
    const isForPeople = operation.errors?.some(code => ofPeople.includes(code))
    const refusals = isForPeople ? [403] : []
    const failures = operation.kind === 'json' && operation.callsExternalServers ? [502] : []
    expect([200, 201, 202, 207, 404, ...failures, ...refusals]).toContain(status)
    expect(await countTrips(requestId)).toBe(1)
  },
)

it('a write with an idempotency key makes one round trip, whether it is executed or replayed', async () => {
  const { owner } = await newTenant()
  for (const replayed of [null, 'true']) {
    const requestId = `trip-idempotent-${unusedId()}`
    const headers = { 'Idempotency-Key': 'once', 'X-Request-Id': requestId }
    const reply = await owner.post('/workspaces', { display_name: 'Once' }, headers)
    expect(reply.headers.get('Idempotency-Replayed')).toBe(replayed)
    expect(await countTrips(requestId)).toBe(1)
  }
})

it('a request with a missing key, a malformed key or an invalid body makes no round trip', async () => {
  const { owner } = await newTenant()
  const requestId = `trip-none-${unusedId()}`
  await send('GET', '/workspaces', { headers: { 'X-Request-Id': requestId } })
  await send('GET', '/workspaces', { headers: { 'X-Request-Id': requestId, 'X-Api-Key': 'slw_typo' } })
  await owner.post('/workspaces', {}, { 'X-Request-Id': requestId })
  expect(await countTrips(requestId)).toBe(0)
})
