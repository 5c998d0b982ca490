import { expect, inject, it } from 'vitest'
import { logLines, newTenant, send, startApp } from '../../support/app.ts'
import { makeArchive } from '../../support/archives.ts'
import { describeUploads, makeSourceBody } from '../../support/uploads-suite.ts'

const settings = inject('s3')

describeUploads(settings)

it('a store that refuses its credentials is reported as unavailable, and logged without a secret', async () => {
  const app = startApp({ settings: { ...settings, UPLOADS_S3_SECRET_ACCESS_KEY: 'hunter3' } })
  const tenant = await newTenant({ app })
  const { body } = await tenant.post('/v2/deployments', makeSourceBody())
  const link = await tenant.post(`/v2/deployments/${body.id}/upload-url`)
  const { pathname, search } = new URL(link.body.upload_url)
  const refused = await send('PUT', pathname + search, { raw: await makeArchive(), app })
  expect([refused.status, refused.body.code]).toEqual([503, 'storage_unavailable'])
  const lines = logLines.filter(line => line.request_id === refused.headers.get('X-Request-Id'))
  expect(lines).toContainEqual(expect.objectContaining({ message: expect.stringContaining('SignatureDoesNotMatch') }))
  for (const text of [refused.text, JSON.stringify(lines)]) expect(text).not.toMatch(/hunter|S3RVER/)
})
