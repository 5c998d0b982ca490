import { expect, it } from 'vitest'
import { newTenant, send, startApp } from '../support/app.ts'
import { makeArchive } from '../support/archives.ts'
import { describeUploads, makeSourceBody } from '../support/uploads-suite.ts'

describeUploads()

async function offerUpload(app = startApp()) {
  const tenant = await newTenant({ app })
  const { body } = await tenant.post('/v2/deployments', makeSourceBody())
  return tenant.post(`/v2/deployments/${body.id}/upload-url`)
}

it('an installation without storage says so', async () => {
  const { status, body } = await offerUpload(startApp({ overrides: { uploads: undefined } }))
  expect([status, body.code]).toEqual([503, 'not_configured'])
})

it('an address to upload to begins with the public one', async () => {
  const { body } = await offerUpload(startApp({ settings: { PUBLIC_URL: 'https://slipway.example.com' } }))
  expect(body.upload_url).toMatch(/^https:\/\/slipway\.example\.com\/v2\/uploads\//)
  const { pathname, search } = new URL(body.upload_url)
  expect((await send('PUT', pathname + search, { raw: await makeArchive() })).status).toBe(200)
})
