// `slipway deploy` as a process with a pipe: from a folder to a URL, and everything that can come between.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { CLOSED_POLICY } from '../../src/protocol/listener-policy.ts'
import { newTenant, type Tenant, withClockAhead } from '../support/app.ts'
import { keyEnv, MAIN, makeFolder, runProgram, serveApp, startCli } from '../support/cli.ts'
import { waitFor } from '../support/commands.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import { getPlatformAgent, listRevisions, reportRevision } from '../support/deployments.ts'
import { startImageRegistry } from '../support/image-registry.ts'
import { makeSyncAgent, newListener } from '../support/sync-agent.ts'
import { makeSourceBody } from '../support/uploads-suite.ts'

let url: string
/** The path of requests that are cut, and what runs before a patch. */
const faults = { cut: undefined as RegExp | undefined, beforePatch: undefined as (() => Promise<unknown>) | undefined }

beforeAll(async () => {
  const served = await serveApp(async (request, pass) => {
    if (faults.cut?.test(request.url)) throw new Error('cut')
    if (request.method === 'PATCH' && request.headers.has('Plan-Digest')) await faults.beforePatch?.()
    return pass()
  })
  url = served.url
  return () => {
    faults.cut = faults.beforePatch = undefined
  }
})

const makeApplication = () => makeFolder({ 'package.json': '{"name": "@acme/Web Shop"}', 'server.js': 'serve()' })
const readLinkOf = (folder: string) => JSON.parse(readFileSync(join(folder, '.slipway/link.json'), 'utf8'))

function startDeploy(tenant: Tenant, args: string[], cwd = makeApplication()) {
  const deploy = startCli(['deploy', ...args, '--yes'], { cwd, env: keyEnv(url, tenant) })
  return { ...deploy, cwd }
}

/** The revision that the command follows. */
async function waitForRevision(tenant: Tenant, number = 1) {
  const revision = await waitFor(async () => {
    const { resources } = (await tenant.get('/v2/deployments')).body
    const revisions = resources[0] ? await listRevisions(tenant, resources[0].id) : []
    return revisions.find(one => one.number === number)
  })
  return { deployment_id: revision.deployment_id, revision_id: revision.id }
}

async function sendBuildLine(ref: { deployment_id: string; revision_id: string }, message: string) {
  const agent = await getPlatformAgent()
  const line = { timestamp: new Date().toISOString(), level: 'INFO', message }
  const { agent_id, fence } = agent
  const stream = crypto.randomUUID()
  const batch = { agent_id, fence, ...ref, kind: 'build', stream, from: 0, lines: [line] }
  expect((await agent.post('/v1/sync/logs', batch)).status).toBe(200)
}

it('creates a deployment for a folder, follows its build and ends with the URL; the next deploy finds it', async () => {
  const tenant = await newTenant()
  const { exited, cwd } = startDeploy(tenant, ['--create'])
  const ref = await waitForRevision(tenant)
  await reportRevision(ref, 'building')
  await sendBuildLine(ref, 'npm ci')
  await reportRevision(ref, 'deployed', { url: 'http://web-shop.localhost:9000' })
  const { code, objects, err } = await exited
  expect([code, JSON.parse(err)]).toMatchObject([0, { type: 'installation', url }])
  expect(objects.map(({ type }) => type)).toEqual(
    expect.arrayContaining(['archive', 'plan', 'upload', 'revision', 'log']),
  )
  expect(objects.find(({ type }) => type === 'log')).toMatchObject({ message: 'npm ci', kind: 'build' })
  const result = { type: 'result', outcome: 'deployed', name: 'web-shop', url: 'http://web-shop.localhost:9000' }
  expect(objects.at(-1)).toMatchObject({ ...result, serving: 'current', revision_id: ref.revision_id })
  expect(readLinkOf(cwd)).toMatchObject({ url, deployment_id: ref.deployment_id, name: 'web-shop' })

  const again = startDeploy(tenant, ['--detach'], cwd)
  expect((await again.exited).objects.at(-1)).toMatchObject({ outcome: 'detached', name: 'web-shop' })
  expect((await listRevisions(tenant, ref.deployment_id)).map(({ number }) => number)).toEqual([2, 1])
})

