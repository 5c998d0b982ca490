// The other commands of `slipway`: as processes with a pipe where they read one, a folder, signals or an editor.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { EDITOR } from '../../src/people/access/built-in-roles.ts'
import { newTenant, startApp, type Tenant } from '../support/app.ts'
import { type CliResult, keyEnv, makeFolder, serveApp, startCli } from '../support/cli.ts'
import { type HereResult, makeHereRunner } from '../support/cli-here.ts'
import { waitFor } from '../support/commands.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import { advanceRevisionTo, listRevisions } from '../support/deployments.ts'
import { type LoggedDeployment, newLoggedDeployment } from '../support/logged-deployment.ts'
import { setUpPreviews } from '../support/previews.ts'
import { serveRepositories } from '../support/pushes.ts'
import { newSession } from '../support/sessions.ts'

let url: string
beforeAll(async () => {
  url = (await serveApp()).url
})

/** With options, in a process of its own. */
function makeRunner(tenant: Tenant) {
  const here = makeHereRunner(url, tenant)
  return async (args: string[], options?: { input?: string; cwd?: string }): Promise<CliResult | HereResult> =>
    options ? startCli(args, { env: keyEnv(url, tenant), ...options }).exited : here(...args)
}

async function newShop() {
  const tenant = await newTenant()
  const { body } = await tenant.post('/v2/deployments', makeImageBody({ name: 'shop' }))
  const [revision] = await listRevisions(tenant, body.id)
  await advanceRevisionTo(tenant, body.id, revision!.id, 'DEPLOYED', { url: 'http://shop.localhost:9000' })
  return { tenant, id: body.id as string, run: makeRunner(tenant) }
}
const readSecret = async (tenant: Tenant, id: string, name: string) =>
  (await tenant.get(`/v2/deployments/${id}?reveal=true`)).body.secrets.find(
    (secret: { name: string }) => secret.name === name,
  )?.value
type Outcome = Pick<CliResult, 'code' | 'objects'>
const variablesOf = ({ objects }: Outcome) => objects.find(({ type }) => type === 'variables')
const outcome = ({ code, objects }: Outcome) => [code, objects.at(-1)?.outcome]

it('reads deployments, revisions and reasons, one JSON object a line', async () => {
  const { run, id, tenant } = await newShop()
  await tenant.post('/v2/deployments', makeImageBody({ name: 'shopless' }))
  const { body: key } = await tenant.post('/v2/tag-keys', { key: 'team' })
  const { body: value } = await tenant.post(`/v2/tag-keys/${key.id}/values`, { value: 'web' })
  await tenant.post(`/v2/deployments/${id}/tags`, { tag_value_ids: [value.id] })
  const serving = { name: 'shop', serving: 'current', url: 'http://shop.localhost:9000' }
  const list = await run(['list', '--tag', 'team=web', '--name', 'HO'])
  const status = await run(['status', 'shop'])
  const explain = await run(['explain', id])
  const revisions = await run(['revisions', 'shop'])
  const open = await run(['open', 'shop'])
  const whoami = await run(['whoami'])
  const api = await run(['api', 'get', `/v2/deployments/${id}`])
  expect(list.objects).toEqual([expect.objectContaining({ id, ...serving })])
  expect((await run(['list', '--health', 'broken'])).err).toMatch(/"type": ?"warning".*broken/)
  expect(status.objects).toEqual([expect.objectContaining({ id, ...serving, obstacles: [] })])
  expect(explain.objects).toEqual([{ name: 'shop', serving: 'current', reasons: [] }])
  const [past] = (await run(['status', 'shop', '--at', '2020-01-01'])).objects
  expect(past).toMatchObject({ deployment_id: id, past: null, present: { served: { number: 1 } } })
  expect(revisions.objects).toEqual([expect.objectContaining({ number: 1, status: 'DEPLOYED' })])
  expect(open.objects).toEqual([{ name: 'shop', url: serving.url }])
  expect(whoami.objects[0]).toMatchObject({ url, organization: { id: tenant.organization_id } })
  expect(api.objects).toEqual([(await tenant.get(`/v2/deployments/${id}`)).body])
})

