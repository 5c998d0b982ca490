// `slipway events`, `audit`, `webhooks` and `doctor`.
import { spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { text as consumeText } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'
import { beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { VERSION } from '../../src/kernel/version.ts'
import { foreignServers, newTenant, type Tenant } from '../support/app.ts'
import { keyEnv, makeFolder, serveApp, startCli } from '../support/cli.ts'
import { type HereResult, makeHereRunner, startHere } from '../support/cli-here.ts'
import { waitFor } from '../support/commands.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import { newDeployment } from '../support/deployments.ts'
import { makeFakeFetch } from '../support/fake-fetch.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../support/sync-agent.ts'
import { startReceiver } from '../support/webhook-receiver.ts'

let url: string
/** The path of requests whose answer is cut after its first bytes. */
const faults = { cut: undefined as RegExp | undefined }
beforeAll(async () => {
  const served = await serveApp(async (request, pass) => {
    const response = await pass()
    if (!faults.cut?.test(request.url)) return response
    const bytes = new Uint8Array(await response.arrayBuffer())
    const { headers } = response
    headers.set('Content-Length', `${bytes.length}`)
    headers.set('Connection', 'close')
    return new Response(bytes.subarray(0, -1), { headers })
  })
  url = served.url
})
beforeEach(() => {
  faults.cut = undefined
})

async function setUp() {
  const tenant = await newTenant()
  return { tenant, run: makeHereRunner(url, tenant), runAsOwner: makeHereRunner(url, tenant.owner) }
}
type Changes = { path: string; after: unknown }[]
const keyOf = ({ changes }: { changes: Changes }) => changes.find(({ path }) => path === 'key')?.after
const failure = ({ code, error }: HereResult) => [code, error?.code]
const addTagKeys = async (tenant: Tenant, ...keys: string[]) => {
  for (const key of keys) await tenant.post('/v2/tag-keys', { key })
}

it('shows the newest value of each metric, of all revisions and of each by its number', async () => {
  const { tenant, run } = await setUp()
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  const { id, latest_revision_id } = await newDeployment(tenant, { ...makeListenerDeployment(listener), name: 'shop' })
  await agent.poll()
  const minute = new Date(Math.floor(Date.now() / 60_000) * 60_000 - 60_000).toISOString()
  const copies = [{ copy: '1', running: true, restarts: 0, memory_bytes: 3_145_728 }]
  const points = [{ deployment_id: id, revision_id: latest_revision_id, at: minute, copies }]
  const sent = await agent.post('/v1/sync/metrics', { agent_id: agent.agent_id, fence: agent.fence, points })
  expect([sent.status, sent.body]).toEqual([200, { refused: [] }])
  const { objects } = await run('metrics', 'shop')
  const memory = { metric: 'memory', unit: 'bytes', at: minute, value: 3_145_728 }
  expect(objects).toContainEqual({ ...memory, revision: null })
  expect(objects).toContainEqual({ ...memory, revision: 1 })
  expect(objects).toContainEqual({ metric: 'cpu', unit: 'cores', revision: 1, at: null, value: null })
})

it('shows the newest events, those of some types, and those from a number or a time on', async () => {
  const { tenant, run } = await setUp()
  await addTagKeys(tenant, 'a', 'b', 'c')
  const keysOf = ({ objects }: HereResult) => (objects as { changes: Changes }[]).map(keyOf)
  const all = await run('events', '--type', 'tag_key.*')
  const { number } = all.objects[0] as { number: number }
  expect(keysOf(all)).toEqual(['a', 'b', 'c'])
  expect(keysOf(await run('events', '--limit', '2'))).toEqual(['b', 'c'])
  expect(keysOf(await run('events', '--after', `${number}`))).toEqual(['b', 'c'])
  expect(keysOf(await run('events', '--after', `${number}`, '--limit', '1'))).toEqual(['b'])
  expect(keysOf(await run('events', '--since', '1h', '--type', '*.created')).slice(-3)).toEqual(['a', 'b', 'c'])
  expect((await run('events', '--since', '2099-01-01')).objects).toEqual([])
  for (const wrong of [
    ['--since', 'yesterday'],
    ['--since', '1h', '--after', '1'],
    ['--limit', 'all'],
  ])
    expect(failure(await run('events', ...wrong)), wrong.join(' ')).toEqual([2, 'usage'])
})

it('exports the workspace to standard output or to a file, as YAML or JSON', async () => {
  const { tenant, run, runAsOwner } = await setUp()
  await addTagKeys(tenant, 'team')
  const printed = await run('export', '--format', 'json')
  expect(JSON.parse(printed.out)).toMatchObject([{ kind: 'Workspace' }, { kind: 'TagKey', spec: { key: 'team' } }])
  const file = join(makeFolder(), 'workspace.yaml')
  const { objects } = await run('export', '-o', file)
  const text = readFileSync(file, 'utf8')
  expect(objects).toMatchObject([{ outcome: 'exported', file, format: 'yaml', bytes: Buffer.byteLength(text) }])
  expect([text, statSync(file).mode & 0o777]).toEqual([expect.stringContaining('kind: TagKey'), 0o600])
  expect(failure(await run('export', '--format', 'xml'))).toEqual([2, 'usage'])
  await tenant.owner.post('/workspaces', { display_name: 'Second' })
  expect(failure(await runAsOwner('export')), 'a key of two workspaces').toEqual([2, 'usage'])
})

it('lists the audit log, and exports it to a file of its own that appears when it is complete', async () => {
  const { tenant, runAsOwner, run } = await setUp()
  await addTagKeys(tenant, 'audited')
  await finishPendingWork()
  const created = ['--operation', 'create_tag_key', '--since', '1h']
  const listed = await runAsOwner('audit', 'list', ...created)
  expect(listed.objects).toMatchObject([{ api: { operation: 'create_tag_key' }, status: 'Success' }])
  expect((await runAsOwner('audit', 'list', '--until', '2020-01-02', '--since', '2020-01-01')).objects).toEqual([])
  const exported = await runAsOwner('audit', 'export', ...created)
  expect(exported.objects).toMatchObject([{ operation: 'create_tag_key', succeeded: true }])

  const folder = makeFolder()
  const file = join(folder, 'audit.csv')
  const toFile = ['audit', 'export', ...created, '--format', 'csv', '--output', file]
  faults.cut = /export/
  expect(failure(await runAsOwner(...toFile))).toEqual([1, 'no_connection'])
  expect(readdirSync(folder)).toEqual([])
  expect(failure(await runAsOwner('audit', 'export', ...created)), 'to standard output').toEqual([1, 'no_connection'])
  faults.cut = undefined
  const { objects } = await runAsOwner(...toFile)
  const text = readFileSync(file, 'utf8')
  expect(objects).toMatchObject([{ outcome: 'exported', file, bytes: Buffer.byteLength(text) }])
  expect(text.split('\r\n').map(line => line.split(',')[1])).toEqual(['operation', 'create_tag_key', undefined])
  expect([statSync(file).mode & 0o777, readdirSync(folder)]).toEqual([0o600, ['audit.csv']])

  const [link, pipe] = [join(folder, 'link'), join(folder, 'pipe')]
  symlinkSync(file, link)
  writeFileSync(file, '')
  expect((await runAsOwner(...toFile.with(-1, link))).code).toBe(0)
  expect([lstatSync(link).isSymbolicLink(), readFileSync(file, 'utf8')]).toEqual([true, text])
  spawnSync('mkfifo', [pipe])
  const reader = spawn('cat', [pipe])
  const piped = consumeText(reader.stdout)
  expect((await runAsOwner(...toFile.with(-1, pipe))).code).toBe(0)
  expect([lstatSync(pipe).isFIFO(), await piped]).toEqual([true, text])
  expect(failure(await runAsOwner(...toFile.with(-1, folder)))).toEqual([2, 'usage'])

  expect(failure(await run('audit', 'list')), 'a key of the workspace').toEqual([1, 'permission_missing'])
  expect(failure(await runAsOwner('audit', 'export', '--format', 'xml'))).toEqual([2, 'usage'])
})

it('creates a webhook, shows its secret once, tests it, and deletes it by its URL', async () => {
  const { run } = await setUp()
  const target = 'https://ci.example.com/hook'
  const created = await run('webhooks', 'create', target, '--type', 'tag_key.*,revision.*')
  expect([created.code, created.objects[0]]).toMatchObject([
    0,
    { url: target, event_types: ['tag_key.*', 'revision.*'], secret: expect.stringMatching(/^whsec_/) },
  ])
  const listed = await run('webhooks', 'list')
  expect(listed.objects).toMatchObject([{ url: target }])
  expect(listed.out).not.toContain(created.objects[0]!.secret)
  const pinged = await run('webhooks', 'ping', target)
  expect(pinged.objects).toMatchObject([{ outcome: 'refused', url: target }])
  expect(pinged.code).toBe(1)
  const unconfirmed = await run('webhooks', 'delete', target)
  expect(failure(unconfirmed)).toEqual([2, 'confirmation_required'])
  expect(unconfirmed.error!.message).toContain(target)
  expect((await run('webhooks', 'delete', target, '--yes')).objects).toMatchObject([{ outcome: 'deleted' }])
  expect(failure(await run('webhooks', 'ping', target))).toEqual([1, 'webhook_not_found'])
})

it('creates a channel by a secret from a file, tests it, and deletes it by its name', async () => {
  const { run } = await setUp()
  const file = join(makeFolder(), 'key')
  writeFileSync(file, `${'a'.repeat(32)}\n`)
  expect(failure(await run('channels', 'create', 'x', '--email', 'a@example.com', '--own'))).toEqual([2, 'usage'])
  const flags = ['--pagerduty', 'eu', '--secret-file', file, '--deploys', 'failed', '--default']
  const created = await run('channels', 'create', 'on call', ...flags)
  expect(created.objects[0]).toMatchObject({ name: 'on call', deploys: 'failed', is_default: true })
  const listed = await run('channels', 'list')
  expect(listed.objects).toMatchObject([{ name: 'on call', target: { kind: 'pagerduty', region: 'eu' } }])
  expect(listed.out).not.toContain('aaaa')
  const tested = await run('channels', 'test', 'on call')
  expect([tested.code, tested.objects[0]]).toMatchObject([1, { outcome: 'refused', error: 'upstream_error' }])
  expect(failure(await run('channels', 'delete', 'on call'))).toEqual([2, 'confirmation_required'])
  expect((await run('channels', 'delete', 'on call', '--yes')).objects).toMatchObject([{ outcome: 'deleted' }])
})

it('forwards events to this machine as a webhook sends them, again after a failed connection, none lost', async () => {
  const { tenant } = await setUp()
  const receiver = await startReceiver()
  onTestFinished(receiver.close)
  const webhook = makeFakeFetch({ 'https://ci.example.com': { 'POST /hook': () => new Response(null) } })
  foreignServers.fetch = webhook
  await tenant.post('/v2/webhooks', { url: 'https://ci.example.com/hook' })
  receiver.answer = (response, { json }) => {
    const isFirst = receiver.messages.filter(({ json: other }) => other.data.id === json.data.id).length === 1
    if (keyOf(json.data) === 'b' && isFirst) response.destroy()
    else response.writeHead(keyOf(json.data) === 'c' ? 500 : 204).end()
  }
  const listening = startHere({ url, key: tenant.key }, [
    'webhooks',
    'listen',
    '--forward',
    receiver.url,
    '--type',
    'tag_key.*,*.patched',
  ])
  const [{ secret, forward }] = (await waitFor(() => listening.seen()[0] && listening.seen())) as [
    { secret: string; forward: string },
  ]
  expect(forward).toBe(receiver.url)
  await addTagKeys(tenant, 'a', 'b', 'c')
  const deployment = (await tenant.post('/v2/deployments', makeImageBody({ name: 'shop' }))).body
  await tenant.patch(`/v2/deployments/${deployment.id}`, { source_config: { resource_spec: { min_scale: 1 } } })
  const deliveries = () => listening.seen().slice(1)
  await waitFor(() => deliveries().length >= 5)
  listening.stop()
  const { number } = deliveries().at(-1) as { number: number }
  const { next = '' } = (await listening.ended).error!
  expect(Number(/--after (\d+)$/.exec(next)?.[1])).toBeGreaterThanOrEqual(number)
  const created = { type: 'delivery', event: 'tag_key.created' }
  expect(deliveries()).toMatchObject([
    { ...created, status: 204, ms: expect.any(Number) },
    { ...created, error: expect.any(String) },
    { ...created, status: 204 },
    { ...created, status: 500 },
    { type: 'delivery', event: 'deployment.patched', status: 204 },
  ])

  const received = receiver.messages.map(({ body, headers }) => ({
    ...(new Webhook(secret).verify(body, headers) as { type: string }),
    id: headers['webhook-id']!,
    body,
  }))
  expect(received.map(({ type }) => type)).toEqual([...Array(4).fill('tag_key.created'), 'deployment.patched'])
  await finishPendingWork()
  for (const { id, body } of received) {
    const sent = webhook.requests.find(({ headers }) => headers.get('webhook-id') === id)
    expect(body).toEqual(sent!.body.replaceAll('http://slipway.test', url))
  }
  expect(JSON.parse(received.at(-1)!.body).data.deployment).toMatchObject({ id: deployment.id, name: 'shop' })
})

it('forwards nothing to another machine unless it is allowed to, and signs with a secret of a file', async () => {
  const { tenant, run } = await setUp()
  const listen = (...more: string[]) => run('webhooks', 'listen', ...more)
  expect(failure(await listen('--forward', 'https://ci.example.com'))).toEqual([2, 'usage'])
  expect(failure(await listen('--forward', 'http://127.0.0.1.example.com/'))).toEqual([2, 'usage'])
  expect(failure(await listen('--forward', 'ftp://localhost'))).toEqual([2, 'usage'])
  expect(failure(await listen('--forward', 'http://me:secret@localhost'))).toEqual([2, 'usage'])
  expect(failure(await listen('--forward', '3000', '--type', 'Deployment'))).toEqual([2, 'usage'])
  const secretFile = join(makeFolder({ secret: 'whsec_aHVzaC1odXNoLWh1c2gtaHVzaA==\n' }), 'secret')
  const options = ['--forward', 'https://ci.example.com', '--allow-remote', '--secret-file', secretFile]
  const listening = startHere({ url, key: tenant.key }, ['webhooks', 'listen', ...options])
  const [start] = (await waitFor(() => listening.seen()[0] && listening.seen())) as Record<string, unknown>[]
  expect(start).toMatchObject({ forward: 'https://ci.example.com/', secret: 'whsec_aHVzaC1odXNoLWh1c2gtaHVzaA==' })
  listening.stop()
  await listening.ended
})

it('checks the machine, the connection and the key, and exits with 1 if something is broken', async () => {
  const { tenant } = await setUp()
  const cwd = makeFolder({
    'package.json': '{}',
    '.env': 'TOKEN=hush',
    '.env.example': 'TOKEN=',
    '.slipwayignore': '!.env',
  })
  mkdirSync(join(cwd, '.config'))
  const config = join(cwd, '.config/login.json')
  writeFileSync(config, JSON.stringify({ url, key: tenant.key }))
  chmodSync(config, 0o644)
  await tenant.post('/v2/listeners', { compute_type: 'local', compute_id: 'silent' })
  for (const [compute_id, version] of Object.entries({ same: VERSION, early: '1.0.0', late: '0.999.0' })) {
    const { key } = await newListener(tenant, { compute_id })
    await makeSyncAgent(tenant, key).poll({ version })
  }
  const doctor = (env: Record<string, string>) => startCli(['doctor'], { cwd, env }).exited
  const proxy = { HTTPS_PROXY: 'http://user:hush@proxy.example.com' }
  const [well, refused, lost] = await Promise.all([
    doctor(proxy),
    doctor({ SLIPWAY_API_KEY: `slw_${'a'.repeat(40)}` }),
    doctor(keyEnv('http://127.0.0.1:1', tenant)),
  ])
  const statusOf = ({ objects }: { objects: Record<string, unknown>[] }) =>
    Object.fromEntries(objects.filter(({ type }) => type === 'check').map(({ check, status }) => [check, status]))
  expect([well.code, statusOf(well)]).toEqual([
    0,
    {
      node: 'ok',
      config: 'warning',
      proxy: 'warning',
      login: 'ok',
      connection: 'ok',
      version: 'ok',
      clock: 'ok',
      key: 'ok',
      workspace: 'ok',
      listener: 'warning',
      alerts: 'warning',
      folder: 'ok',
      ignore: 'warning',
    },
  ])
  expect(well.out).not.toMatch(new RegExp(`hush|${tenant.key}`))
  const agents = well.objects
    .filter(({ check }) => check === 'listener')
    .map(({ message, status }) => [message, status])
  expect(agents).toHaveLength(4)
  for (const [name, status] of Object.entries({ same: 'ok', early: 'ok', late: 'warning', silent: 'warning' }))
    expect(agents).toContainEqual([expect.stringMatching(new RegExp(`^${name} `)), status])
  expect([refused.code, statusOf(refused).key, refused.error?.code]).toEqual([1, 'failed', 'broken'])
  expect([lost.code, statusOf(lost).connection]).toEqual([1, 'failed'])
  for (const { objects } of [well, refused, lost])
    for (const { status, next } of objects.filter(({ status }) => status !== 'ok' && status !== undefined))
      expect([status, next]).toEqual([expect.any(String), expect.any(String)])
})