it('exits with 1 and the reason when the build fails', async () => {
  const tenant = await newTenant()
  const { exited } = startDeploy(tenant, ['--create'])
  const ref = await waitForRevision(tenant)
  await reportRevision(ref, 'building')
  await reportRevision(ref, 'failed', { message: 'npm ci exited with 1: no such package' })
  const { code, error } = await exited
  expect(code).toBe(1)
  expect(error).toMatchObject({ code: 'build_failed', next: 'slipway explain web-shop' })
  expect(error!.message).toContain('no such package')
})

it('exits with 0 when the revision serves, even if each log stream is cut', async () => {
  const tenant = await newTenant()
  faults.cut = /\/logs/
  const { exited } = startDeploy(tenant, ['--create'])
  await reportRevision(await waitForRevision(tenant), 'deployed')
  expect((await exited).code).toBe(0)
  faults.cut = undefined
})

it('exits with 3 when the revision takes longer than --timeout, and the revision goes on', async () => {
  const tenant = await newTenant()
  const { code, error } = await startDeploy(tenant, ['--create', '--timeout', '1']).exited
  expect([code, error?.code, error?.next]).toEqual([3, 'timed_out', 'slipway status web-shop'])
  const { deployment_id } = await waitForRevision(tenant)
  expect((await listRevisions(tenant, deployment_id))[0]!.status).toBe('AWAITING_BUILD')
})

it('detaches on Ctrl-C, says how to come back, and the revision goes on', async () => {
  const tenant = await newTenant()
  const { exited, kill, seen } = startDeploy(tenant, ['--create'])
  await waitFor(() => seen().some(({ type }) => type === 'revision'))
  kill('SIGINT')
  const { code, error } = await exited
  expect([code, error?.code, error?.next]).toEqual([130, 'detached', 'slipway status web-shop'])
  const { deployment_id } = await waitForRevision(tenant)
  expect((await listRevisions(tenant, deployment_id))[0]!.status).toBe('AWAITING_BUILD')
})

it('exits with 5 when the deployment changes after its plan was made, and applies nothing', async () => {
  const tenant = await newTenant()
  const { exited, cwd } = startDeploy(tenant, ['--create', '--detach'])
  expect((await exited).code).toBe(0)
  faults.beforePatch = async () => {
    faults.beforePatch = undefined
    const { deployment_id } = await waitForRevision(tenant)
    await tenant.patch(`/v2/deployments/${deployment_id}`, { source_config: { resource_spec: { min_scale: 1 } } })
  }
  const { code, error } = await startDeploy(tenant, [], cwd).exited
  expect([code, error?.code]).toEqual([5, 'plan_stale'])
})

it('creates nothing without a terminal unless --create says so, and names the command that does', async () => {
  const tenant = await newTenant()
  const given = ['--database', '--disk', 'media=/app/media:5', '--env', 'TOKEN=hush']
  const { code, error } = await startDeploy(tenant, given).exited
  const next = 'slipway deploy --database --disk media=/app/media:5 --env TOKEN --name web-shop --create --yes'
  expect([code, error?.code, error?.next]).toEqual([2, 'usage', next])
  expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
})

it('changes nothing without a terminal unless --yes confirms the plan', async () => {
  const tenant = await newTenant()
  const env = keyEnv(url, tenant)
  const { code, error } = await startCli(['deploy', '--create'], { cwd: makeApplication(), env }).exited
  expect([code, error?.code]).toEqual([2, 'confirmation_required'])
  expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
})

it('refuses to deploy a folder to a deployment that has another source', async () => {
  const tenant = await newTenant()
  const body = { name: 'web-shop', source: 'internal_template', source_config: { template_id: 'web-service' } }
  await tenant.post('/v2/deployments', { ...body, source_revision_config: {}, secrets: [] })
  const { code, error } = await startDeploy(tenant, ['--name', 'web-shop']).exited
  expect([code, error?.code]).toEqual([2, 'usage'])
})

it.each([
  ['a server that does not answer', { SLIPWAY_URL: 'http://127.0.0.1:1' }, [1, 'no_connection']],
  ['no key at all', { SLIPWAY_URL: '', SLIPWAY_API_KEY: '' }, [4, 'not_signed_in']],
])('exits with the code for %s', async (_, env, outcome) => {
  const tenant = await newTenant()
  const { exited } = startCli(['deploy', '--yes'], { cwd: makeApplication(), env: { ...keyEnv(url, tenant), ...env } })
  const { code, error } = await exited
  expect([code, error?.code]).toEqual(outcome)
})