it('sets, imports, lists and unsets variables, and never prints a value', async () => {
  const { run, id, tenant } = await newShop()
  const secret = 'hush-hush-value'
  const set = await run(['env', 'set', 'shop', 'PASSWORD', '--yes', '--detach'], { input: `${secret}\n` })
  expect(outcome(set)).toEqual([0, 'detached'])
  expect(await readSecret(tenant, id, 'PASSWORD')).toBe(secret)
  expect(await readSecret(tenant, id, 'TOKEN'), 'the others stay').toBe('hush')
  const cwd = makeFolder({ '.env': `# comment\nTOKEN="${secret}-2"\nMORE=${secret}-3\n` })
  const imported = await run(['env', 'import', 'shop', '.env', '--yes', '--detach'], { cwd })
  expect(outcome(imported)).toEqual([0, 'detached'])
  expect(await Promise.all(['TOKEN', 'MORE', 'PASSWORD'].map(name => readSecret(tenant, id, name)))).toEqual([
    `${secret}-2`,
    `${secret}-3`,
    secret,
  ])
  expect(variablesOf(imported)).toMatchObject({ added: ['MORE'], changed: ['TOKEN'], unchanged: [] })
  const again = await run(['env', 'import', 'shop', '.env'], { cwd })
  expect(outcome(again)).toEqual([0, 'unchanged'])
  expect(variablesOf(again)).toMatchObject({ added: [], changed: [], unchanged: ['MORE', 'TOKEN'] })
  const unset = await run(['env', 'unset', 'shop', 'MORE', 'TOKEN', '--yes', '--detach'])
  expect(outcome(unset)).toEqual([0, 'detached'])
  const listed = await run(['env', 'list', 'shop'])
  expect(listed.objects).toEqual([{ name: 'PASSWORD' }])
  for (const { out, err } of [set, imported, again, unset, listed]) expect(out + err).not.toContain(secret)
  const last = await run(['env', 'unset', 'shop', 'PASSWORD', '--yes', '--detach'])
  expect([outcome(last), variablesOf(last)?.removed]).toEqual([[0, 'detached'], ['PASSWORD']])
  expect((await tenant.get(`/v2/deployments/${id}`)).body.secrets).toEqual([])
  const refused = await run(['env', 'import', 'shop', '-'], { input: 'PORT=1\nA-B=2\nFINE=3\n' })
  // The platform sets PORT, so it is left out of a file.
  expect(refused.error?.errors?.map(({ loc }) => loc.join('.'))).toEqual(['A-B'])
})

it('removes a reference to a cluster secret, and keeps the other variables whatever their names', async () => {
  const tenant = await newTenant({ app: startApp({ settings: { SLIPWAY_MODE: 'self_hosted' } }) })
  const { body } = await tenant.post('/v2/deployments', {
    name: 'shop',
    source: 'external_container',
    source_config: { resource_spec: {} },
    source_revision_config: { image_uri: 'nginx' },
    secrets: [{ name: 'constructor', value: 'kept' }],
    secret_references: [{ name: 'REFERRED', secret_name: 'app', secret_key: 'key' }],
  })
  const unset = await makeRunner(tenant)(['env', 'unset', 'shop', 'REFERRED', '--yes', '--detach'])
  expect([outcome(unset), variablesOf(unset)?.removed]).toEqual([[0, 'detached'], ['REFERRED']])
  const { secrets, secret_references } = (await tenant.get(`/v2/deployments/${body.id}?reveal=true`)).body
  expect([secrets, secret_references]).toEqual([[{ name: 'constructor', value: 'kept' }], null])
})

