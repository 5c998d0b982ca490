// `slipway apply -f`, `diff -f` and `export`: planned as a whole, applied step by step, and exported the same again.
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { dump } from 'js-yaml'
import { beforeAll, beforeEach, expect, it } from 'vitest'
import { KINDS, type WorkspaceDocument } from '../../src/client/apply/documents.ts'
import { featuresOf } from '../../src/protocol/engine-features.ts'
import { CLOSED_POLICY } from '../../src/protocol/listener-policy.ts'
import { newTenant } from '../support/app.ts'
import { makeFolder, serveApp } from '../support/cli.ts'
import { type HereResult, makeHereRunner } from '../support/cli-here.ts'
import { makeSyncAgent, newListener } from '../support/sync-agent.ts'

let url: string
/** Refuses writes of these paths. */
const faults = { refused: undefined as RegExp | undefined }
beforeAll(async () => {
  const served = await serveApp(async (request, pass) =>
    request.method !== 'GET' && faults.refused?.test(request.url)
      ? Response.json({ code: 'forced', title: 'Forced', detail: 'Refused by the test.' }, { status: 422 })
      : pass(),
  )
  url = served.url
})
beforeEach(() => {
  faults.refused = undefined
})

const template = { source: 'internal_template', source_revision_config: {} }
type Declared = { kind: string; name: string; spec: object; [member: string]: unknown }
const deployment = (name: string, more: object = {}, config: object = {}): Declared => ({
  kind: 'Deployment',
  name,
  spec: { ...template, source_config: { template_id: 'web-service', ...config } },
  ...more,
})
const DOCUMENTS: Declared[] = [
  { kind: 'Role', name: 'Operator', spec: { permissions: ['deployments:read', 'deployments:update'] } },
  { kind: 'Listener', name: 'local/machine-1', spec: { compute_type: 'local', compute_id: 'machine-1' } },
  { kind: 'TagKey', name: 'team', spec: {} },
  { kind: 'TagValue', name: 'team=payments', spec: { value: 'payments' } },
  {
    kind: 'Provider',
    name: 'issues',
    spec: {
      name: 'Issues',
      client_id: 'c',
      scopes: ['b', 'a'],
      auth_url: 'https://issues.example/a',
      token_url: 'https://issues.example/t',
    },
    secrets: ['client_secret'],
  },
  deployment('web', { secrets: ['TOKEN', 'OTHER'], tags: ['team=payments'] }, { build_command: 'make' }),
  deployment('worker', { listener: 'local/machine-1' }),
  { kind: 'Schedule', name: 'web/nightly', spec: { cron: '30 3 * * *', command: 'make report', process: 'worker' } },
  {
    kind: 'Webhook',
    name: 'https://ci.example.com/hook',
    spec: { event_types: ['revision.*'] },
    deployments: ['web'],
    tags: ['team=payments'],
  },
]
const copiesOf = (store: string): WorkspaceDocument => ({
  kind: 'Schedule',
  name: 'web/copies',
  spec: { cron: '0 3 * * *', action: { type: 'snapshot', store } },
})
const SECRETS = 'web/TOKEN=hush-1\nOTHER=hush-2\nProvider/issues/client_secret=hush-3\n'

async function setUp() {
  const tenant = await newTenant()
  const folder = makeFolder({ secrets: SECRETS })
  const write = (name: string, documents: object[] | string) => {
    const file = join(folder, name)
    mkdirSync(dirname(file), { recursive: true })
    const text = typeof documents === 'string' ? documents : documents.map(one => dump(one)).join('---\n')
    writeFileSync(file, text)
    return file
  }
  const owner = makeHereRunner(url, tenant.owner, tenant.tenant_id)
  const run = (verb: string, file: string, ...flags: string[]) =>
    owner('--yes', verb, '-f', file, '--secrets-file', join(folder, 'secrets'), ...flags)
  const exported = async () => {
    const { out } = await owner('export', '--format', 'json')
    return JSON.parse(out) as WorkspaceDocument[]
  }
  return { tenant, folder, write, run, exported, owner }
}
const planOf = ({ objects }: HereResult) =>
  objects
    .filter(({ type, action }) => type === 'planned' && action !== 'nothing')
    .map(({ kind, name, action, changes }) => [
      action,
      `${kind} ${name}`,
      ...(changes as { path: string }[]).map(({ path }) => path),
    ])