it('exits with 4 when the key has expired', async () => {
  const tenant = await newTenant()
  const expires_at = new Date(Date.now() + 3_600_000).toISOString()
  const { key } = (await tenant.post('/workspaces/current/api-keys', { description: 'short', expires_at })).body
  const options = { cwd: makeApplication(), env: keyEnv(url, { key }) }
  const { code, error } = await withClockAhead(7_200_000, () => startCli(['deploy', '--yes'], options).exited)
  expect([code, error?.code]).toEqual([4, 'key_expired'])
})

it('lists the files and the build plan of a dry run without a key, and writes nothing', async () => {
  const cwd = makeApplication()
  const { code, objects } = await startCli(['deploy', '--dry-run'], { cwd }).exited
  expect([code, objects[0]!.names]).toEqual([0, ['package.json', 'server.js']])
  expect(objects.slice(1)).toMatchObject([{ type: 'build_plan', provider: 'node', start: 'node server.js' }])
  expect(existsSync(join(cwd, '.slipway'))).toBe(false)
})

it('refuses a folder that cannot be started, and creates nothing', async () => {
  const tenant = await newTenant()
  const { code, error } = await startDeploy(tenant, ['--create'], makeFolder({ 'index.php': '' })).exited
  expect([code, error?.code]).toEqual([2, 'usage'])
  expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
})

it('refuses a Dockerfile alone before its upload, and an image, where the agent runs processes alone', async () => {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const source_config = { listener_id: listener.id }
  await tenant.post('/v2/deployments', makeSourceBody({ name: 'shop', source_config }))
  await tenant.post('/v2/deployments', makeImageBody({ name: 'docs', source: 'internal_container', source_config }))
  await makeSyncAgent(tenant, key).poll({ policy: { ...CLOSED_POLICY, features: [] } })
  const deploy = (files: Record<string, string>) =>
    startDeploy(tenant, ['--name', 'shop', '--detach'], makeFolder({ Dockerfile: 'FROM scratch', ...files })).exited
  const { code, error, objects } = await deploy({ 'main.zig': '' })
  expect([code, error?.code]).toEqual([1, 'images_not_run'])
  expect(objects.map(({ type }) => type)).not.toContain('upload')
  expect((await deploy({ 'server.js': '', 'package.json': '{}' })).code).toBe(0)
  const image = await startDeploy(tenant, ['--name', 'docs', '--image', 'acme/docs:2']).exited
  expect([image.code, image.error?.code]).toEqual([1, 'images_not_run'])
})

it('sets variables of files, standard input and the command at the first deploy, and keeps them later', async () => {
  const tenant = await newTenant()
  const cwd = makeFolder({ 'package.json': '{"name": "shop"}', 'server.js': '', '.env': 'A=file\nB=file\nPORT=3000\n' })
  const env = keyEnv(url, tenant)
  const args = ['deploy', '--yes', '--detach']
  const first = startCli([...args, '--create', '--secrets-file', join(cwd, '.env'), '--env', 'B=two=2', '--env', 'C'], {
    cwd,
    env,
    input: 'asked\n',
  })
  const { code, objects } = await first.exited
  expect([code, objects[0]]).toMatchObject([0, { files: 2, left_out: ['.env'] }])
  const { deployment_id: id } = await waitForRevision(tenant)
  const reveal = async () => (await tenant.get(`/v2/deployments/${id}?reveal=true`)).body.secrets
  const [a, c] = [
    { name: 'A', value: 'file' },
    { name: 'C', value: 'asked' },
  ]
  expect(await reveal()).toEqual(expect.arrayContaining([a, { name: 'B', value: 'two=2' }, c]))
  expect((await startCli([...args, '--env', 'B='], { cwd, env }).exited).code).toBe(0)
  expect(await reveal()).toEqual(expect.arrayContaining([a, { name: 'B', value: '' }, c]))
})

