import { expect, it } from 'vitest'
import { newTenant, send, startApp } from '../support/app.ts'
import { archive } from '../support/archives.ts'
import { source, uploads } from '../support/uploads.ts'

uploads()

async function offered(app = startApp()) {
  const tenant = await newTenant({ app })
  const { body } = await tenant.post('/v2/deployments', source())
  return tenant.post(`/v2/deployments/${body.id}/upload-url`)
}

it('an installation without storage says so', async () => {
  const { status, body } = await offered(startApp({ overrides: { uploads: undefined } }))
  expect([status, body.code]).toEqual([503, 'not_configured'])
})

it('an address to upload to begins with the public one', async () => {
  const { body } = await offered(startApp({ settings: { PUBLIC_URL: 'https://slipway.example.com' } }))
  expect(body.upload_url).toMatch(/^https:\/\/slipway\.example\.com\/v2\/uploads\//)
  const { pathname, search } = new URL(body.upload_url)
  expect((await send('PUT', pathname + search, { raw: await archive() })).status).toBe(200)
})