const actionsOf = (result: HereResult) => planOf(result).map(([action, title]) => `${action} ${title}`)
const lastOf = ({ objects }: HereResult) => objects.at(-1)

it('creates documents in the order of dependency, changes nothing the second time, and exports the same', async () => {
  const { write, run, exported, tenant, owner } = await setUp()
  const documents = DOCUMENTS.toSpliced(-2, 0, copiesOf('database'))
  const file = write('all.yaml', documents.toReversed())
  const diff = await run('diff', file, '--exit-code')
  expect(actionsOf(diff)).toEqual(documents.map(({ kind, name }) => `create ${kind} ${name}`))
  expect(process.exitCode).toBe(10)
  process.exitCode = undefined
  const applied = await run('apply', file, '--plan-digest', lastOf(diff)!.plan_digest as string)
  expect(applied.error).toBeUndefined()
  expect(lastOf(applied)).toMatchObject({ outcome: 'applied', applied: documents.length })
  const { body: web } = await tenant.get('/v2/deployments?name=web')
  expect(web.resources[0]).toMatchObject({ secrets: [{ name: 'TOKEN' }, { name: 'OTHER' }] })
  const again = await run('apply', file)
  expect([planOf(again), lastOf(again)]).toEqual([[], expect.objectContaining({ outcome: 'unchanged' })])
  const other_store = await run('diff', write('copies.yaml', [copiesOf('redis')]))
  expect(other_store.error).toMatchObject({ code: 'documents_invalid' })

  // The export of it, in another workspace, is the same workspace, and needs only values of secrets.
  const text = (await owner('export')).out
  const other = await setUp()
  const copy = other.write('workspace.yaml', text)
  const before = await exported()
  expect((await other.run('apply', copy)).error).toBeUndefined()
  expect(await other.exported()).toEqual(before)
  expect(planOf(await other.run('diff', copy))).toEqual([])
  expect(text).toContain(`# yaml-language-server: $schema=${url}/schemas/slipway.json`)
  expect(text).not.toContain('hush')
})

it('plans each member that differs, and removes what a document leaves out', async () => {
  const { write, run, tenant } = await setUp()
  expect((await run('apply', write('all.yaml', DOCUMENTS))).error).toBeUndefined()
  const { body: listed } = await tenant.get('/v2/deployments?name=web')
  const first = listed.resources[0].latest_revision_id
  const changed = write('all.yaml', [
    { kind: 'Role', name: 'Operator', spec: { description: 'of shops', permissions: ['deployments:read'] } },
    { kind: 'TagKey', name: 'team', spec: {} },
    { kind: 'TagValue', name: 'team=shops', spec: { value: 'shops' } },
    deployment('web', { secrets: ['TOKEN'], tags: ['team=shops'], owner: 'shop' }, { install_command: 'npm ci' }),
    { kind: 'Provider', name: 'issues', spec: { ...DOCUMENTS[4]!.spec, name: 'Tracker' }, secrets: ['client_secret'] },
    { kind: 'Schedule', name: 'web/nightly', spec: { cron: '0 4 * * *', command: 'make report' } },
    { kind: 'Webhook', name: 'https://ci.example.com/hook', spec: { enabled: false } },
  ])
  const result = await run('apply', changed)
  expect(result.error).toBeUndefined()
  expect(planOf(result)).toEqual([
    ['change', 'Role Operator', 'description', 'permissions'],
    ['create', 'TagValue team=shops', 'value'],
    ['change', 'Provider issues', 'name'],
    ['change', 'Deployment web', 'source_config.install_command', 'source_config.build_command', 'owner', 'tags'],
    ['change', 'Schedule web/nightly', 'process', 'cron'],
    ['change', 'Webhook https://ci.example.com/hook', 'event_types', 'deployment_ids', 'tag_value_ids', 'enabled'],
  ])
  const planned = result.objects.find(({ name }) => name === 'web')
  expect(planned?.secrets).toEqual([{ name: 'OTHER', change: 'removed' }])
  const { body: web } = await tenant.get(`/v2/deployments/${listed.resources[0].id}`)
  expect(web).toMatchObject({ owner: 'shop', secrets: [{ name: 'TOKEN' }] })
  expect(web.source_config).toMatchObject({ build_command: null, install_command: 'npm ci' })
  expect(web.latest_revision_id).not.toBe(first)
  expect(planOf(await run('diff', changed))).toEqual([])
})

