import { describe, expect, it } from 'vitest'
import { newTenant, send, startApp, type Tenant } from '../../support/app.ts'
import { gzip, makeArchive, makeTar, packFiles } from '../../support/archives.ts'
import { listRevisions, newDeployment, reportRevision } from '../../support/deployments.ts'
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

describe('an upload for a new deployment', () => {
  async function upload(tenant: Tenant, archive: Uint8Array<ArrayBuffer>, settings = {}) {
    const { body, status } = await tenant.post('/v2/uploads', settings)
    expect(status).toBe(201)
    const { pathname, search } = new URL(body.upload_url)
    return { object_path: body.object_path, ...(await send('PUT', pathname + search, { raw: archive })) }
  }
  const workspace = () =>
    packFiles({
      'package.json': JSON.stringify({ workspaces: ['apps/*'] }),
      'package-lock.json': '{}',
      'apps/api/package.json': JSON.stringify({ scripts: { start: 'node api.js' } }),
      'apps/web/package.json': JSON.stringify({ scripts: { start: 'node web.js' }, dependencies: { ms: '2' } }),
      'apps/web/web.js': '',
    })
  const web = { provider: 'node', kind: 'web', root: 'apps/web', install_root: '', install: 'npm ci' }

  it('gives a deployment with graphs a key, which a secret of its own replaces', async () => {
    const tenant = await newTenant()
    const files = { 'langgraph.json': JSON.stringify({ graphs: { a: './a.mjs:graph' } }), 'a.mjs': '' }
    const { object_path } = await upload(tenant, await packFiles({ ...files, 'package.json': '{}' }))
    const create = makeSourceBody({ source_revision_config: { source_tarball_path: object_path } })
    const path = `/v2/deployments/${(await tenant.post('/v2/deployments', create)).body.id}`
    const readKey = async () => (await tenant.get(`${path}?reveal=true`)).body.application_key
    expect(await readKey()).toMatch(/^slg_/)
    for (const value of ['own', '']) {
      await tenant.patch(path, { secrets: [{ name: 'GRAPHS_API_KEY', value }] })
      expect(await readKey()).toBe(value || undefined)
    }
  })

  it('is planned with its settings, and its plan is that of the first revision', async () => {
    const tenant = await newTenant()
    const { object_path, body } = await upload(tenant, await workspace(), { root_directory: 'apps/web' })
    expect(body).toMatchObject({ object_path, build_plan: web, build_refusal: null })
    const create = makeSourceBody({
      source_config: { root_directory: 'apps/web', build_command: 'make' },
      source_revision_config: { source_tarball_path: object_path },
    })
    const plan = (await tenant.post('/v2/deployments?dry_run=true', create)).body
    expect(plan).toMatchObject({ build_plan: { ...web, build: 'make' }, warnings: [] })
    const created = await tenant.post('/v2/deployments', create, { 'Plan-Digest': plan.plan_digest })
    expect(created.status).toBe(201)
    const [revision, ...others] = await listRevisions(tenant, created.body.id)
    expect(others).toEqual([])
    expect(revision).toMatchObject({ number: 1, status: 'AWAITING_BUILD', build_plan: { ...web, build: 'make' } })
    const patch = { source_config: { root_directory: 'apps/api' } }
    const changed = (await tenant.patch(`/v2/deployments/${created.body.id}?dry_run=true`, patch)).body
    expect(changed).toMatchObject({ creates_revision: false, changes: [{ effect: 'in_place' }] })
    expect(changed.warnings).toEqual([expect.stringContaining('`root_directory`')])
    const other = { ...create, name: `${create.name}-2`, source_config: {} }
    const unplanned = await tenant.post('/v2/deployments?dry_run=true', other)
    expect([unplanned.status, unplanned.body.build_plan]).toEqual([200, undefined])
  })

  it('that cannot be started says why, and so does the plan of a deployment with it', async () => {
    const tenant = await newTenant()
    const { object_path, body } = await upload(tenant, await workspace())
    expect(body).toMatchObject({ build_plan: null, build_refusal: expect.stringContaining('apps/api') })
    const create = makeSourceBody({ source_revision_config: { source_tarball_path: object_path } })
    const { warnings } = (await tenant.post('/v2/deployments?dry_run=true', create)).body
    expect(warnings).toEqual([expect.stringContaining(body.build_refusal)])
  })

  it('reads the programs of a language, and slipway.json', async () => {
    const tenant = await newTenant()
    const python = { 'requirements.txt': 'flask', 'app.py': 'from flask import Flask\napp = Flask(__name__)' }
    expect((await upload(tenant, await packFiles(python))).body.build_plan).toMatchObject({ provider: 'python' })
    const set = { 'slipway.json': '{"start_command": "./run", "build_command": "make"}', run: '' }
    const { body } = await upload(tenant, await packFiles(set))
    expect(body.build_plan).toMatchObject({ start: './run', build: 'make' })
  })

  it('with more files than agents take is refused, and with more than are listed has no plan', async () => {
    const tenant = await newTenant()
    const entry = makeTar('').subarray(0, 512)
    const many = await gzip(Uint8Array.from(Buffer.concat(Array.from({ length: 100_001 }, () => entry))))
    const refused = await upload(tenant, many)
    expect([refused.status, refused.body.code]).toEqual([422, 'archive_too_many_files'])
    const some = Object.fromEntries(Array.from({ length: 20_001 }, (_, i) => [`${i}.txt`, '']))
    const { status, body } = await upload(tenant, await packFiles(some))
    expect([status, body.build_plan, body.build_refusal]).toEqual([200, null, null])
  })
})

it('the plan that an agent reports is that of the revision, and a report without one keeps it', async () => {
  const tenant = await newTenant()
  const { id: deployment_id, latest_revision_id: revision_id } = await newDeployment(tenant)
  const plan = {
    provider: 'command',
    kind: 'web' as const,
    root: '',
    install_root: '',
    tools: [],
    start: './run',
    site: null,
  }
  const build_plan = {
    ...plan,
    install: null,
    build: null,
    env: {},
    programs: [],
    certain: [],
    guessed: [],
    warnings: [],
  }
  await reportRevision({ deployment_id, revision_id }, 'deploying', { build_plan })
  await reportRevision({ deployment_id, revision_id }, 'deployed')
  expect((await listRevisions(tenant, deployment_id))[0]).toMatchObject({ status: 'DEPLOYED', build_plan })
})