describe('env edit', () => {
  /** Edits by the script, which has the path of the file in $1. */
  async function startEdit(script: string, ...flags: string[]) {
    const { tenant, id } = await newShop()
    const cwd = makeFolder({ 'edit.sh': `echo "$1 $(stat -c %a "$1" "$(dirname "$1")" | xargs)" > edited\n${script}` })
    const env = { ...keyEnv(url, tenant), EDITOR: 'sh ./edit.sh' }
    const command = startCli(['env', 'edit', 'shop', '--yes', '--detach', ...flags], { cwd, env })
    const readEdited = () => readFileSync(join(cwd, 'edited'), 'utf8').trim().split(' ')
    return { ...command, cwd, tenant, id, readEdited }
  }

  it('sets, adds and removes variables in a file of its own, which it deletes', async () => {
    const { exited, readEdited, tenant, id } = await startEdit('echo "NEW=1\n-TOKEN=" >> $1')
    const result = await exited
    expect(outcome(result)).toEqual([0, 'detached'])
    expect(variablesOf(result)).toMatchObject({ added: ['NEW'], removed: ['TOKEN'] })
    expect((await tenant.get(`/v2/deployments/${id}?reveal=true`)).body.secrets).toEqual([{ name: 'NEW', value: '1' }])
    const [file, ...modes] = readEdited()
    expect([modes, existsSync(file!), existsSync(dirname(file!))]).toEqual([['600', '700'], false, false])
  })

  it('changes nothing when lines are deleted, and shows values only with --reveal', async () => {
    const { exited, cwd, tenant, id } = await startEdit('cp $1 seen; echo > $1', '--reveal')
    expect(outcome(await exited)).toEqual([0, 'unchanged'])
    expect(readFileSync(join(cwd, 'seen'), 'utf8')).toMatch(/^TOKEN=hush$/m)
    const hidden = await startCli(['env', 'edit', 'shop', '--yes'], {
      cwd,
      env: { ...keyEnv(url, tenant), VISUAL: 'sh ./edit.sh' },
    }).exited
    expect(outcome(hidden)).toEqual([0, 'unchanged'])
    expect(readFileSync(join(cwd, 'seen'), 'utf8')).toMatch(/^TOKEN=$/m)
    expect(await listRevisions(tenant, id)).toHaveLength(1)
  })

  it('changes nothing when the editor fails', async () => {
    const { exited, readEdited, tenant, id } = await startEdit('echo NEW=1 >> $1; exit 3')
    const { code, error } = await exited
    expect([code, error?.code]).toEqual([1, 'editor_failed'])
    expect([existsSync(readEdited()[0]!), (await listRevisions(tenant, id)).length]).toEqual([false, 1])
  })

  it('leaves Ctrl-C to the editor', async () => {
    const { exited, kill, cwd } = await startEdit('until [ -e done ]; do sleep 0.05; done; echo NEW=1 >> $1')
    await waitFor(() => existsSync(join(cwd, 'edited')))
    for (const _ of [1, 2]) kill('SIGINT')
    writeFileSync(join(cwd, 'done'), '')
    const result = await exited
    expect(outcome(result)).toEqual([0, 'detached'])
    expect(variablesOf(result)).toMatchObject({ added: ['NEW'] })
  })

  it('deletes its file when it is told to end', async () => {
    const { exited, kill, cwd, readEdited } = await startEdit(
      'for wait in $(seq 400); do [ -e done ] && exit; sleep 0.05; done',
    )
    await waitFor(() => existsSync(join(cwd, 'edited')) && readEdited().length === 3)
    const file = readEdited()[0]!
    kill('SIGTERM')
    await waitFor(() => !existsSync(dirname(file)))
    writeFileSync(join(cwd, 'done'), '')
    expect((await exited).code).toBe(143)
  })
})

