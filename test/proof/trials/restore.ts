// Backs up an installation that serves, destroys it, and restores it: beside its agent, then with nothing left.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { packTar } from 'modern-tar'
import pg from 'pg'
import { startPostgres } from '../../../src/host/embedded-postgres.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { describeDatabase } from '../../support/every-table.ts'
import { requestRouter } from '../../support/process-engine.ts'
import { findOtherPostgres, startOtherPostgres } from '../support/other-postgres.ts'
import { check, note, runTrial, skipped } from '../support/trial.ts'

const MAIN = join(import.meta.dirname, '../../../src/host/main.ts')
const LEASE = ['holds_removals_since', 'fence', 'agent_id', 'lease_expires_at', 'agent_version', 'last_seen_at']
const work = mkdtempSync(join(tmpdir(), 'slipway-restore-'))
const uploads = join(work, 'uploads')
const sealingKeys = `k1:${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64url')}`
type Settings = Record<string, string>

/** Runs a program of the installation to its end. */
async function run(args: string[], env: Settings): Promise<string> {
  const child = spawn(process.execPath, [MAIN, ...args], { env: { PATH: process.env.PATH!, ...env } })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => (output += chunk))
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`slipway ${args.join(' ')} ended with ${code}: ${output}`)
  return output
}

function start(args: string[], env: Settings, name: string) {
  const child = spawn(process.execPath, [MAIN, ...args], { env: { PATH: process.env.PATH!, HOME: work, ...env } })
  const log = createWriteStream(join(work, `${name}.log`), { flags: 'a' })
  child.stdout.pipe(log, { end: false })
  child.stderr.pipe(log, { end: false })
  return {
    log: () => readFileSync(join(work, `${name}.log`), 'utf8'),
    async stop() {
      if (child.exitCode !== null) return
      child.kill('SIGTERM')
      await once(child, 'exit')
    },
  }
}

async function until<T>(what: string, condition: () => Promise<T> | T, seconds = 120): Promise<NonNullable<T>> {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; await delay(100)) {
    const result = await Promise.resolve(condition()).catch(() => undefined)
    if (result) return result as NonNullable<T>
  }
  throw new Error(`It did not come to this: ${what}`)
}

/** A database of an owner who is no superuser. */
async function createDatabase(serverUrl: string, name: string): Promise<string> {
  const admin = new pg.Client({ connectionString: serverUrl })
  await admin.connect()
  await admin.query(`do $$ begin
    if to_regrole('owner') is null then create role owner login createrole password 'owner'; end if;
  end $$`)
  await admin.query(`create database ${name} owner owner`)
  await admin.end()
  return Object.assign(new URL(serverUrl), { pathname: name, username: 'owner', password: 'owner' }).href
}

async function describe(serverUrl: string, name: string): Promise<Record<string, unknown>> {
  const client = new pg.Client({ connectionString: Object.assign(new URL(serverUrl), { pathname: name }).href })
  await client.connect()
  const { schema: _, ...contents } = await describeDatabase(client, LEASE)
  await client.end()
  return contents
}

