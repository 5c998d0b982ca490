import { expect, it } from 'vitest'
import { newTenant, send, startApp } from '../../support/app.ts'
import { makeArchive } from '../../support/archives.ts'
import { describeUploads, makeSourceBody } from '../../support/uploads-suite.ts'

describeUploads()

async function requestUploadLink(app = startApp()) {
  const tenant = await newTenant({ app })
  const { body } = await tenant.post('/v2/deployments', makeSourceBody())
  return tenant.post(`/v2/deployments/${body.id}/upload-url`)
}

it('without a store, an upload link is refused with not_configured', async () => {
  const { status, body } = await requestUploadLink(startApp({ overrides: { storage: undefined } }))
  expect([status, body.code]).toEqual([503, 'not_configured'])
})

it('an upload link begins with PUBLIC_URL', async () => {
  const { body } = await requestUploadLink(startApp({ settings: { PUBLIC_URL: 'https://slipway.example.com' } }))
  expect(body.upload_url).toMatch(/^https:\/\/slipway\.example\.com\/v2\/uploads\//)
  const { pathname, search } = new URL(body.upload_url)
  expect((await send('PUT', pathname + search, { raw: await makeArchive() })).status).toBe(200)
})
