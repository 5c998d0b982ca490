import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import { bootstrap } from '../../src/access/bootstrap.ts'
import { newApiKey } from '../../src/kernel/crypto.ts'
import { newTenant, send, startApp } from '../support/app.ts'

const limited = () => startApp({ settings: { ...env, RATE_LIMIT_PER_MINUTE: '3' } })

it('asks Workers’ binding where there is one, and tells the policy', async () => {
  const app = limited()
  const tenant = await newTenant({ app })
  for (let i = 0; i < 3; i++) {
    const { status, headers } = await tenant.get('/workspaces')
    expect([status, headers.get('RateLimit-Policy'), headers.get('RateLimit')]).toEqual([200, '"key";q=3;w=60', null])
  }
  const refused = await tenant.get('/workspaces')
  expect([refused.status, refused.body.code, refused.headers.get('Retry-After')]).toEqual([429, 'rate_limited', '60'])
  const { api_key } = await bootstrap(app.database, { organization: 'Another' })
  expect((await tenant.as(api_key).get('/workspaces')).status).toBe(200)
})

it('limits keys that nobody made, before they reach the database', async () => {
  const app = limited()
  const headers = { 'X-Api-Key': newApiKey() }
  for (let i = 0; i < 3; i++) expect((await send('GET', '/workspaces', { headers, app })).status).toBe(401)
  expect((await send('GET', '/workspaces', { headers, app })).status).toBe(429)
})
