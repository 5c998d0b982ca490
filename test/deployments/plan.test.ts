import { describe, expect, it } from 'vitest'
import { newTenant, startApp } from '../support/app.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import { listRevisions, minimalBody } from '../support/deployments.ts'
import { makeRepositoryBody } from '../support/integrations.ts'

const makeDigest = (digit: string) => `app@sha256:${digit.repeat(64)}`
const makeReference = (name: string) => ({ name, secret_name: 'app', secret_key: 'key' })

const selfHosted = startApp({ settings: { SLIPWAY_MODE: 'self_hosted' } })
const pinned = { image_uri: makeDigest('0') }
const external = {
  source_config: { resource_spec: { cpu: 1 }, custom_url: 'https://app.example.com' },
  source_revision_config: pinned,
  secret_references: [makeReference('REFERRED')],
}

describe('a complete deployment that is read and sent back', () => {
  it('stays the same, and creates one revision because its branch is sent again', async () => {
    const tenant = await newTenant()
    const before = (await tenant.post('/v2/deployments', await makeRepositoryBody(tenant))).body
    const { body } = await tenant.patch(`/v2/deployments/${before.id}`, before)
    expect(body).toEqual({ ...before, latest_revision_id: body.latest_revision_id, updated_at: body.updated_at })
    expect((await listRevisions(tenant, before.id)).map(one => one.reasons)).toEqual([
      ['source_revision_config.repo_ref'],
      ['created'],
    ])
  })

  it('is accepted after a revision from another source', async () => {
    const tenant = await newTenant()
    const { id } = (await tenant.post('/v2/deployments', await makeRepositoryBody(tenant))).body
    const path = `/v2/deployments/${id}`
    const pushed = { revision_source: 'internal_container', source_revision_config: pinned }
    const { body } = await tenant.patch(path, pushed)
    expect((await listRevisions(tenant, id))[0]).toMatchObject({ source: 'internal_container', status: 'QUEUED' })
    const patched = await tenant.patch(path, body)
    expect(patched.body.source_revision_config).toEqual(body.source_revision_config)
    const otherImage = await tenant.patch(path, { source_revision_config: { image_uri: 'other' } })
    expect(otherImage.body.code).toBe('source_rule')
  })

  it.each([
    ['external_container', external],
    ['internal_container', { source_config: { build_command: 'make' }, source_revision_config: pinned }],
    ['internal_source', { source_config: { deployment_type: 'prod' }, source_revision_config: {} }],
    ['internal_template', { source_config: { template_id: 'web' }, source_revision_config: {} }],
  ])('of source %s changes nothing, and with one changed member changes only that', async (source, over) => {
    const tenant = await newTenant(source === 'external_container' ? { app: selfHosted } : {})
    const before = (await tenant.post('/v2/deployments', makeImageBody({ source, ...over }))).body
    const path = `/v2/deployments/${before.id}`
    expect((await tenant.patch(`${path}?dry_run=true`, before)).body).toMatchObject({ changes: [] })
    expect((await tenant.patch(path, before)).body).toEqual(before)
    const request = { ...before, source_config: { ...before.source_config, install_command: 'make deps' } }
    const { body } = await tenant.patch(path, request)
    expect(body).toEqual({ ...request, latest_revision_id: body.latest_revision_id, updated_at: body.updated_at })
    expect(await listRevisions(tenant, before.id)).toHaveLength(2)
  })
})

it('a revision can use another source only if its required members are set and the mode allows it', async () => {
  const tenant = await newTenant()
  const { id } = (await tenant.post('/v2/deployments', makeImageBody(minimalBody))).body
  const githost = await tenant.patch(`/v2/deployments/${id}`, { revision_source: 'githost' })
  expect([githost.status, githost.body.code]).toEqual([400, 'source_rule'])
  expect(githost.body.detail).toMatch(/repo_url.*repo_ref/)
  const allowed = await tenant.patch(`/v2/deployments/${id}`, { revision_source: 'internal_source' })
  expect(allowed.status).toBe(200)
  const selfHostedTenant = await newTenant({ app: selfHosted })
  const { source_config, ...rest } = external
  const body = makeImageBody({
    source: 'external_container',
    ...rest,
    source_config: { ...source_config, custom_url: null },
  })
  const deployment = (await selfHostedTenant.post('/v2/deployments', body)).body
  const wrongMode = await selfHostedTenant.patch(`/v2/deployments/${deployment.id}`, {
    revision_source: 'internal_container',
  })
  expect(wrongMode.body.errors).toMatchObject([{ type: 'source_mode' }])
})