it('rolls back by number after its plan, releases the hold, and interrupts', async () => {
  const { run, id, tenant } = await newShop()
  const patch = { source_revision_config: { image_uri: 'registry.example.com/app:second' } }
  await tenant.patch(`/v2/deployments/${id}`, patch)
  const interrupted = await run(['interrupt', 'shop', '2', '--yes'])
  expect(outcome(interrupted)).toEqual([0, 'interrupted'])
  expect((await listRevisions(tenant, id))[0]!.status).toBe('INTERRUPTED')
  const unconfirmed = await run(['rollback', 'shop', '1'])
  expect([unconfirmed.code, unconfirmed.error?.next]).toEqual([2, 'slipway rollback shop 1 --yes'])
  const image = { path: 'source_revision_config.image_uri', after: 'registry.example.com/app:second' }
  const comparison = { type: 'comparison', before: { number: 1 }, after: { number: 2 }, changes: [image] }
  const differences = [await run(['diff', 'shop', '--exit-code'], {}), await run(['diff', 'shop', '1', '2'])]
  for (const { objects } of differences) expect(objects).toMatchObject([comparison])
  expect(differences.map(({ code }) => code)).toEqual([10, 0])
  const back = await run(['rollback', 'shop', '1', '--yes', '--detach'])
  expect(outcome(back)).toEqual([0, 'detached'])
  expect(back.objects).toMatchObject([{ type: 'comparison' }, { type: 'plan', changes: expect.any(Array) }, {}])
  expect((await listRevisions(tenant, id))[0]).toMatchObject({ number: 3, reasons: ['rolled_back'] })
  expect(outcome(await run(['release', 'shop']))).toEqual([0, 'released'])
  expect((await tenant.get(`/v2/deployments/${id}`)).body.hold).toBeNull()
})

it('scales processes at once, without a revision, and status names them', async () => {
  const { run, id, tenant } = await newShop()
  expect(outcome(await run(['scale', 'shop', 'web=2', 'worker=3', '--yes']))).toEqual([0, 'changed'])
  expect(outcome(await run(['scale', 'shop', 'mail=0', '--yes']))).toEqual([0, 'changed'])
  const { source_config } = (await tenant.get(`/v2/deployments/${id}`)).body
  expect(source_config.resource_spec).toMatchObject({
    min_scale: 2,
    max_scale: 2,
    process_scale: { worker: 3, mail: 0 },
  })
  expect(await listRevisions(tenant, id)).toHaveLength(1)
  const [status] = (await run(['status', 'shop'])).objects
  const copies = [
    ['web', 2],
    ['mail', 0],
    ['worker', 3],
  ]
  expect(status!.processes).toEqual(expect.arrayContaining(copies.map(([name, copies]) => ({ name, copies }))))
  const moving = ['web=0-4', '--by', 'requests', '--target', '50', '--idle', '300', '--frozen', '60']
  expect((await run(['scale', 'shop', ...moving])).error?.next).toBe(`slipway scale shop ${moving.join(' ')} --yes`)
  expect(outcome(await run(['scale', 'shop', ...moving, '--yes']))).toEqual([0, 'changed'])
  const { source_config: moved } = (await tenant.get(`/v2/deployments/${id}`)).body
  const settings = { scale_metric: 'requests', scale_target: 50, idle_seconds: 300, frozen_seconds: 60 }
  expect(moved.resource_spec).toMatchObject({ min_scale: 0, max_scale: 4, ...settings, process_scale: { worker: 3 } })
  const served = await run(['traffic', 'shop', '1=50'])
  expect([served.error?.code, served.error?.next]).toEqual(['usage', 'slipway revisions shop'])
  expect(outcome(await run(['scale', 'shop', 'worker=0-4', '--by', 'queue', '--path', '/q', '--yes']))).toEqual([
    0,
    'changed',
  ])
  expect(outcome(await run(['scale', 'shop', 'worker=1-5', '--target', '20', '--yes']))).toEqual([0, 'changed'])
  const worker = { min_scale: 1, max_scale: 5, scale_metric: 'queue', scale_target: 20, scale_path: '/q' }
  const specOf = async () => (await tenant.get(`/v2/deployments/${id}`)).body.source_config.resource_spec
  expect(await specOf()).toMatchObject({ scale_target: 50, process_scale: { mail: 0 }, process_scaling: { worker } })
  expect(outcome(await run(['scale', 'shop', 'worker=2', '--yes']))).toEqual([0, 'changed'])
  expect(await specOf()).toMatchObject({ process_scale: { mail: 0, worker: 2 }, process_scaling: {} })
  const unclear = [
    ['worker'],
    ['worker=1-2', '--idle', '60'],
    ['worker=1-2', 'web=1-2', '--by', 'cpu'],
    ['web=0-2', '--idle', 'soon'],
  ]
  for (const words of unclear) {
    const refused = await run(['scale', 'shop', ...words])
    expect([refused.code, refused.error?.code]).toEqual([2, 'usage'])
  }
})

