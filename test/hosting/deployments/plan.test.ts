import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { describePatch } from '../../../src/hosting/deployments/patch.ts'
import { describePatchPlan } from '../../../src/hosting/deployments/plan.ts'
import type { DeploymentPatch } from '../../../src/hosting/deployments/schema.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import type { ClearableMember } from '../../../src/protocol/parts.schema.ts'
import { getApp, newTenant, startApp } from '../../support/app.ts'
import { makeImageBody } from '../../support/deployment-bodies.ts'
import { listRevisions, minimalBody } from '../../support/deployments.ts'
import { makeRepositoryBody } from '../../support/integrations.ts'
import { makeDigest, makeReference, PATCH_MEMBERS, put } from '../../support/patch-members.ts'

describe('plan_patch() in the database', () => {
  const stored = {
    version: 1,
    revisions: 4,
    source: 'githost',
    preview: null,
    secret_references: null,
    source_config: {},
    source_revision_config: { repo_commit_sha: 'c'.repeat(40) },
    secrets: [
      { name: 'KEPT', version: 1 },
      { name: 'OTHER', version: 3 },
    ],
  }
  const storedWith = (path: string, value: unknown) => {
    const over = put(path, value)
    const [outer] = path.split('.') as [keyof typeof stored]
    const isNested = path.includes('.')
    return {
      ...stored,
      ...over,
      ...(isNested && { [outer]: { ...(stored[outer] as object), ...(over[outer] as object) } }),
    }
  }
  const secret = (name: string, value = '********') => ({ name, value })
  const cases: [current: typeof stored, patch: DeploymentPatch, clear: ClearableMember[]][] = [
    ...PATCH_MEMBERS.flatMap(([path, before, after]) => {
      const patches = [before, after].map(value => put(path, value) as DeploymentPatch)
      const current = path === 'revision_source' ? stored : storedWith(path, before)
      return [stored, current].flatMap(row => patches.map(patch => [row, patch, []] as (typeof cases)[number]))
    }),
    [stored, {}, ['custom_url', 'resource_spec']],
    [storedWith('source_config.install_command', 'make'), {}, ['install_command', 'secrets']],
    [stored, { secrets: [secret('OTHER'), secret('KEPT')] }, []],
    [stored, { secrets: [secret('KEPT')] }, []],
    [stored, { secrets: [secret('KEPT'), secret('OTHER', 'new'), secret('NEW', 'new')] }, []],
    [
      { ...stored, source_config: { build_on_push: false, custom_url: 'a.example.com' } } as typeof stored,
      { source_config: { build_on_push: true, build_command: 'make' }, source_revision_config: { repo_ref: 'main' } },
      ['custom_url'],
    ],
  ]

  /** The stored configuration with the changes of the plan. */
  function applyChanges({ secrets: _, ...current }: typeof stored, changes: { path: string; after: unknown }[]) {
    const next = structuredClone(current) as Record<string, unknown>
    for (const { path, after } of changes) {
      const names = path.split('.')
      const last = names.pop()!
      const parent = names.reduce<Record<string, unknown>>((at, name) => {
        at[name] ??= {}
        return at[name] as Record<string, unknown>
      }, next)
      if (names.length > 0 && after === null) delete parent[last]
      else parent[last] = after
      if (names.length === 2 && Object.keys(parent).length === 0)
        delete (next.source_config as { resource_spec?: object }).resource_spec
    }
    return next
  }

  it('comes to a row with the changes that describePatchPlan() describes', async () => {
    const sent = cases.map(([current, patch, clear]) => ({
      current,
      patch: JSON.parse(
        describePatch(
          { ...patch, clear },
          (patch.secrets ?? []).map(one => ({ ...one, fingerprints: [] })),
        ),
      ),
    }))
    const [rows] = await runAsSystem(
      getApp().database,
      sql`
        select to_json(plan_patch(jsonb_populate_record(null::deployments, one -> 'current'), one -> 'patch'))
        from jsonb_array_elements(${JSON.stringify(sent)}::jsonb) with ordinality sent(one, place)
        order by place`,
    )
    const plans = (rows as string[][]).map(([plan]) => JSON.parse(plan!))
    expect(plans).toHaveLength(cases.length)
    for (const [i, [current, patch, clear]] of cases.entries()) {
      const planned = describePatchPlan(current, patch, clear, plans[i])
      const pathsOf = (effect: string) => planned.changes.filter(one => one.effect === effect).map(one => one.path)
      const described = { reasons: planned.reasons, in_place: pathsOf('in_place'), immutable: pathsOf('immutable') }
      const configuration = applyChanges(
        current,
        planned.changes.filter(({ path }) => !['secrets', 'revision_source', 'name', 'source'].includes(path)),
      )
      expect(plans[i], JSON.stringify(patch)).toMatchObject({ ...described, next: configuration })
      const next = plans[i].next.secrets as { name: string; version: number }[]
      const renewed = planned.secrets.filter(one => one.change !== 'removed').map(one => one.name)
      expect(next.filter(one => one.version === current.revisions + 1).map(one => one.name)).toEqual(renewed)
      const isReplaced = planned.reasons.includes('secrets')
      expect(next.map(one => one.name)).toEqual(
        (isReplaced ? (patch.secrets ?? []) : current.secrets).map(one => one.name),
      )
    }
  })
})

it('events show these members of a deployment and of a revision, and no sealed one', async () => {
  const query = sql<string[]>`
    select
      array(select jsonb_object_keys(recorded_deployment(null))),
      array(select jsonb_object_keys(recorded_revision(null)))`
  const [[row]] = (await runAsSystem(getApp().database, query)) as [[string[]]]
  const [ofDeployment, ofRevision] = row.map(text => text.slice(1, -1).split(',').sort().join(' '))
  const configuration = 'source source_config source_revision_config'
  expect(ofDeployment).toBe(`hold name parent_deployment_id preview secret_references secrets ${configuration} status`)
  expect(ofRevision).toBe('commit from_revision_id number reasons source source_revision_config status status_message')
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
  ])('from source %s changes nothing, and with one changed member changes only that', async (source, over) => {
    const tenant = await newTenant(source === 'external_container' ? { app: selfHosted } : {})
    const before = (await tenant.post('/v2/deployments', makeImageBody({ source, ...over }))).body
    const path = `/v2/deployments/${before.id}`
    expect((await tenant.patch(`${path}?dry_run=true`, before)).body).toMatchObject({ changes: [] })
    expect((await tenant.patch(path, before)).body).toEqual(before)
    const request = { ...before, source_config: { ...before.source_config, resource_spec: { memory_mb: 512 } } }
    const { body } = await tenant.patch(path, request)
    const resource_spec = { ...before.source_config.resource_spec, memory_mb: 512 }
    const source_config = { ...before.source_config, resource_spec }
    expect(body).toEqual({
      ...before,
      source_config,
      latest_revision_id: body.latest_revision_id,
      updated_at: body.updated_at,
    })
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
