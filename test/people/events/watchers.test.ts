// Costs of watchers: round trips to the database, and work for readers that do not read.
import { expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { newTenant, type Tenant } from '../../support/app.ts'
import { type OpenStream, openStream, startStreamingApp } from '../../support/live-streams.ts'

const write = (tenant: Tenant, key: string) => tenant.post('/v2/tag-keys', { key })
const countAllTrips = async (ids: string[]) =>
  (await Promise.all(ids.map(countTrips))).reduce((total, count) => total + count, 0)

it('100 watchers of a workspace make as few looks at the database together as one of them would', async () => {
  const [watchers, events, lookMs] = [100, 5, 50]
  const app = startStreamingApp({ lookMs: [lookMs, lookMs], keyCheckMs: 60_000 })
  const tenant = await newTenant()
  const ids = Array.from({ length: watchers }, (_, i) => `trip-watcher-${i}-${crypto.randomUUID()}`)
  const open = (id: string) => openStream(app, tenant, '/v2/events/stream', { 'X-Request-Id': id })
  const started = performance.now()
  const streams: OpenStream[] = []
  for (const id of ids) streams.push(await open(id))
  for (let i = 0; i < events; i++) {
    const items = Promise.all(streams.map(stream => stream.next()))
    await write(tenant, `key-${i}`)
    expect(new Set((await items).map(item => item!.id))).toEqual(new Set([String(i + 2)]))
  }
  await Promise.all(streams.map(stream => stream.close()))
  const elapsed = performance.now() - started
  // Each stream begins with a trip of its own.
  const looks = (await countAllTrips(ids)) - watchers
  expect(looks).toBeGreaterThanOrEqual(events)
  expect(looks).toBeLessThanOrEqual(elapsed / lookMs + 1)
})

it('a stream without a reader makes no query, and has every event once it is read', async () => {
  const tenant = await newTenant()
  const id = `trip-unread-${crypto.randomUUID()}`
  const app = startStreamingApp()
  const unread = await openStream(app, tenant, '/v2/events/stream?after=0', { 'X-Request-Id': id })
  const witness = await openStream(app, tenant, '/v2/events/stream?after=1')
  for (let i = 0; i < 20; i++) {
    await write(tenant, `key-${i}`)
    await witness.next()
  }
  expect(await countTrips(id)).toBe(1)
  const numbers: number[] = []
  while (numbers.length < 21) numbers.push(Number((await unread.next())!.id))
  expect(numbers).toEqual(Array.from({ length: 21 }, (_, i) => i + 1))
  await Promise.all([unread.close(), witness.close()])
})

it('a stream whose client has disconnected makes no further queries', async () => {
  const tenant = await newTenant()
  const id = `trip-closed-${crypto.randomUUID()}`
  const app = startStreamingApp()
  const closed = await openStream(app, tenant, '/v2/events/stream', { 'X-Request-Id': id })
  const first = closed.next()
  await write(tenant, 'first')
  await first
  await closed.close()
  const witness = await openStream(app, tenant, '/v2/events/stream')
  const writeAndWait = async (key: string) => {
    const next = witness.next()
    await write(tenant, key)
    await next
  }
  // A look that was under way ends before the witness makes one.
  await writeAndWait('second')
  const made = await countTrips(id)
  for (const key of ['third', 'fourth', 'fifth']) await writeAndWait(key)
  expect(await countTrips(id)).toBe(made)
  await witness.close()
})