it('stops at the first failure, lists the applied documents, and resumes with the next apply', async () => {
  const { write, run } = await setUp()
  const file = write('all.yaml', DOCUMENTS)
  faults.refused = /\/v2\/auth\/providers$/
  const failed = await run('apply', file)
  expect(failed.error).toMatchObject({ code: 'forced', next: expect.stringContaining(`slipway diff -f ${file}`) })
  expect(lastOf(failed)).toMatchObject({
    type: 'partial',
    applied: ['Role Operator', 'Listener local/machine-1', 'TagKey team', 'TagValue team=payments'],
    failed: 'Provider issues',
    left: ['Deployment web', 'Deployment worker', 'Schedule web/nightly', 'Webhook https://ci.example.com/hook'],
  })
  faults.refused = undefined
  const rest = await run('apply', file)
  expect(actionsOf(rest).map(text => text.split(' ')[1])).toEqual([
    ...['Provider', 'Deployment', 'Deployment', 'Schedule', 'Webhook'],
  ])
  expect(rest.error).toBeUndefined()
})

it('deletes resources that their owner no longer declares, and takes over only with --take-over', async () => {
  const { write, run, tenant } = await setUp()
  await tenant.post('/v2/deployments', { name: 'by-hand', secrets: [], ...deployment('x').spec })
  const role = { kind: 'Role', name: 'Operator', spec: { permissions: ['deployments:read'] } }
  const hook = { kind: 'Webhook', name: 'https://ci.example.com/a', spec: {} }
  const nightly = { kind: 'Schedule', name: 'web/nightly', spec: { cron: '30 3 * * *', command: 'make report' } }
  const mine = write('mine.yaml', [role, hook, nightly, deployment('web'), deployment('old')])
  const theirs = write('theirs.yaml', [deployment('billing')])
  expect((await run('apply', mine, '--owner', 'shop')).error).toBeUndefined()
  expect((await run('apply', theirs, '--owner', 'billing')).error).toBeUndefined()
  expect((await run('apply', mine, '--prune')).code).toBe(2)

  // Nothing is deleted because a file is empty, or is not what it was.
  for (const text of ['', '# later\n---\n', 'kind: Deployment\n  name: web\n']) {
    const { error } = await run('apply', write('other.yaml', text), '--owner', 'shop', '--prune')
    expect(error?.code).toMatch(/^(usage|documents_invalid)$/)
  }
  write('mine.yaml', [deployment('web'), deployment('billing')])
  const refused = await run('apply', mine, '--owner', 'shop', '--prune')
  expect(refused.error?.errors).toEqual([
    { loc: [`${mine}:9`, 'Deployment billing', 'owner'], msg: expect.stringContaining('billing') },
  ])
  const taken = await run('apply', mine, '--owner', 'shop', '--prune', '--take-over')
  expect(taken.error).toBeUndefined()
  expect(planOf(taken)).toEqual([
    ['change', 'Deployment billing', 'owner'],
    ['delete', 'Webhook https://ci.example.com/a'],
    ['delete', 'Schedule web/nightly'],
    ['delete', 'Deployment old'],
    ['delete', 'Role Operator'],
  ])
  const { body: left } = await tenant.get('/v2/deployments?status=READY')
  expect(left.resources.map(({ name }: { name: string }) => name).sort()).toEqual(['billing', 'by-hand', 'web'])
})

