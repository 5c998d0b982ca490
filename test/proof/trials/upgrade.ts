// Upgrades a database from before the migrations were squashed, and the previous release under load: 1,000,000
// deployments, no failed request, no lock over a second. `--from HEAD` takes the code of a commit for that release.
import { execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { startPostgres } from '../../../src/host/embedded-postgres.ts'
import { newApiKey } from '../../../src/kernel/crypto/crypto.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { addOlderRoles, findOlderRoleFaults, findRoleFaults, loadBeforeSquash } from '../../support/before-squash.ts'
import {
  type Code,
  extractRelease,
  findObstacle,
  previousRelease,
  releases,
  startServer,
} from '../../support/earlier-release.ts'
import { watchLocks } from '../support/locks.ts'
import { Load } from '../support/steady-load.ts'
import { CACHE, check, note, passed, runTrial, skipped } from '../support/trial.ts'

const { values } = parseArgs({
  strict: false,
  options: {
    deployments: { type: 'string', default: '1000000' },
    seconds: { type: 'string', default: '10' },
    from: { type: 'string' },
  },
})
const DEPLOYMENTS = Number(values.deployments)
const PHASE_MS = Number(values.seconds) * 1000
const MAX_LOCK_MS = 1000
const ROOT = join(import.meta.dirname, '../../..')

const earlierCode = typeof values.from === 'string' ? codeOf(values.from) : previousRelease

/** Named by its digest, so that a filled database of another commit is not taken for it. */
function codeOf(revision: string): Code {
  const commit = execFileSync('git', ['rev-parse', '--short=12', revision], { cwd: ROOT, encoding: 'utf8' }).trim()
  return { app: commit, commit }
}

/** The dump has rows of most slices. */
async function upgradeFromBeforeSquash(): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  const work = mkdtempSync(join(tmpdir(), 'slipway-upgrade-'))
  cleanup.defer(() => rmSync(work, { recursive: true, force: true }))
  const server = await startPostgres({ dataDir: join(work, 'postgres') })
  cleanup.defer(() => server.stop())
  const key = newApiKey()
  await loadBeforeSquash(server.url, key)
  await addOlderRoles(server.url)
  const { status, output } = await migrate(server.url)
  check('slipway migrate ends with status 0', status === 0, output)
  const present = await startServer(ROOT, await findFreePort(), {
    ...readLogins(ROOT, server.url),
    PUBLIC_URL: 'http://slipway.test',
    SEALING_KEYS: `first:${'A'.repeat(43)}`,
    UPLOADS_DIR: join(work, 'uploads'),
  })
  cleanup.defer(() => present.stop())
  const roleFaults = await findRoleFaults(server.url)
  check('existing roles are backfilled, and none has lost a permission', roleFaults.length === 0, roleFaults.join(', '))
  const headers = { 'X-Api-Key': key, 'X-Tenant-Id': '20000000-0000-4000-8000-000000000001' }
  for (const path of [
    '/v2/deployments',
    '/orgs/current/roles?limit=100',
    '/workspaces/current/members',
    '/datasets',
    '/v2/webhooks',
  ]) {
    const response = await fetch(present.url + path, { headers })
    const text = await response.text()
    check(`it serves ${path}`, response.status === 200, text)
    if (!path.startsWith('/orgs/current/roles')) continue
    const faults = findOlderRoleFaults(JSON.parse(text).resources)
    check(
      'older custom roles may do what they could, by the permissions of now',
      faults.length === 0,
      faults.join('; '),
    )
  }
}

async function upgrade(): Promise<void> {
  await upgradeFromBeforeSquash()
  const obstacle = findObstacle(earlierCode)
  if (obstacle) return skipped(`the upgrade under load: ${obstacle}`)
  await using cleanup = new AsyncDisposableStack()
  const work = mkdtempSync(join(tmpdir(), 'slipway-upgrade-'))
  cleanup.defer(() => rmSync(work, { recursive: true, force: true }))
  const earlier = join(work, earlierCode!.app)
  extractRelease(earlierCode!, earlier)

  const kept = join(CACHE, `upgrade-${earlierCode!.app}-${DEPLOYMENTS}`)
  mkdirSync(kept, { recursive: true, mode: 0o755 })
  const server = await startPostgres({ dataDir: join(kept, 'postgres') })
  cleanup.defer(() => server.stop())
  const address = (name: string) => Object.assign(new URL(server.url), { pathname: name }).href
  const admin = new pg.Client({ connectionString: address('postgres') })
  await admin.connect()
  cleanup.defer(() => admin.end())
  const seeded = join(kept, 'seeded.json')
  if (!existsSync(seeded)) {
    await admin.query('drop database if exists seeded')
    await admin.query('create database seeded')
    writeFileSync(seeded, JSON.stringify({ api_key: await fill(earlier, address('seeded')) }))
  }
  const { api_key } = JSON.parse(readFileSync(seeded, 'utf8')) as { api_key: string }
  await admin.query('drop database if exists upgraded')
  await admin.query('create database upgraded template seeded strategy file_copy')
  cleanup.defer(async () => void (await admin.query('drop database upgraded with (force)')))
  const owner = address('upgraded')

  const settings = {
    ...readLogins(earlier, owner),
    PUBLIC_URL: 'http://slipway.test',
    SEALING_KEYS: `trial:${randomBytes(32).toString('base64url')}`,
    RATE_LIMIT_PER_MINUTE: '0',
    UPLOADS_DIR: join(work, 'uploads'),
  }
  const before = await startServer(earlier, await findFreePort(), settings)
  cleanup.defer(() => before.stop())
  const load = new Load({ full: api_key, own: createKey(earlier, settings) }, before.url)
  await load.prepare()
  const running = load.run()
  cleanup.defer(() => load.stop())
  await load.phase(`${earlierCode!.app} alone`, () => delay(PHASE_MS))

  const locks = await watchLocks(owner)
  const started = performance.now()
  await load.phase('migrating', async () => {
    const { status, output } = await migrate(owner)
    console.log(output.trim().replaceAll(/^/gm, '        '))
    check('slipway migrate ends with status 0', status === 0)
  })
  note(`migrated in ${((performance.now() - started) / 1000).toFixed(1)} s`)
  const found = await locks.stop()
  await load.phase(`${earlierCode!.app} on the new schema`, () => delay(PHASE_MS))

  const after = await startServer(ROOT, await findFreePort(), settings)
  cleanup.defer(() => after.stop())
  load.targets = [before.url, after.url]
  await load.phase('both', () => delay(PHASE_MS))
  load.targets = [after.url]
  await load.settled()
  await before.stop()
  passed(`${earlierCode!.app} ends after its last request`)
  await load.phase(`${releases[0]!.app} alone`, () => delay(PHASE_MS))
  await load.stop()
  await running

  for (const line of load.report()) note(line)
  note(`longest lock of a table: ${found.lock.ms.toFixed(0)} ms, ${found.lock.what}`)
  note(`longest wait for a lock: ${found.wait.ms.toFixed(0)} ms, ${found.wait.what}`)
  check('no request failed', load.failures.length === 0, load.failures.slice(0, 5).join('; '))
  check(`no lock was held for ${MAX_LOCK_MS} ms`, found.lock.ms < MAX_LOCK_MS)
  check(`nothing waited ${MAX_LOCK_MS} ms for a lock`, found.wait.ms < MAX_LOCK_MS)
  check('the new release serves what was created before, meanwhile and by both', await load.verify(after.url))
}