async function trial(): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  cleanup.defer(() => rmSync(work, { recursive: true, force: true, maxRetries: 9 }))
  const postgres = await startPostgres({ dataDir: join(work, 'postgres') })
  cleanup.defer(() => postgres.stop())
  const owner = await createDatabase(postgres.url, 'first')
  await run(['migrate'], { DATABASE_OWNER_URL: owner })
  const [port, router] = [await findFreePort(), await findFreePort()]
  const url = `http://127.0.0.1:${port}`
  const common = { SEALING_KEYS: sealingKeys, UPLOADS_DIR: uploads, PUBLIC_URL: url, ALLOW_LOOPBACK: 'true' }
  const loginsOf = async (address: string): Promise<Settings> => ({
    ...common,
    ...Object.fromEntries(
      (await run(['logins'], { DATABASE_OWNER_URL: address }))
        .trim()
        .split('\n')
        .map(line => [line.split('=', 1)[0]!, line.slice(line.indexOf('=') + 1)]),
    ),
  })
  const settings = await loginsOf(owner)
  const serve = async (env: Settings) => {
    const plane = start(['start'], { ...env, PORT: `${port}`, HOST: '127.0.0.1' }, 'control-plane')
    await until('the control plane is ready', async () => (await fetch(`${url}/readyz`)).ok)
    return plane
  }
  let plane = await serve(settings)
  cleanup.defer(() => plane.stop())
  const keys = (await run(['bootstrap', '--organization', 'Acme', '--platform-listener', 'machine'], settings)).match(
    /slw_\w+/g,
  )!
  const send = async (method: string, path: string, body?: unknown) => {
    const headers = { 'X-Api-Key': keys[0]!, 'Content-Type': 'application/json' }
    const response = await fetch(url + path, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`)
    return text ? JSON.parse(text) : null
  }
  const agentSettings = { SLIPWAY_URL: url, SLIPWAY_LISTENER_KEY: keys[1]!, AGENT_RUN_AS: 'root' }
  const startAgent = (...more: string[]) =>
    start(['agent', '--home', join(work, 'agent'), '--port', `${router}`, ...more], agentSettings, 'agent')
  let agent = startAgent()
  cleanup.defer(() => agent.stop())

  /** Applications outlive their agent, unless it was started with --stop. */
  async function stopEverything(): Promise<void> {
    await agent.stop()
    const leases = () => agent.log().split('lease acquired').length
    const before = leases()
    agent = startAgent('--stop')
    await until('the agent took over', () => leases() > before)
    await agent.stop()
  }

  // ---- an installation with all that a backup has to bring back
  const received: string[] = []
  const receiver = createServer((req, res) => {
    received.push(String(req.headers['webhook-id']))
    res.end()
  }).listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  cleanup.defer(() => void receiver.close())
  const webhook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`
  await send('POST', '/v2/webhooks', { url: webhook, event_types: ['deployment.created', 'revision.deployed'] })
  await send('POST', '/v2/auth/providers', {
    provider_id: 'calendar',
    name: 'Calendar',
    client_id: 'client',
    client_secret: 'hush-client',
    auth_url: 'https://auth.example.com/authorize',
    token_url: 'https://auth.example.com/token',
  })

  const archive = gzipSync(
    await packTar(
      [
        { header: { name: 'slipway.json', size: 0 }, body: '{"start_command": "node server.mjs"}' },
        {
          header: { name: 'server.mjs', size: 0 },
          body: `import { createServer } from 'node:http'
createServer((req, res) => res.end(process.env.TOKEN)).listen(process.env.PORT)`,
        },
      ].map(entry => ({ ...entry, header: { ...entry.header, size: entry.body.length } })),
    ),
  )
  const urls = new Map<string, string>()
  async function deploy(name: string): Promise<string> {
    const secrets = [{ name: 'TOKEN', value: `secret of ${name}` }]
    const body = { name, source: 'internal_source', source_config: {}, source_revision_config: {}, secrets }
    const { id } = await send('POST', '/v2/deployments', body)
    const upload = await send('POST', `/v2/deployments/${id}/upload-url`)
    await fetch(upload.upload_url, { method: 'PUT', body: archive })
    await send('PATCH', `/v2/deployments/${id}`, {
      source_revision_config: { source_tarball_path: upload.object_path },
    })
    urls.set(name, await until(`${name} serves`, async () => (await send('GET', `/v2/deployments/${id}`)).url))
    await until(`${name} answers`, () => answers(name))
    return id
  }
  const answers = async (name: string): Promise<boolean> =>
    (await requestRouter(urls.get(name)!)).body === `secret of ${name}`
  const ids = [await deploy('one'), await deploy('two'), await deploy('three')]
  await until('webhooks arrived', () => received.length >= 3)

  // ---- a backup under load
  let isWriting = true
  let written = 0
  const writing = (async () => {
    // Each is deleted at once: a workspace has at most 100.
    while (isWriting) {
      const { id } = await send('POST', '/v2/tag-keys', { key: `key-${written++}` })
      await send('DELETE', `/v2/tag-keys/${id}`)
    }
  })()
  await run(['backup', join(work, 'under-load')], settings)
  isWriting = false
  await writing
  note(await run(['backup', '--verify', join(work, 'under-load')], settings).then(text => text.split('\n')[0]!))
  check('a backup while requests write is complete', true, `${written} writes`)

  // ---- the database is lost, the agent is not
  await agent.stop()
  await plane.stop()
  const before = await describe(postgres.url, 'first')
  const backup = join(work, 'backup')
  const told = await run(['backup', backup], settings)
  note(told.trim().split('\n').slice(-3).join('\n        '))
  plane = await serve(settings)
  agent = startAgent()
  await deploy('newer')
  await plane.stop()
  const restored = await createDatabase(postgres.url, 'second')
  rmSync(uploads, { recursive: true })
  const messages = await run(['restore', backup], { ...common, DATABASE_OWNER_URL: restored })
  const manifest = JSON.parse(readFileSync(join(backup, 'manifest.json'), 'utf8'))
  check('the restore names the moment and the last event', messages.includes(`Restored to ${manifest.moment}`))
  check(
    'every row of every table is there',
    JSON.stringify(await describe(postgres.url, 'second')) === JSON.stringify(before),
  )
  const second = await loginsOf(restored)
  plane = await serve(second)
  await until('the agent keeps the newer deployment', () => agent.log().includes('deployment kept'))
  for (const name of ['one', 'two', 'three', 'newer']) check(`${name} serves on`, await answers(name))
  await run(['restore', '--finish'], { DATABASE_OWNER_URL: restored })
  await until('the newer one is removed', async () => (await requestRouter(urls.get('newer')!)).status === 404)
  check('after --finish the newer deployment is removed', true)
  note((await run(['audit-verify'], second)).trim().replaceAll('\n', ' '))

  // ---- nothing is left, and the new server has another version
  await stopEverything()
  check('nothing serves', !(await answers('one').catch(() => false)))
  await plane.stop()
  for (const folder of [uploads, join(work, 'agent')]) rmSync(folder, { recursive: true, force: true, maxRetries: 9 })
  const programs = findOtherPostgres()
  if (!programs) skipped('a restore on another version of Postgres: it is not installed')
  const other = programs && (await startOtherPostgres(programs, join(work, 'other'), await findFreePort()))
  if (other) cleanup.defer(() => other.stop())
  const server = other ? other.url : postgres.url
  const third = await createDatabase(server, 'third')
  await run(['restore', backup], { ...common, DATABASE_OWNER_URL: third })
  check(
    'every row is there, on another server',
    JSON.stringify(await describe(server, 'third')) === JSON.stringify(before),
  )
  const last = await loginsOf(third)
  plane = await serve(last)
  agent = startAgent()
  for (const name of ['one', 'two', 'three']) {
    await until(`${name} answers`, () => answers(name).catch(() => false))
    check(`${name} serves again, built from its archive, with its secret`, true)
  }
  check('audit-verify finds no fault', (await run(['audit-verify'], last)).includes('No fault found'))
  const rotated = { ...last, SEALING_KEYS: `k2:${'A'.repeat(43)},${sealingKeys}` }
  await plane.stop()
  plane = await serve(rotated)
  const resealed = await run(['reseal'], rotated).catch((error: Error) => error.message)
  check('reseal leaves no sealed value of the old key', !resealed.includes('Values still need'), resealed)
  const { secrets } = await send('GET', `/v2/deployments/${ids[0]}?reveal=true`)
  check('and the secrets open', secrets[0].value === 'secret of one')
  await stopEverything()
}

await runTrial(trial)
