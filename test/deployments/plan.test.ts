import { describe, expect, it } from 'vitest'
import { planPatchChanges } from '../../src/deployments/plan.ts'
import { DeploymentPatch } from '../../src/deployments/schema.ts'
import { newTenant, startApp } from '../support/app.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import { listRevisions, minimalBody } from '../support/deployments.ts'
import { GITEA_URL, makeRepositoryBody } from '../support/integrations.ts'

const ID = '9f14e45f-ceea-467f-9b5a-3b1c0a5c9d11'
const OTHER_ID = '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11'
const makeDigest = (digit: string) => `app@sha256:${digit.repeat(64)}`
const makeReference = (name: string) => ({ name, secret_name: 'app', secret_key: 'key' })

/** `isRepeatable`: the stored value creates a revision if it is sent again. */
const MEMBERS: [path: string, stored: unknown, changed: unknown, effect: string, isRepeatable?: true][] = [
  ['source_config.integration_id', OTHER_ID, ID, 'immutable'],
  ['source_config.repo_url', `${GITEA_URL}/acme/app`, 'https://git.example.com/acme/else', 'immutable'],
  ['source_config.deployment_type', 'dev', 'prod', 'immutable'],
  ['source_config.template_id', 'web', 'chat', 'immutable'],
  ['source_config.listener_id', OTHER_ID, ID, 'immutable'],
  ['source_config.listener_config', { k8s_namespace: 'apps' }, { k8s_namespace: 'more' }, 'immutable'],
  ['source_config.build_on_push', false, true, 'in_place'],
  ['source_config.custom_url', 'a.example.com', 'b.example.com', 'in_place'],
  ['source_config.resource_spec', { cpu: 1 }, {}, 'revision'],
  ['source_config.install_command', 'npm ci', 'npm install', 'revision'],
  ['source_config.build_command', 'make', 'make all', 'revision'],
  ['source_config.tracing', true, false, 'revision'],
  ['source_revision_config.repo_ref', 'main', 'next', 'revision', true],
  ['source_revision_config.repo_ref', 'refs/tags/v1', 'refs/tags/v2', 'revision', true],
  ['source_revision_config.repo_ref', 'a'.repeat(40), 'b'.repeat(40), 'revision'],
  ['source_revision_config.image_uri', 'app:1', 'app:2', 'revision', true],
  ['source_revision_config.image_uri', 'app', 'app:2', 'revision', true],
  ['source_revision_config.image_uri', makeDigest('a'), makeDigest('b'), 'revision'],
  ['source_revision_config.platform_config_path', 'a.json', 'b.json', 'revision'],
  ['source_revision_config.source_tarball_path', 'uploads/1', 'uploads/2', 'revision'],
  ['secret_references', [makeReference('A')], [makeReference('B')], 'revision'],
  ['secret_references', [makeReference('A')], [], 'revision'],
  ['revision_source', 'githost', 'internal_source', 'revision', true],
]

describe('a member of a patch', () => {
  it('has a row in the table of effects', () => {
    const { source_config, source_revision_config, ...whole } = DeploymentPatch.shape
    const inner = (name: string, member: { unwrap(): { unwrap(): { shape: object } } }) =>
      Object.keys(member.unwrap().unwrap().shape).map(one => `${name}.${one}`)
    const all = [
      ...inner('source_config', source_config as never),
      ...inner('source_revision_config', source_revision_config as never),
      ...Object.keys(whole).filter(name => name !== 'secrets'),
    ]
    expect([...new Set(MEMBERS.map(([path]) => path))].sort()).toEqual(all.sort())
  })

  it.each(MEMBERS)('that changes %s from %j to %j has the effect %s', (path, stored, changed, effect, isRepeatable) => {
    const [outer, inner] = path.split('.') as [string, string?]
    const put = (value: unknown) => ({ [outer]: inner ? { [inner]: value } : value })
    const empty = { version: 1, source_config: {}, source_revision_config: {}, secret_references: null, secrets: [] }
    const current = { ...empty, ...(outer === 'revision_source' ? {} : put(stored)) }
    const plan = planPatchChanges(current, put(changed) as DeploymentPatch)
    expect(plan.changes.map(change => [change.path, change.effect])).toEqual([[path, effect]])
    expect(plan.reasons).toEqual(effect === 'revision' ? [path] : [])
    const repeated = planPatchChanges(current, put(stored) as DeploymentPatch)
    expect(repeated.reasons).toEqual(isRepeatable ? [path] : [])
    expect(planPatchChanges(current, put(null) as DeploymentPatch).changes).toEqual([])
    expect(planPatchChanges(empty, put(changed) as DeploymentPatch).creates_revision).toBe(
      effect === 'revision' && !(Array.isArray(changed) && changed.length === 0),
    )
  })
})

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