it('deploys one application of a workspace by --root, which the deployment keeps', async () => {
  const tenant = await newTenant()
  const application = '{"scripts": {"start": "node a.js"}}'
  const cwd = makeFolder({
    'package.json': '{"name": "all", "workspaces": ["apps/*"]}',
    'apps/api/package.json': application,
    'apps/web/package.json': application,
  })
  const { code, error } = await startDeploy(tenant, ['--create'], cwd).exited
  expect([code, error?.next]).toEqual([2, 'slipway deploy --root apps/api'])
  const first = await startDeploy(tenant, ['--create', '--detach', '--root', 'apps/web'], cwd).exited
  expect([first.code, first.objects.at(-1)?.name]).toEqual([0, 'web'])
  const { deployment_id } = await waitForRevision(tenant)
  const again = await startDeploy(tenant, ['--detach'], cwd).exited
  expect(again.objects.find(({ type }) => type === 'build_plan')).toMatchObject({ root: 'apps/web' })
  const revisions = await listRevisions(tenant, deployment_id)
  expect(revisions).toMatchObject([{ number: 2 }, { number: 1, build_plan: { root: 'apps/web' } }])
  expect(revisions[0]!.build_plan).toEqual(revisions[1]!.build_plan)
})

it('leaves nothing behind when the archive of a first deploy cannot be sent', async () => {
  const tenant = await newTenant()
  faults.cut = /\/v2\/uploads/
  expect((await startDeploy(tenant, ['--create']).exited).code).toBe(1)
  faults.cut = undefined
  expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
})

it('plans a deploy, and exits with 10 for changes with --exit-code', async () => {
  const tenant = await newTenant()
  const { exited } = startCli(['plan', '--exit-code'], { cwd: makeApplication(), env: keyEnv(url, tenant) })
  const { code, objects } = await exited
  expect([code, objects.at(-1)!.type]).toEqual([10, 'plan'])
  expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
})

it('deploys an image to a new deployment and to the same again, and a deployment keeps its source', async () => {
  const tenant = await newTenant()
  const env = keyEnv(url, tenant)
  const image = (tag: string) => ['deploy', '--image', `registry.example.com/acme/web_app:${tag}`]
  const first = startCli([...image('one'), '--create', '--yes'], { env })
  const ref = await waitForRevision(tenant, 1)
  await reportRevision(ref, 'deployed', { url: 'http://web-app.localhost:9000' })
  expect([(await first.exited).code, (await first.exited).objects.at(-1)?.name]).toEqual([0, 'web-app'])
  const [second, folder] = await Promise.all([
    startCli([...image('two'), '--name', 'web-app', '--yes', '--detach'], { env }).exited,
    startCli(['deploy', '--name', 'web-app', '--yes'], { env, cwd: makeApplication() }).exited,
  ])
  expect(second.objects.at(-1)).toMatchObject({ outcome: 'detached', next: 'slipway status web-app' })
  const [newest] = await listRevisions(tenant, ref.deployment_id)
  expect(newest!.source_revision_config).toMatchObject({ image_uri: 'registry.example.com/acme/web_app:two' })
  expect([folder.code, folder.error?.next]).toEqual([2, 'slipway deploy --name NAME'])
})

it.each([
  ['two sources', ['.', '--image', 'a']],
  ['a dry run of what is not a folder', ['--template', 'web-service', '--dry-run']],
])('refuses %s before it sends anything', async (_, args) => {
  const { code, error } = await startCli(['deploy', ...args]).exited
  expect([code, error?.code]).toEqual([2, 'usage'])
})

it('init writes what the folder lacks, and overwrites nothing', async () => {
  const cwd = makeFolder({ 'notes.txt': '', 'a.log': '', '.gitignore': 'logs' })
  const undecided = await startCli(['init'], { cwd }).exited
  expect([undecided.code, undecided.error?.next]).toEqual([2, "slipway init --start 'node server.js'"])
  const { code, objects } = await startCli(['init', '--start', 'python3 main.py'], { cwd }).exited
  expect([code, objects]).toEqual([0, [expect.objectContaining({ written: ['slipway.json', '.slipwayignore'] })]])
  expect(JSON.parse(readFileSync(join(cwd, 'slipway.json'), 'utf8'))).toEqual({ start_command: 'python3 main.py' })
  expect(readFileSync(join(cwd, '.slipwayignore'), 'utf8')).toBe('*.log\n')
  expect((await startCli(['init', '--start', 'other'], { cwd }).exited).code).toBe(2)
  expect((await startCli(['init'], { cwd }).exited).objects).toEqual([expect.objectContaining({ written: [] })])
})

it.each([
  ['> /dev/full', 1],
  ['| true; exit $PIPESTATUS', 141],
])('does not exit with 0 when its result cannot be written, as with %j', async (redirection, exitCode) => {
  const script = `"$0" "$1" deploy --dry-run ${redirection}`
  const command = ['bash', '-c', script, process.execPath, MAIN]
  expect((await runProgram(command, { cwd: makeApplication() }).exited).code).toBe(exitCode)
})