it('sets the steps of later revisions from words, options and files, and keeps what none of them names', async () => {
  const { run, id, tenant } = await newShop()
  const policy = async () => (await tenant.get(`/v2/deployments/${id}`)).body.rollout
  expect((await run(['rollout', 'shop'])).objects).toMatchObject([{ rollout: null, rollout_progress: null }])
  expect((await run(['rollout', 'shop', '1=90s', '10=10m:500'])).objects).toEqual([
    expect.objectContaining({ name: 'shop', rollout: await policy() }),
  ])
  expect(await policy()).toMatchObject({
    steps: [
      { share: 1, minutes: 1.5, requests: 0 },
      { share: 10, minutes: 10, requests: 500 },
    ],
    gates: { errors: { margin: 0.01 }, latency: { margin: 0.02 }, restarts: { most: 0 }, webhook: null, scores: [] },
  })
  const { steps } = await policy()
  await run(['rollout', 'shop', '--latency', 'off', '--score', 'helpful=0.1', '--score', 'polite'])
  expect(await policy()).toMatchObject({
    steps,
    gates: { errors: { margin: 0.01 }, latency: null, scores: [{ key: 'helpful', margin: 0.1 }, { key: 'polite' }] },
  })
  const file = join(makeFolder({}), 'policy.yaml')
  writeFileSync(file, 'steps:\n  - share: 25\n    minutes: 0\ngates:\n  restarts: {most: 3}\n')
  await run(['rollout', 'shop', '--file', file])
  expect(await policy()).toMatchObject({ steps: [{ share: 25 }], gates: { errors: null, restarts: { most: 3 } } })
  const refused = [
    [['rollout', 'shop', '--pause'], 'rollout_not_running'],
    [['rollout', 'shop', '--promote'], 'confirmation_required'],
    [['rollout', 'shop', '--pause', '--off'], 'usage'],
    [['rollout', 'shop', '10=soon'], 'usage'],
    [['rollout', 'shop', '--score', 'helpful=much'], 'usage'],
    [['rollout', 'shop', '--errors', '101'], 'usage'],
    [['rollout', 'shop', '50=1m', '10=1m'], 'invalid_request'],
  ] as const
  for (const [args, code] of refused) expect((await run([...args])).error?.code, args.join(' ')).toBe(code)
  expect((await run(['rollout', 'shop', '--off'])).code).toBe(0)
  expect(await policy()).toBeNull()
})

