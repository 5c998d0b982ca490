import { expect, it } from 'vitest'
import { sha256 } from '../../../src/kernel/crypto/digest.ts'
import { getApp, newTenant, send, type Tenant, withClockAhead } from '../../support/app.ts'
import { makeArchive } from '../../support/archives.ts'
import { newDeployment } from '../../support/deployments.ts'
import { makeSyncAgent, newListener } from '../../support/sync-agent.ts'

async function uploadArchive(tenant: Tenant, listener_id: string) {
  const bytes = await makeArchive()
  const deployment = {
    source: 'internal_source',
    source_config: { listener_id },
    source_revision_config: {},
    secrets: [],
  }
  const { id } = await newDeployment(tenant, deployment)
  const { upload_url, object_path } = (await tenant.post(`/v2/deployments/${id}/upload-url`)).body
  await send('PUT', upload_url.replace('http://slipway.test', ''), { raw: bytes })
  await tenant.patch(`/v2/deployments/${id}`, { source_revision_config: { source_tarball_path: object_path } })
  return bytes
}

it('an agent downloads an archive by the link in its work, which is valid for 15 minutes', async () => {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const bytes = await uploadArchive(tenant, listener.id)
  const [work] = (await makeSyncAgent(tenant, key).poll()).changes
  const { url, size, sha256: digest } = work!.revision!.archive!
  expect([size, digest]).toEqual([bytes.byteLength, sha256().update(bytes).digest('hex')])
  const answer = await getApp().fetch(new Request(url))
  expect(answer.headers.get('Content-Type')).toBe('application/gzip')
  expect(Buffer.from(await answer.arrayBuffer()).equals(Buffer.from(bytes))).toBe(true)

  const path = url.replace('http://slipway.test', '')
  const codeOf = async (path: string) => (await send('GET', path)).body.code
  expect(await codeOf(path.replace(/.(?=.$)/, one => (one === 'A' ? 'B' : 'A')))).toBe('download_link_invalid')
  expect(await codeOf(path.replace(/expires=(\d)/, 'expires=9$1'))).toBe('download_link_invalid')
  expect(await codeOf(path.replace(/expires=\d+/, 'expires=soon'))).toBe('invalid_request')
  expect(await withClockAhead(16 * 60_000, () => codeOf(path))).toBe('download_link_expired')
})
