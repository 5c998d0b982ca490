import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import { bootstrap } from '../../src/access/bootstrap.ts'
import type { Config } from '../../src/env.ts'
import { newApiKey } from '../../src/kernel/crypto.ts'
import { finishPendingWork } from '../../src/kernel/wait-until.ts'
import { newTenant, send, startApp } from '../support/app.ts'

const limited = () => startApp({ settings: { ...env, RATE_LIMIT_PER_MINUTE: '3' } })

it('uses the rate limiter of Workers if bound, and counts in the database', async () => {
  const app = limited()
  const tenant = await newTenant({ app })
  for (const left of [2, 1, 0]) {
    const { status, headers } = await tenant.get('/workspaces')
    const told = [status, headers.get('RateLimit-Policy'), headers.get('RateLimit')]
    expect(told).toEqual([200, '"key";q=3;w=60', `"key";r=${left};t=60`])
  }
  const refused = await tenant.get('/workspaces')
  expect([refused.status, refused.body.code, refused.headers.get('Retry-After')]).toEqual([429, 'rate_limited', '60'])
  const { api_key } = await bootstrap(app.database, { organization: 'Another' })
  expect((await tenant.as(api_key).get('/workspaces')).status).toBe(200)
})

it('limits unknown keys before they reach the database', async () => {
  const app = limited()
  const headers = { 'X-Api-Key': newApiKey() }
  for (let i = 0; i < 3; i++) expect((await send('GET', '/workspaces', { headers, app })).status).toBe(401)
  expect((await send('GET', '/workspaces', { headers, app })).status).toBe(429)
})

it('counts failures of an address across instances', async () => {
  const headers = () => ({ 'X-Api-Key': newApiKey(), 'X-Test-Address': '192.0.2.9' })
  const overrides: Partial<Config> = { clientAddress: ({ req }) => req.header('X-Test-Address') }
  const instance = () => startApp({ settings: { ...env, RATE_LIMIT_PER_MINUTE: '3' }, overrides })
  const [one, two] = [instance(), instance()]
  for (let i = 0; i < 4; i++) {
    expect((await send('GET', '/workspaces', { headers: headers(), app: one })).status).toBe(401)
    await finishPendingWork()
  }
  expect((await send('GET', '/workspaces', { headers: headers(), app: one })).body.code).toBe('address_rate_limited')
  // The other instance learns of them with its own first failure.
  expect((await send('GET', '/workspaces', { headers: headers(), app: two })).status).toBe(401)
  await finishPendingWork()
  expect((await send('GET', '/workspaces', { headers: headers(), app: two })).status).toBe(429)
})
