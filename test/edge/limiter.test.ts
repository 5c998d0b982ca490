import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { newApiKey } from '../../src/kernel/crypto/crypto.ts'
import { bootstrap } from '../../src/people/access/bootstrap.ts'
import { newTenant, type Overrides, send, startApp } from '../support/app.ts'

const startLimitedApp = (overrides: Overrides = {}) =>
  startApp({ settings: { ...env, RATE_LIMIT_PER_MINUTE: '3' }, overrides })

it('with the rate limiter of Workers bound, each key still has its own count and rate limit headers', async () => {
  const app = startLimitedApp()
  const tenant = await newTenant({ app })
  for (const remaining of [2, 1, 0]) {
    const { status, headers } = await tenant.get('/workspaces')
    const limits = [status, headers.get('RateLimit-Policy'), headers.get('RateLimit')]
    expect(limits).toEqual([200, '"key";q=3;w=60', `"key";r=${remaining};t=60`])
  }
  const refused = await tenant.get('/workspaces')
  expect([refused.status, refused.body.code, refused.headers.get('Retry-After')]).toEqual([429, 'rate_limited', '60'])
  const { api_key } = await bootstrap(app.database, { organization: 'Another' })
  expect((await tenant.as(api_key).get('/workspaces')).status).toBe(200)
})

it('requests with one unknown key are limited', async () => {
  const app = startLimitedApp()
  const headers = { 'X-Api-Key': newApiKey() }
  for (let i = 0; i < 3; i++) expect((await send('GET', '/workspaces', { headers, app })).status).toBe(401)
  expect((await send('GET', '/workspaces', { headers, app })).status).toBe(429)
})

it('failed requests of an address are counted across instances', async () => {
  const headers = () => ({ 'X-Api-Key': newApiKey(), 'X-Test-Address': '192.0.2.9' })
  const overrides: Overrides = { clientAddress: ({ req }) => req.header('X-Test-Address') }
  const [first, second] = [startLimitedApp(overrides), startLimitedApp(overrides)]
  for (let i = 0; i < 4; i++) {
    expect((await send('GET', '/workspaces', { headers: headers(), app: first })).status).toBe(401)
    await finishPendingWork()
  }
  expect((await send('GET', '/workspaces', { headers: headers(), app: first })).body.code).toBe('address_rate_limited')
  // The second instance reads the shared count only after its own first failure.
  expect((await send('GET', '/workspaces', { headers: headers(), app: second })).status).toBe(401)
  await finishPendingWork()
  expect((await send('GET', '/workspaces', { headers: headers(), app: second })).status).toBe(429)
})
