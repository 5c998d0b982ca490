import { describe, expect, it } from 'vitest'
import { newTenant, startApp, type Tenant, unusedId } from '../../support/app.ts'
import { advanceRevisionTo } from '../../support/deployments.ts'
import { makeRepositoryBody, makeRepositoryConfig } from '../../support/integrations.ts'

const SHA = 'a'.repeat(40)
const makeBody = async (tenant: Tenant, over: Record<string, unknown>) =>
  makeRepositoryBody(tenant, {
    source_config: {
      ...(await makeRepositoryConfig(tenant)),
      resource_spec: { cpu: 1, memory_mb: 512 },
      install_command: 'npm ci',
    },
    secrets: [
      { name: 'TOKEN', value: 'hush' },
      { name: 'OTHER', value: 'hush too' },
    ],
    ...over,
  })

const createFromRepository = async (tenant: Tenant, over: Record<string, unknown> = {}) =>
  (await tenant.post('/v2/deployments', await makeBody(tenant, over))).body
const readRevisions = async (tenant: Tenant, id: string) =>
  (await tenant.get(`/v2/deployments/${id}/revisions`)).body.resources as {
    id: string
    number: number
    status: string
    reasons: string[]
  }[]

const selfHosted = startApp({ settings: { SLIPWAY_MODE: 'self_hosted' } })
const external = {
  source: 'external_container',
  source_config: { resource_spec: { cpu: 1 }, custom_url: 'https://app.example.com' },
  source_revision_config: { image_uri: `app@sha256:${'0'.repeat(64)}` },
  secret_references: [{ name: 'REFERRED', secret_name: 'app', secret_key: 'key' }],
}

const MASKED = [
  { name: 'TOKEN', value: '********' },
  { name: 'OTHER', value: '********' },
]