it('has a JSON Schema of each kind, without values of secrets', async () => {
  const response = await fetch(`${url}/schemas/slipway.json`)
  expect(response.headers.get('Content-Type')).toBe('application/schema+json')
  const { definitions } = (await response.json()) as { definitions: Record<string, { properties: object }> }
  for (const kind of KINDS) expect(Object.keys(definitions[`${kind}Document`]!.properties)).toContain('spec')
  expect(definitions.NewDeployment?.properties).toMatchObject({ secrets: { maxItems: 0 } })
  expect(JSON.stringify(definitions)).not.toContain('client_secret"')
})

it('keeps what lasts where a document leaves it out, also on another engine, and removes other amounts', async () => {
  const { write, run, tenant } = await setUp()
  const { key } = await newListener(tenant, { compute_id: 'machine-1' })
  const lasting = {
    volumes: [{ name: 'media', persistentVolumeClaim: { claimName: 'media', storage_gi: 2 } }],
    volume_mounts: [{ name: 'media', mountPath: '/app/media' }],
    db_max_connections: 5,
    redis_memory_mb: 64,
  }
  const read = async () => (await tenant.get('/v2/deployments?name=web')).body.resources[0].source_config.resource_spec
  const apply = async (source_config: object) => {
    const document = deployment('web', { listener: 'local/machine-1' }, source_config)
    expect((await run('apply', write('web.yaml', [document]))).error).toBeUndefined()
    return read()
  }
  expect(await apply({ resource_spec: { ...lasting, cpu: 2 } })).toMatchObject({ ...lasting, cpu: 2 })
  expect(await apply({ resource_spec: {} })).toEqual(lasting)
  expect(await apply({})).toEqual(lasting)
  const { agent_id } = makeSyncAgent(tenant, key)
  for (const engine of ['process', 'container'] as const) {
    const policy = { ...CLOSED_POLICY, engine, features: featuresOf(engine) }
    const { changes } = await makeSyncAgent(tenant, key, agent_id).poll({ policy })
    expect(changes).toMatchObject([{ cleared_stores: [], revision: { resource_spec: lasting } }])
    await apply({ resource_spec: {}, build_command: `make ${engine}` })
  }
})

it('applies the plan with a digest or nothing', async () => {
  const { write, run, tenant } = await setUp()
  const file = write('web.yaml', [deployment('web')])
  const { plan_digest } = lastOf(await run('diff', file))!
  write('web.yaml', [deployment('web', {}, { build_command: 'make' })])
  const stale = await run('apply', file, '--plan-digest', plan_digest as string)
  expect(stale).toMatchObject({ code: 5, error: { code: 'plan_stale' } })
  expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
})