it.each([
  ['events', ['events', '-f', '--type', 'tag_key.*'], (tenant: Tenant) => tenant.post('/v2/tag-keys', { key: 'team' })],
  [
    'log lines',
    ['logs', 'shop', '-f', '--since', '2025-06-01T00:00:00Z'],
    (_: Tenant, log: LoggedDeployment) => log.openLog()([{ message: 'second' }]),
  ],
])('follows %s until Ctrl-C', async (_, args, happen) => {
  const tenant = await newTenant()
  const log = await newLoggedDeployment({ tenant, name: 'shop' })
  await tenant.post('/v2/tag-keys', { key: 'first' })
  await log.openLog()([{ message: 'older', timestamp: '2025-01-01T00:00:00.000Z' }, { message: 'first' }])
  const { exited, kill, seen } = startCli(args, { env: keyEnv(url, tenant) })
  await waitFor(() => seen().length === 1)
  await happen(tenant, log)
  await waitFor(() => seen().length === 2)
  kill('SIGINT')
  const { code, out } = await exited
  expect([code, out.includes('older')]).toEqual([130, false])
})

it('lists previews, and approves the commit of a fork that waits', async () => {
  serveRepositories()
  const { tenant, parent, pull, preview } = await setUpPreviews({ forks: 'approve' })
  const sha = 'a'.repeat(40)
  await pull('opened', 1, { fork: true, sha })
  const run = makeRunner(tenant)
  const { objects } = await run(['previews', 'list', parent.id])
  expect(objects).toEqual([expect.objectContaining({ number: 1, state: 'awaiting_approval' })])
  const unconfirmed = await run(['previews', 'approve', parent.id, '1'])
  expect(unconfirmed.error).toMatchObject({ code: 'confirmation_required', message: expect.stringContaining(sha) })
  expect(outcome(await run(['previews', 'approve', parent.id, '1', '--yes']))).toEqual([0, 'approved'])
  expect(await preview()).toMatchObject({ approved_sha: sha })
  const { code, error } = await run(['previews', 'approve', parent.id, '7', '--yes'])
  expect([code, error?.code]).toEqual([1, 'preview_not_found'])
})

it('requests a preview of an image, and deletes it by its name', async () => {
  serveRepositories()
  const { tenant, parent, previews } = await setUpPreviews()
  const run = makeRunner(tenant)
  const source = ['--image', 'registry.example.com/shop:1']
  const named = ['preview', '--name', parent.id]
  const { objects } = await run([...named, '--branch', 'try', ...source, '--detach'])
  expect(objects).toEqual([expect.objectContaining({ type: 'preview', kind: 'request', branch: 'try' })])
  expect((await run([...named, ...source, '--ref', 'main'])).code).toBe(2)
  expect((await run(['previews', 'delete', parent.id, 'other', '--yes'])).error?.code).toBe('preview_not_found')
  expect((await run(['previews', 'delete', parent.id, 'try', '--yes'])).code).toBe(0)
  expect(await previews()).toMatchObject([{ branch: 'try', state: 'ended' }])
})

it('requests a preview of a folder, of the deployment that the folder is linked to', async () => {
  serveRepositories()
  const { tenant, parent, previews } = await setUpPreviews({}, { source_config: { root_directory: 'web' } })
  const run = makeRunner(tenant)
  const folder = makeFolder({ 'web/package.json': '{"name": "web"}', 'web/server.js': 'serve()' })
  const unlinked = await run(['preview', folder, '--branch', 'try', '--detach'])
  expect([unlinked.code, unlinked.error?.next]).toEqual([2, 'slipway link NAME'])
  expect((await run(['link', parent.id], { cwd: folder })).code).toBe(0)
  expect((await run(['preview', folder, '--branch', 'try', '--detach'])).code).toBe(0)
  expect(await previews()).toMatchObject([{ branch: 'try', kind: 'request' }])
})

it.each([
  ['a name in place of a folder', 'shop', 'slipway preview --name shop'],
  ['a compose file', 'group', 'slipway preview FOLDER --name NAME'],
])('refuses a preview of %s, and says how to name the deployment', async (_, given, next) => {
  const cwd = makeFolder({ 'group/compose.yaml': 'services: {web: {image: nginx}}' })
  const { code, error } = await makeRunner(await newTenant())(['preview', given, '--branch', 'try'], { cwd })
  expect([code, error?.next]).toEqual([2, next])
})