const COMPOSE = `name: book
services:
  web:
    build: ./web
    ports: ["8080:5000"]
    command: ["python", "app.py"]
    environment:
      DATABASE_URL: postgres://a:b@db/a
      MODE: fast
  db:
    image: postgres:16
`

it('deploys a compose file as deployments with their databases, and again without a change of them', async () => {
  const tenant = await newTenant()
  const cwd = makeFolder({
    'compose.yaml': COMPOSE,
    'web/Dockerfile': 'FROM python:3\n',
    'web/app.py': 'serve()',
    'notes.txt': '',
  })
  const deploy = (...args: string[]) => startDeploy(tenant, ['--detach', ...args], cwd).exited
  expect(await deploy()).toMatchObject({ code: 2 })
  expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
  const { code, objects } = await deploy('--create')
  expect([code, objects.at(-1)]).toMatchObject([0, { outcome: 'detached', name: 'book-web' }])
  expect(objects.find(({ type }) => type === 'archive')).toMatchObject({ files: 3 })
  expect(objects[0]).toMatchObject({ type: 'compose', notes: [expect.stringContaining('`db`'), expect.anything()] })
  expect(objects.find(({ type }) => type === 'planned')).toMatchObject({ action: 'create', warnings: [] })
  for (const option of [['--env', 'MODE=slow'], ['--database'], ['compose.yaml', '--root', 'web']])
    expect(await deploy(...option)).toMatchObject({ code: 2 })
  const { resources } = (await tenant.get('/v2/deployments')).body
  expect(resources).toMatchObject([
    {
      name: 'book-web',
      owner: 'book',
      source: 'internal_source',
      source_config: { resource_spec: { db_max_connections: 100 } },
      source_revision_config: { platform_config_path: 'slipway.json' },
      secrets: [{ name: 'MODE' }],
    },
  ])
  expect(resources[0].source_revision_config.source_tarball_path).not.toBeNull()
  expect((await deploy()).objects.find(({ type }) => type === 'planned')).toMatchObject({
    action: 'change',
    changes: [{ path: 'files' }],
  })
  expect(await listRevisions(tenant, resources[0].id)).toHaveLength(2)
})

it('plans a compose file as its deploy would, and a failed upload of its first deploy leaves nothing', async () => {
  const tenant = await newTenant()
  const cwd = makeFolder({ 'compose.yaml': COMPOSE, 'web/Dockerfile': 'FROM python:3\n' })
  const plan = await startCli(['plan', '--exit-code'], { cwd, env: keyEnv(url, tenant) }).exited
  expect([plan.code, plan.objects.at(-1)]).toMatchObject([10, { type: 'plan', create: 1 }])
  faults.cut = /\/v2\/uploads/
  expect((await startDeploy(tenant, ['--create'], cwd).exited).code).toBe(1)
  faults.cut = undefined
  expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
})