describe('a patch', () => {
  // The name of the patch, the patch, and the reasons for a new revision.
  const table: [string, Record<string, unknown>, string[]][] = [
    ['nothing', {}, []],
    [
      'nulls',
      {
        source_config: { custom_url: null },
        source_revision_config: null,
        secrets: null,
        secret_references: null,
        revision_source: null,
      },
      [],
    ],
    ['the same branch', { source_revision_config: { repo_ref: 'main' } }, ['source_revision_config.repo_ref']],
    ['another branch', { source_revision_config: { repo_ref: 'next' } }, ['source_revision_config.repo_ref']],
    ['a commit', { source_revision_config: { repo_ref: SHA } }, ['source_revision_config.repo_ref']],
    ['the same path', { source_revision_config: { platform_config_path: 'platform.json' } }, []],
    [
      'another path',
      { source_revision_config: { platform_config_path: 'other.json' } },
      ['source_revision_config.platform_config_path'],
    ],
    ['the same resources', { source_config: { resource_spec: { memory_mb: 512, cpu: 1 } } }, []],
    ['some of the resources', { source_config: { resource_spec: { cpu: 1 } } }, []],
    ['no resources', { source_config: { resource_spec: {} } }, []],
    ['other resources', { source_config: { resource_spec: { cpu: 2 } } }, ['source_config.resource_spec.cpu']],
    ['another scale', { source_config: { resource_spec: { min_scale: 2, max_scale: 3 } } }, []],
    ['another command', { source_config: { install_command: 'npm install' } }, []],
    ['a first build command', { source_config: { build_command: 'npm run build' } }, []],
    ['tracing', { source_config: { tracing: false } }, []],
    ['a custom URL', { source_config: { custom_url: `https://${unusedId()}.example.com` } }, []],
    ['build_on_push', { source_config: { build_on_push: true } }, []],
    ['an empty list of secrets', { secrets: [] }, []],
    ['masked secrets', { secrets: MASKED }, []],
    ['masked secrets in another order', { secrets: [...MASKED].reverse() }, []],
    ['a new value of a secret', { secrets: [MASKED[0], { name: 'OTHER', value: 'new' }] }, ['secrets']],
    ['a list without one secret', { secrets: [MASKED[0]] }, ['secrets']],
    ['a source for one revision', { revision_source: 'githost' }, ['revision_source']],
    ['the same value of an immutable member', { source_config: { repo_url: 'https://git.example.com/acme/app' } }, []],
  ]

  it.each(table)('with %s creates a revision exactly if its plan says so', async (_, patch, reasons) => {
    const tenant = await newTenant()
    const { id } = await createFromRepository(tenant)
    const path = `/v2/deployments/${id}`
    const planned = (await tenant.patch(`${path}?dry_run=true`, patch)).body
    expect([planned.creates_revision, planned.reasons]).toEqual([reasons.length > 0, reasons])
    expect(await readRevisions(tenant, id)).toHaveLength(1)
    const applied = await tenant.patch(path, patch, { 'Plan-Digest': planned.plan_digest })
    expect(applied.status).toBe(200)
    const revisions = await readRevisions(tenant, id)
    expect(revisions.map(one => one.reasons)).toEqual(reasons.length > 0 ? [reasons, ['created']] : [['created']])
    expect(applied.body.latest_revision_id).toBe(revisions[0]!.id)
  })

  it.each([
    ['repo_url', { repo_url: 'https://git.example.com/acme/else' }],
    ['integration_id', { integration_id: '11111111-1111-4111-8111-111111111111' }],
    ['deployment_type', { deployment_type: 'prod' }],
    ['template_id', { template_id: 'web' }],
  ])('that changes %s is refused, because it is immutable', async (member, source_config) => {
    const tenant = await newTenant()
    const { id } = await createFromRepository(tenant)
    const refused = await tenant.patch(`/v2/deployments/${id}`, { source_config })
    expect([refused.status, refused.body.code]).toEqual([400, 'member_immutable'])
    expect(refused.body.detail).toContain(`source_config.${member}`)
    const planned = (await tenant.patch(`/v2/deployments/${id}?dry_run=true`, { source_config })).body
    expect(planned.changes).toMatchObject([{ path: `source_config.${member}`, effect: 'immutable' }])
  })

  it('merges source_config and resource_spec, and clears the members that the query names', async () => {
    const tenant = await newTenant()
    const { id } = await createFromRepository(tenant)
    const path = `/v2/deployments/${id}`
    await tenant.patch(path, { source_config: { build_command: 'npm run build', resource_spec: { cpu: 2 } } })
    const { body } = await tenant.get(path)
    expect(body.source_config).toMatchObject({
      install_command: 'npm ci',
      build_command: 'npm run build',
    })
    expect(body.source_config.resource_spec).toEqual({ cpu: 2, memory_mb: 512 })
    const cleared = await tenant.patch(`${path}?clear=install_command,resource_spec.memory_mb`, {})
    expect(cleared.body.source_config.resource_spec).toEqual({ cpu: 2 })
    expect(cleared.body.source_config).toMatchObject({ install_command: null, build_command: 'npm run build' })
    expect((await tenant.patch(`${path}?clear=repo_url`, {})).status).toBe(422)
    for (const query of ['clear=build_command', 'clear=build_command&dry_run=true']) {
      const both = await tenant.patch(`${path}?${query}`, { source_config: { build_command: 'make' } })
      expect([both.status, both.body.code]).toEqual([400, 'source_rule'])
    }
  })

  it('clears all resources, which a source that needs them keeps as an empty object', async () => {
    for (const [app, over, left] of [[selfHosted, external, {}] as const, [undefined, {}, null] as const]) {
      const tenant = await newTenant(app ? { app } : {})
      const { id } = await createFromRepository(tenant, over)
      const { body } = await tenant.patch(`/v2/deployments/${id}?clear=resource_spec`, {})
      expect(body.source_config.resource_spec).toEqual(left)
    }
  })

  it('refuses a custom URL with an invalid host', async () => {
    const tenant = await newTenant()
    const { id } = await createFromRepository(tenant)
    for (const custom_url of ['shop.123', 'https://1.2.3.999/shop'])
      expect((await tenant.patch(`/v2/deployments/${id}`, { source_config: { custom_url } })).body.code).toBe(
        'invalid_request',
      )
  })

  it('leaves one revision in flight and the newest one waiting, and skips the others', async () => {
    const tenant = await newTenant()
    const { id } = await createFromRepository(tenant)
    for (const repo_ref of ['a', 'b', 'c'])
      await tenant.patch(`/v2/deployments/${id}`, { source_revision_config: { repo_ref } })
    const revisions = await readRevisions(tenant, id)
    expect(revisions.map(one => [one.number, one.status])).toEqual([
      [4, 'QUEUED'],
      [3, 'SKIPPED'],
      [2, 'SKIPPED'],
      [1, 'AWAITING_BUILD'],
    ])
  })

  it('with the artifact supersedes the revision that waited for it', async () => {
    const tenant = await newTenant()
    const { id } = await createFromRepository(tenant, {
      source: 'internal_container',
      source_config: {},
      source_revision_config: {},
      secrets: [],
    })
    const path = `/v2/deployments/${id}`
    await tenant.patch(path, { source_config: { resource_spec: { cpu: 2 } } })
    await tenant.patch(path, {
      source_revision_config: { image_uri: `registry.example.com/app@sha256:${'0'.repeat(64)}` },
    })
    const revisions = await readRevisions(tenant, id)
    expect(revisions.map(one => one.status)).toEqual(['AWAITING_DEPLOY', 'SKIPPED', 'SKIPPED'])
  })

  it('that breaks a rule of its source is refused', async () => {
    const tenant = await newTenant()
    const { id } = await createFromRepository(tenant)
    const path = `/v2/deployments/${id}`
    for (const patch of [
      { source_revision_config: { image_uri: 'nginx' } },
      { secret_references: [{ name: 'A', secret_name: 'a', secret_key: 'a' }] },
      { source_config: { build_on_push: true }, source_revision_config: { repo_ref: 'refs/tags/v1' } },
    ]) {
      const refused = await tenant.patch(path, patch)
      expect([refused.status, refused.body.code]).toEqual([400, 'source_rule'])
    }
    expect((await tenant.patch(path, { secrets: [{ name: 'NEW', value: '********' }] })).body.code).toBe(
      'secret_unknown',
    )
  })

  it('is refused in a dry run with the same code as without', async () => {
    const tenant = await newTenant()
    const { id } = await createFromRepository(tenant)
    const path = `/v2/deployments/${id}`
    const tag = { source_revision_config: { repo_ref: 'refs/tags/v1' }, source_config: { build_on_push: true } }
    const cases: [Record<string, unknown>, Record<string, string>, string][] = [
      [{ source_revision_config: { image_uri: 'nginx' } }, {}, 'source_rule'],
      [tag, {}, 'source_rule'],
      [{ secrets: [{ name: 'NEW', value: '********' }] }, {}, 'secret_unknown'],
      [{}, { 'If-Match': '"7"' }, 'precondition_failed'],
    ]
    const expectRefused = async (patch: Record<string, unknown>, headers: Record<string, string>, code: string) => {
      for (const query of ['', '?dry_run=true'])
        expect((await tenant.patch(path + query, patch, headers)).body.code, query).toBe(code)
    }
    for (const one of cases) await expectRefused(...one)
    await tenant.delete(path)
    await expectRefused({ secrets: [] }, {}, 'deployment_deleting')
  })

  it('keeps the resolved commit unless it sends the ref again, which its plan shows', async () => {
    const tenant = await newTenant()
    const { id, latest_revision_id } = await createFromRepository(tenant)
    const path = `/v2/deployments/${id}`
    const etag = (await tenant.get(path)).headers.get('ETag')
    const commit = { sha: SHA, message: null, author: null }
    await advanceRevisionTo(tenant, id, latest_revision_id, 'BUILDING', { commit })
    const resolved = await tenant.get(path)
    expect(resolved.body.source_revision_config).toMatchObject({ repo_ref: 'main', repo_commit_sha: SHA })
    expect(resolved.headers.get('ETag')).not.toBe(etag)
    const otherChange = await tenant.patch(path, { source_config: { resource_spec: { cpu: 2 } } })
    expect(otherChange.body.source_revision_config.repo_commit_sha).toBe(SHA)
    const sameRef = { source_revision_config: { repo_ref: 'main' } }
    const planned = (await tenant.patch(`${path}?dry_run=true`, sameRef)).body
    expect(planned.reasons).toEqual(['source_revision_config.repo_ref'])
    expect(planned.changes).toMatchObject([
      { path: 'source_revision_config.repo_ref', before: 'main', after: 'main' },
      { path: 'source_revision_config.repo_commit_sha', before: SHA, after: null, effect: 'revision' },
    ])
    expect((await tenant.patch(path, sameRef)).body.source_revision_config.repo_commit_sha).toBeNull()
  })

  it('that sends the same commit creates no revision', async () => {
    const tenant = await newTenant()
    const ref = { source_revision_config: { repo_ref: SHA, platform_config_path: 'platform.json' } }
    const { id, latest_revision_id } = await createFromRepository(tenant, ref)
    const commit = { sha: SHA, message: null, author: null }
    await advanceRevisionTo(tenant, id, latest_revision_id, 'BUILDING', { commit })
    const { body } = await tenant.patch(`/v2/deployments/${id}`, ref)
    expect(body).toMatchObject({ latest_revision_id, source_revision_config: { repo_commit_sha: SHA } })
  })

  it('that makes a name both a secret and a reference is refused', async () => {
    const tenant = await newTenant({ app: selfHosted })
    const makeReference = (name: string) => ({ name, secret_name: 'app', secret_key: 'key' })
    const makeSecret = (name: string) => ({ name, value: 'hush' })
    const { id } = await createFromRepository(tenant, {
      source: 'external_container',
      source_config: { resource_spec: {} },
      source_revision_config: { image_uri: 'nginx' },
      secrets: [makeSecret('SECRET')],
      secret_references: [makeReference('REFERRED')],
    })
    const path = `/v2/deployments/${id}`
    for (const query of ['?dry_run=true', '']) {
      for (const patch of [
        { secrets: [makeSecret('REFERRED'), makeSecret('OTHER')] },
        { secret_references: [makeReference('OTHER'), makeReference('SECRET')] },
      ]) {
        const refused = await tenant.patch(path + query, patch)
        expect([refused.status, refused.body.code]).toEqual([400, 'variable_doubled'])
        expect(refused.body.detail).toMatch(/: (REFERRED|SECRET)\./)
      }
      const swapped = { secrets: [makeSecret('REFERRED')], secret_references: [makeReference('SECRET')] }
      expect((await tenant.patch(path + query, swapped)).status).toBe(200)
      expect((await tenant.patch(path + query, { ...swapped, secret_references: [] })).status).toBe(200)
    }
    expect((await tenant.patch(path, { secrets: [makeSecret('SECRET')] })).status).toBe(200)
  })

  it('with a Plan-Digest is refused if its plan is another one now', async () => {
    const tenant = await newTenant()
    const { id } = await createFromRepository(tenant)
    const path = `/v2/deployments/${id}`
    const patch = { source_config: { install_command: 'npm install' } }
    const { plan_digest } = (await tenant.patch(`${path}?dry_run=true`, patch)).body
    const other = await tenant.patch(path, { source_config: { install_command: 'x' } }, { 'Plan-Digest': plan_digest })
    expect([other.status, other.body.code]).toEqual([409, 'plan_stale'])
    await tenant.patch(path, { source_config: { build_on_push: true } })
    expect((await tenant.patch(path, patch, { 'Plan-Digest': plan_digest })).body.code).toBe('plan_stale')
    expect((await tenant.patch(path, patch, { 'Plan-Digest': 'unknown' })).body.code).toBe('plan_stale')
  })

  it('creates revisions without gaps in their numbers under concurrent patches', async () => {
    const tenant = await newTenant()
    const { id } = await createFromRepository(tenant)
    const patchRepeatedly = async (n: number) => {
      for (let i = 0; i < 6; i++) {
        const { status } = await tenant.patch(`/v2/deployments/${id}`, {
          source_revision_config: { repo_ref: `b-${n}-${i}` },
        })
        expect(status).toBe(200)
      }
    }
    await Promise.all(Array.from({ length: 8 }, (_, n) => patchRepeatedly(n)))
    const all = (await tenant.get(`/v2/deployments/${id}/revisions?limit=100`)).body.resources as {
      number: number
      status: string
    }[]
    expect(all.map(one => one.number).sort((a, b) => a - b)).toEqual(Array.from({ length: 49 }, (_, i) => i + 1))
    const countStatus = (name: string) => all.filter(one => one.status === name).length
    expect([countStatus('AWAITING_BUILD'), countStatus('QUEUED'), countStatus('SKIPPED')]).toEqual([1, 1, 47])
  })
})