/** Migrates an empty database by the earlier release and fills it. Returns a key of its largest workspace. */
async function fill(folder: string, owner: string): Promise<string> {
  const env = { ...process.env, DATABASE_OWNER_URL: owner, DATABASE_URL: owner, DATABASE_SYSTEM_URL: '' }
  const run = (script: string, ...args: string[]) =>
    execFileSync(process.execPath, [join(folder, script), ...args], { cwd: folder, env, encoding: 'utf8' })
  run('src/host/migrate.ts')
  note(`filling a database with ${DEPLOYMENTS} deployments; the next trial finds it`)
  const tenants = Math.max(10, Math.round(DEPLOYMENTS / 1000))
  const output = run('src/host/seed.ts', '--tenants', `${tenants}`, '--deployments', `${DEPLOYMENTS}`)
  const client = new pg.Client({ connectionString: owner })
  await client.connect()
  await client.query('set role slipway_system')
  for (const statement of MORE_ROWS) await client.query(statement)
  await client.query('reset role')
  await client.query('vacuum (analyze)')
  await client.end()
  return /slw_\w+/.exec(output)![0]
}

/** Adds what the seed leaves out: two events and two log lines of each deployment, and some keys and secrets. */
const MORE_ROWS = [
  `insert into events (
    scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, request_id, data, created_at
  )
  select
    d.tenant_id,
    1000000 + row_number() over (partition by d.tenant_id order by d.id, n),
    d.organization_id,
    d.tenant_id,
    (array['deployment.created', 'deployment.updated'])[n],
    d.id,
    'key',
    'seed-' || n,
    json_build_object('name', d.name),
    d.created_at + n * interval '1 minute'
  from deployments d
  cross join generate_series(1, 2) n`,
  `insert into journals (scope_id, organization_id, seq)
  select scope_id, min(organization_id::text)::uuid, max(seq)
  from events
  group by scope_id
  on conflict (scope_id) do update set seq = excluded.seq`,
  `insert into log_lines (
    organization_id, tenant_id, deployment_id, revision_id, kind, number, timestamp, severity, message, bytes_before
  )
  select
    r.organization_id, r.tenant_id, r.deployment_id, r.id, 'deploy', n, r.created_at, 9, 'line ' || n, n * 40
  from revisions r
  cross join generate_series(1, 2) n`,
  `insert into deployment_secrets (organization_id, tenant_id, deployment_id, name, version, sealed)
  select organization_id, tenant_id, id, 'TOKEN', 1, repeat('x', 60)
  from deployments
  where left(id::text, 1) < '4'`,
  `insert into api_keys (organization_id, tenant_id, description, hint, key_hash, role_id)
  select organization_id, id, 'key ' || n, 'slw_x', md5(id::text || n), '00000000-0000-4000-8000-000000000001'
  from workspaces
  cross join generate_series(1, 5) n`,
]

function readLogins(folder: string, owner: string): Record<string, string> {
  const output = execFileSync(process.execPath, [join(folder, 'src/host/database-logins.ts')], {
    env: { ...process.env, DATABASE_OWNER_URL: owner },
    encoding: 'utf8',
  })
  return Object.fromEntries([...output.matchAll(/^(DATABASE_\w+)=(\S+)$/gm)].map(([, name, url]) => [name!, url!]))
}

/** A key of an organization of its own. */
function createKey(folder: string, settings: Record<string, string>): string {
  const output = execFileSync(process.execPath, [join(folder, 'src/host/bootstrap.ts'), '--organization', 'Trial'], {
    env: { ...process.env, ...settings },
    encoding: 'utf8',
  })
  return /slw_\w+/.exec(output)![0]
}

async function migrate(owner: string): Promise<{ status: number | null; output: string }> {
  const child = spawn(process.execPath, [join(ROOT, 'src/host/main.ts'), 'migrate'], {
    env: { ...process.env, DATABASE_OWNER_URL: owner },
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  return new Promise(resolve => child.on('close', status => resolve({ status, output })))
}

await runTrial(upgrade)