describe('an image of a compose file', () => {
  const PLATFORMS = [
    { os: 'linux', architecture: 'amd64' },
    { os: 'linux', architecture: 'arm64' },
    { os: 'unknown', architecture: 'unknown' },
  ]
  const makeCompose = (image: string) =>
    makeFolder({ 'compose.yaml': `name: shop\nservices:\n  docs:\n    image: ${image}\n    ports: ["80:80"]\n` })

  it('is copied into the registry for the platforms of agents, once, and is the first revision', async () => {
    let address = ''
    const registry = await startImageRegistry(() => address)
    const served = await serveApp(undefined, {}, registry.settings)
    address = served.url
    const tenant = await newTenant({ app: served.app })
    const image = registry.addImage('acme/docs', '1', PLATFORMS)
    const cwd = makeCompose(image)
    const deploy = () =>
      startCli(['deploy', '--yes', '--create', '--detach'], { cwd, env: keyEnv(address, tenant) }).exited
    expect((await deploy()).code).toBe(0)
    const readDeployment = async () => (await tenant.get('/v2/deployments')).body.resources[0]
    const { id, source, source_revision_config } = await readDeployment()
    const { image_uri } = source_revision_config
    const [repository = '', digest = ''] = image_uri.replace(`${registry.host}/`, '').split('@')
    const { manifests } = JSON.parse(registry.stored.get(`${repository} ${digest}`)!.content.toString())
    expect([source, manifests]).toEqual([
      'internal_container',
      PLATFORMS.slice(0, 2).map(platform => expect.objectContaining({ platform })),
    ])
    const blobs = [...registry.stored.keys()].filter(key => key.startsWith(`${repository} sha256:`))
    // An index, two manifests, their two layers, and the layer and the configuration that they share.
    expect(blobs).toHaveLength(7)

    registry.requests.length = 0
    const again = await deploy()
    expect(again.objects.at(-1)).toMatchObject({ outcome: 'unchanged' })
    expect(registry.requests.filter(one => one.startsWith('PUT'))).toEqual([])
    registry.addImage('acme/docs', '1', PLATFORMS.slice(0, 1))
    expect((await deploy()).code).toBe(0)
    expect((await readDeployment()).source_revision_config.image_uri).toContain(`/${id}/docs@sha256:`)
    expect(await listRevisions(tenant, id)).toHaveLength(2)
  })

  it('that cannot be read is refused before anything is made', async () => {
    let address = ''
    const registry = await startImageRegistry(() => address)
    const served = await serveApp(undefined, {}, registry.settings)
    address = served.url
    const tenant = await newTenant({ app: served.app })
    const refuse = async (image: string) => {
      const args = ['deploy', '--yes', '--create']
      const { code, error } = await startCli(args, { cwd: makeCompose(image), env: keyEnv(address, tenant) }).exited
      return [code, error?.code]
    }
    expect(await refuse(`${registry.host}/acme/none:1`)).toEqual([1, 'registry_refused'])
    const windows = registry.addImage('acme/docs', '1', [{ os: 'windows', architecture: 'amd64' }])
    expect(await refuse(windows)).toEqual([1, 'image_not_copied'])
    expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
  })

  it('is pulled by the agent where the installation has no registry', async () => {
    const served = await serveApp(undefined, { registry: undefined })
    const tenant = await newTenant({ app: served.app })
    const env = keyEnv(served.url, tenant)
    const cwd = makeCompose('acme/docs:1')
    expect((await startCli(['deploy', '--yes', '--create', '--detach'], { cwd, env }).exited).code).toBe(0)
    const { resources } = (await tenant.get('/v2/deployments')).body
    expect(resources[0].source_revision_config.image_uri).toBe('acme/docs:1')
  })
})

it('names what a compose file has that cannot be translated, with its line, and changes nothing', async () => {
  const tenant = await newTenant()
  const cwd = makeFolder({ 'compose.yml': `${COMPOSE}    volumes: [./a.sql:/docker-entrypoint-initdb.d/a.sql]\n` })
  const { code, err } = await startDeploy(tenant, ['--create'], cwd).exited
  const { errors } = JSON.parse(err.trim().split('\n').at(-1)!)
  expect([code, errors]).toMatchObject([
    1,
    [{ loc: [expect.stringMatching(/compose\.yml:12$/), 'services.db.volumes.0'] }],
  ])
  expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
})

it('asks for a database, a Redis and disks with the deploy, and again without taking any away', async () => {
  const tenant = await newTenant()
  const deploy = (cwd: string | undefined, ...args: string[]) =>
    startDeploy(tenant, ['--create', '--detach', ...args], cwd)
  const first = deploy(undefined, '--database', '--disk', 'media=/app/media:5', '--disk', 'cache=/app/cache')
  expect((await first.exited).code).toBe(0)
  const read = async () => (await tenant.get('/v2/deployments')).body.resources[0].source_config.resource_spec
  const diskOf = (name: string, storage_gi: number) => ({
    name,
    persistentVolumeClaim: { claimName: name, storage_gi },
  })
  expect(await read()).toMatchObject({
    db_max_connections: 100,
    volumes: [diskOf('media', 5), diskOf('cache', 10)],
    volume_mounts: [
      { name: 'media', mountPath: '/app/media' },
      { name: 'cache', mountPath: '/app/cache' },
    ],
  })
  const second = deploy(first.cwd, '--database', '--redis', '--disk', 'media=/app/media:6')
  expect((await second.exited).code).toBe(0)
  const resources = await read()
  expect(resources).toMatchObject({ db_max_connections: 100, redis_memory_mb: 256 })
  expect(resources.volumes).toEqual([diskOf('cache', 10), diskOf('media', 6)])
  const wrong = await deploy(first.cwd, '--disk', 'media=media').exited
  expect(wrong).toMatchObject({ code: 2, error: { code: 'usage' } })
})
