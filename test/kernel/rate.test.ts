import { afterEach, describe, expect, it } from 'vitest'
import { clock, newTenant, startApp } from '../support/app.ts'

afterEach(() => {
  clock.ahead = 0
})

describe('the rate of a key', () => {
  const app = startApp({ settings: { RATE_LIMIT_PER_MINUTE: '3' } })

  it('is counted in the same trip, told, and refused when it is over', async () => {
    const tenant = await newTenant({ app })
    for (const remaining of [2, 1, 0]) {
      const { status, headers } = await tenant.get('/workspaces')
      expect(status).toBe(200)
      expect(headers.get('RateLimit-Policy')).toBe('"key";q=3;w=60')
      expect(headers.get('RateLimit')).toBe(`"key";r=${remaining};t=60`)
    }
    const refused = await tenant.get('/workspaces')
    expect([refused.status, refused.body.code]).toEqual([429, 'rate_limited'])
    expect(Number(refused.headers.get('Retry-After'))).toBeGreaterThan(50)
    expect(refused.headers.get('RateLimit')).toBe(`"key";r=0;t=${refused.headers.get('Retry-After')}`)
    expect((await tenant.owner.get('/workspaces')).status).toBe(200)
    clock.ahead = 61_000
    expect((await tenant.get('/workspaces')).headers.get('RateLimit')).toBe('"key";r=2;t=60')
  })

  it('is unlimited where the setting says 0', async () => {
    const tenant = await newTenant()
    expect((await tenant.get('/workspaces')).headers.get('RateLimit-Policy')).toBeNull()
  })
})