it('reports all faults of all files at once, with their lines, and changes nothing', async () => {
  const { write, folder, run, exported } = await setUp()
  const bomb = ['a: &a [x, x, x, x, x, x, x, x, x]']
  for (const [i, name] of [...'bcdefghi'].entries()) bomb.push(`${name}: &${name} [${`*${'abcdefgh'[i]},`.repeat(9)}]`)
  const deep = '['.repeat(5000)
  const files: Record<string, [text: string, ...expected: [line: number, path: string][]]> = {
    '01-bomb.yaml': [bomb.join('\n'), [1, '']],
    '02-circle.yaml': ['&a [*a]', [1, '']],
    '03-twice.yaml': ['kind: Role\nname: a\nname: b\nspec: {}\n', [3, '']],
    '04-proto.yaml': ['kind: Role\nname: a\nspec:\n  __proto__: {polluted: 1}\n', [3, '']],
    '05-kind.yaml': ['kind: Roel\nname: a\nspec: {}\n', [1, 'kind']],
    '06-deep.json': [deep, [1, '']],
    '06-half.json': ['{"kind": "Role",\n  "name": "a\\ud800", "spec": {}}', [2, '']],
    '06-many.yaml': [`[${'1,'.repeat(400_000)}1]`, [1, '']],
    '07-syntax.json': ['{"kind": "Role",\n  "name": ]}', [2, '']],
    '08-members.yaml': [
      ['---', '# A comment', 'kind: Role', 'name: Op', 'spec:', '  permissions:', '    - deployments:read']
        .concat('    - deploy', '  colour: red', '---', 'just text')
        .join('\n'),
      [8, 'spec.permissions.1'],
      [9, 'spec.colour'],
      [11, ''],
    ],
    '09-secret.yaml': [
      ['kind: Deployment', 'name: web', 'spec:', '  source: internal_template', '  source_config: {template_id: t}']
        .concat('  source_revision_config: {}', '  secrets: [{name: A, value: hush}]')
        .join('\n'),
      [7, 'spec.secrets'],
    ],
  }
  for (const [name, [text]] of Object.entries(files)) write(`hostile/${name}`, text)
  const before = await exported()
  const { error, out } = await run('apply', join(folder, 'hostile'))
  expect(error?.code).toBe('documents_invalid')
  const found = error!.errors!.map(({ loc }) => [
    loc[0],
    /^(Role|Deployment|Roel) /.test(`${loc[1]}`) ? loc[2] : loc[1],
  ])
  const expected = Object.entries(files).flatMap(([name, [, ...places]]) =>
    places.map(([line, path]) => [`${join(folder, 'hostile', name)}:${line}`, path || undefined]),
  )
  const sorted = (list: unknown[]) => list.map(one => JSON.stringify(one)).sort()
  expect(sorted(found)).toEqual(sorted(expected))
  expect(JSON.stringify(error) + out).not.toContain('hush')
  expect(({} as { polluted?: number }).polluted).toBeUndefined()
  expect(await exported()).toEqual(before)

  write('linked/role.yaml', [{ kind: 'Role', name: 'Op', spec: { permissions: [] } }])
  symlinkSync(join(folder, 'hostile/05-kind.yaml'), join(folder, 'linked/zz.yaml'))
  expect((await run('diff', join(folder, 'linked'))).error?.code).toBe('usage')
})

it('reports unknown names, missing secrets and refusals of the server before it writes', async () => {
  const { write, run, exported } = await setUp()
  const file = write('all.yaml', [
    { kind: 'Role', name: 'Operator', spec: { permissions: ['deployments:read'] } },
    deployment('web', { secrets: ['LOST'], tags: ['team=none'], listener: 'k8s/none', integration: 'github.com/none' }),
    deployment('bad', {}, { repo_url: 'https://git.example/a/b' }),
    { kind: 'Role', name: 'Operator', spec: { permissions: [] } },
    { kind: 'Webhook', name: 'https://ci.example.com/a', spec: {}, deployments: ['none'] },
  ])
  const before = await exported()
  expect((await run('apply', file)).error?.errors).toMatchObject([{ msg: expect.stringContaining('twice') }])
  const good = write('all.yaml', [
    deployment('web', { secrets: ['LOST'], tags: ['team=none'], listener: 'k8s/none' }),
    deployment('app', { integration: 'github.com/none' }),
    deployment('bad', {}, { repo_url: 'https://git.example/a/b' }),
    { kind: 'Webhook', name: 'https://ci.example.com/a', spec: {}, deployments: ['none'] },
  ])
  const { error } = await run('apply', good)
  expect(error?.errors?.map(({ loc }) => loc.slice(1).join(' ')).sort()).toEqual([
    'Deployment app integration',
    'Deployment bad spec.source_config.repo_url',
    'Deployment web listener',
    'Deployment web secrets.0',
    'Deployment web tags.0',
    'Webhook https://ci.example.com/a deployments.0',
  ])
  expect(await exported()).toEqual(before)
})