it('sends any request, with a body from standard input', async () => {
  const tenant = await newTenant()
  const { code, objects } = await makeRunner(tenant)(['api', 'POST', '/v2/tag-keys', '--input', '-'], {
    input: '{"key": "team"}',
  })
  expect([code, objects[0]?.key]).toEqual([0, 'team'])
})

it('sends any request only while its plan is current', async () => {
  const { run, id, tenant } = await newShop()
  const [path, input] = [`/v2/deployments/${id}`, '{"source_config": {"resource_spec": {"min_scale": 1}}}']
  const plan = await run(['api', 'PATCH', `${path}?dry_run=true`, '--input', '-'], { input })
  const digest = plan.objects[0]?.plan_digest as string
  await tenant.patch(path, { source_config: { resource_spec: { max_scale: 2 } } })
  const { code, error } = await run(['api', 'PATCH', path, '--plan-digest', digest, '--input', '-'], { input })
  expect([code, error?.code]).toEqual([5, 'plan_stale'])
})

it('stores a key that the installation accepts, readable by its owner only, and removes it', async () => {
  const { key } = await newTenant()
  const cwd = makeFolder()
  const file = join(cwd, '.config/login.json')
  const login = (input: string) => startCli(['login', '--url', url, '--key-stdin'], { cwd, input }).exited
  expect((await login(`slw_${'a'.repeat(40)}`)).code).toBe(4)
  expect(() => statSync(file), 'a refused key is not stored').toThrow()
  const { code, out, err } = await login(`${key}\n`)
  expect([code, JSON.parse(err)]).toEqual([0, expect.objectContaining({ type: 'installation', url })])
  expect(out + err).not.toContain(key)
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect((await startCli(['list'], { cwd }).exited).code).toBe(0)
  expect((await startCli(['logout'], { cwd }).exited).code).toBe(0)
  expect((await startCli(['list'], { cwd }).exited).code).toBe(4)
})

it('gets a key that a person approves, and revokes it at the logout', async () => {
  const tenant = await newTenant()
  const person = await newSession(tenant, { workspaceRole: EDITOR })
  const decisions: [string, object?][] = [['denial'], ['approval', { workspace_id: tenant.tenant_id, access: 'all' }]]
  let user_code: string
  const server = await serveApp(async ({ url, method }, pass) => {
    const { pathname } = new URL(url)
    // The person is faster than the first poll.
    const [decision, body] = (pathname === '/device/token' && decisions.shift()) || []
    if (decision) await person.post(`/v2/me/device-requests/${user_code}/${decision}`, body)
    const response = await pass()
    if (pathname !== '/device/code' || method !== 'POST') return response
    const code = (await response.json()) as { user_code: string }
    user_code = code.user_code
    return Response.json({ ...code, interval: 0.01 })
  })
  const cwd = makeFolder()
  const run = (...args: string[]) => startCli(args, { cwd }).exited
  const denied = await run('login', '--url', server.url)
  expect([denied.code, denied.error?.code, denied.error?.next]).toEqual([4, 'access_denied', 'slipway login'])

  const { code, out, objects } = await run('login', '--url', server.url)
  const [asked, result] = objects
  expect(asked).toMatchObject({ type: 'device_code', verification_uri: `${server.url}/device` })
  const member = { id: person.member_id, email: `${person.member_id}@example.com` }
  expect([code, result]).toMatchObject([0, { outcome: 'signed_in', member, workspace: { id: tenant.tenant_id } }])
  const file = join(cwd, '.config/login.json')
  const { key } = JSON.parse(readFileSync(file, 'utf8'))
  expect([statSync(file).mode & 0o777, out.includes(key)]).toEqual([0o600, false])
  expect((await run('whoami')).objects).toMatchObject([{ member, expires_at: expect.any(String) }])

  expect((await run('logout')).objects).toMatchObject([{ outcome: 'signed_out', revoked: true }])
  expect((await tenant.as(key).get('/v2/me')).body.code).toBe('key_revoked')
})

