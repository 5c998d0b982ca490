// An isolate has no pool to share, but a budget of database time for each workspace.
import { expect, it, onTestFinished, vi } from 'vitest'
import { newTenant, startApp } from '../support/app.ts'

it('a workspace that has spent its database time is refused in its isolate, and no other', async () => {
  let ahead = 0
  const now = Date.now
  vi.spyOn(Date, 'now').mockImplementation(() => now() + ahead)
  onTestFinished(() => void vi.restoreAllMocks())
  let isSlow = false
  const send = globalThis.fetch
  vi.spyOn(globalThis, 'fetch').mockImplementation(async (...request) => {
    const response = await send(...request)
    if (isSlow) ahead += 2000
    return response
  })
  const app = startApp({ settings: { DATABASE_SECONDS_PER_MINUTE: '1' } })
  const [loud, quiet] = await Promise.all([newTenant({ app }), newTenant({ app })])
  for (const tenant of [loud, quiet]) expect((await tenant.get('/v2/tag-keys')).status).toBe(200)
  isSlow = true
  expect((await loud.get('/v2/tag-keys')).status).toBe(200)
  isSlow = false
  expect((await loud.get('/v2/tag-keys')).body.code).toBe('database_time_spent')
  expect((await quiet.get('/v2/tag-keys')).status).toBe(200)
})