it('has a package of one file, which runs without the repository', async () => {
  const folder = makeFolder()
  execFileSync(process.execPath, [join(import.meta.dirname, '../../scripts/cli-package.ts'), folder])
  const tarball = readdirSync(folder).find(name => name.endsWith('.tgz'))!
  expect(readdirSync(folder).sort()).toEqual(['package.json', tarball, 'slipway.mjs', 'slipway.schema.json'])
  // Leaves the first folder out, as npm does.
  execFileSync('tar', ['xzf', join(folder, tarball), '-C', folder])
  expect(readdirSync(join(folder, 'package')).sort()).toEqual(['package.json', 'slipway.mjs', 'slipway.schema.json'])
  const main = join(folder, 'package', 'slipway.mjs')
  const { tenant } = await newShop()
  const { code, objects } = await startCli(['list'], { main, env: keyEnv(url, tenant) }).exited
  expect([code, objects[0]?.name]).toEqual([0, 'shop'])
  const packed = await startCli(['deploy', '--dry-run'], { main, cwd: makeFolder({ 'index.html': '' }) }).exited
  expect([packed.code, packed.objects[0]?.files]).toEqual([0, 1])

  // Node takes some options, and variables of their files, from anywhere on a command line.
  const env = keyEnv(url, tenant)
  const cwd = makeFolder({
    'index.html': '',
    'own.cjs': 'process.exit(77)',
    '.env': 'NODE_OPTIONS=--require ./own.cjs\nMODE=live\n',
    'own.env': 'SLIPWAY_URL=http://127.0.0.1:1\nMODE=live\n',
    'plain.env': 'COLOR=blue\n',
  })
  const deploy = (...options: string[]) =>
    startCli(['deploy', '--yes', '--create', '--detach', '--name', 'site', ...options], { main, cwd, env }).exited
  expect(await deploy('--secrets-file', 'none')).toMatchObject({ code: 2, error: { code: 'usage' } })
  expect(await deploy('--env-file', 'index.html')).toMatchObject({ code: 2, error: { code: 'usage' } })
  expect(await deploy('--env-file', 'own.env')).toMatchObject({ code: 2, error: { code: 'usage' } })
  expect((await deploy('--secrets-file', '.env', '--env-file', 'plain.env')).code).toBe(0)
  const { resources } = (await tenant.get('/v2/deployments?name=site')).body
  expect(resources[0].secrets.map(({ name }: { name: string }) => name).sort()).toEqual([
    'COLOR',
    'MODE',
    'NODE_OPTIONS',
  ])
})

describe('a wrong command exits with', () => {
  it.each([
    ['2, and suggests the right one', ['staus'], 2, 'usage', /status/],
    ['2, and suggests the right one of a group', ['env', 'lst'], 2, 'usage', /list/],
    ['2 for a missing argument', ['rollback'], 2, 'usage', /revision/],
    ['2 for an option that does not exist', ['list', '--nmae'], 2, 'usage', /--nmae.*--name/],
    ['2 for a time that is none', ['logs', '--since', 'yesterday'], 2, 'usage', /2h/],
    ['2 for a secret in an argument', ['env', 'set', 'shop', 'TOKEN=hush'], 2, 'usage', /standard input/],
    ['2 for a folder that is not linked', ['status'], 2, 'usage', /linked/],
    ['1 for a deployment that does not exist', ['status', 'nope'], 1, 'deployment_not_found', /nope/],
    ['1 for an operation that does not exist', ['api', 'GET', '/v2/nope'], 1, 'route_not_found', /./],
  ])('%s', async (_, args, exitCode, errorCode, message) => {
    const { code, error, out } = await makeRunner(await newTenant())(args, {})
    expect([code, error?.code, out]).toEqual([exitCode, errorCode, ''])
    expect(error?.message).toMatch(message)
  })
})
