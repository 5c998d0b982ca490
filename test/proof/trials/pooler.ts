// Serves behind a real PgBouncer that keeps prepared statements, loses them, or gets none: no request may fail.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { startPostgres } from '../../../src/host/embedded-postgres.ts'
import { createHost } from '../../../src/host/host.ts'
import { migrate } from '../../../src/host/migrate.ts'
import { bootstrap } from '../../../src/people/access/bootstrap.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { check, findMissing, note, runTrial, skipped } from '../support/trial.ts'

const CLIENTS = 8
const REQUESTS = 600
/** Fewer than clients, so that in transaction mode a client gets another connection each time. */
const SERVER_CONNECTIONS = 3
const LIMIT = 1_000_000
const work = mkdtempSync(join(tmpdir(), 'slipway-pooler-'))

async function startPooler(cleanup: AsyncDisposableStack, postgresUrl: string, settings: Record<string, unknown>) {
  const { hostname, port: serverPort, username, password, pathname } = new URL(postgresUrl)
  const port = await findFreePort()
  const file = join(work, `${port}.ini`)
  const options = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'any',
    ignore_startup_parameters: 'statement_timeout',
    default_pool_size: SERVER_CONNECTIONS,
    ...settings,
  }
  writeFileSync(
    file,
    `[databases]
app = host=${hostname} port=${serverPort} dbname=${pathname.slice(1)} user=${username} password=${password}
[pgbouncer]
${Object.entries(options)
  .map(([name, value]) => `${name} = ${value}`)
  .join('\n')}
`,
    { mode: 0o644 },
  )
  // It refuses to run as root.
  const user = process.getuid!() === 0 ? ['-u', 'nobody'] : []
  const child = spawn('pgbouncer', [...user, file], { stdio: ['ignore', 'ignore', 'pipe'] })
  let output = ''
  child.stderr.on('data', chunk => (output += chunk))
  cleanup.defer(async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null) await once(child, 'exit')
  })
  const url = `postgresql://app@127.0.0.1:${port}/app`
  for (let waited = 0; ; waited += 100) {
    const client = new pg.Client(url)
    const isOpen = await client.connect().then(
      () => true,
      () => false,
    )
    await client.end().catch(() => {})
    if (isOpen) return url
    if (waited > 10_000) throw new Error(`PgBouncer does not answer: ${output}`)
    await delay(100)
  }
}

/** Sends reads and writes through the pooler, and returns what failed, what was counted, and what was logged. */
async function serve(databaseUrl: string, settings: Record<string, string>) {
  const warnings: string[] = []
  const host = createHost(
    {
      PUBLIC_URL: 'http://slipway.test',
      SEALING_KEYS: `a:${'A'.repeat(43)}`,
      DATABASE_URL: databaseUrl,
      DATABASE_SYSTEM_URL: databaseUrl,
      RATE_LIMIT_PER_MINUTE: String(LIMIT),
      UPLOADS_DIR: work,
      ...settings,
    },
    { log: line => void (line.level === 'warn' && warnings.push(String(line.notice))) },
  )
  try {
    const { api_key } = await bootstrap(host.app.database, { organization: crypto.randomUUID() })
    const statuses = new Map<number, number>()
    let remaining = LIMIT
    const request = async (path: string, method = 'GET', body?: object) => {
      const headers = { 'X-Api-Key': api_key, 'Content-Type': 'application/json' }
      const init = { method, headers, ...(body && { body: JSON.stringify(body) }) }
      const response = await host.app.request(`http://slipway.test${path}`, init)
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
      remaining = Math.min(remaining, Number(/r=(\d+)/.exec(response.headers.get('RateLimit') ?? '')?.[1] ?? LIMIT))
      return response.json()
    }
    const { id } = (await request('/v2/deployments', 'POST', {
      name: 'app',
      source: 'internal_template',
      source_config: { template_id: 'web-service' },
      source_revision_config: {},
      secrets: [],
    })) as { id: string }
    let sent = 0
    const send = [
      () => request('/v2/deployments'),
      () => request(`/v2/deployments/${id}`),
      () => request(`/v2/deployments?name_contains=a`),
      () => request(`/v2/deployments/${id}`, 'PATCH', { secrets: [{ name: 'TOKEN', value: `${sent}` }] }),
    ]
    const run = async () => {
      while (sent < REQUESTS) await send[sent++ % send.length]!()
    }
    await Promise.all(Array.from({ length: CLIENTS }, run))
    const total = [...statuses.values()].reduce((sum, count) => sum + count, 0)
    const failed = [...statuses].filter(([status]) => status >= 400)
    return { failed, isCounted: LIMIT - remaining === total, warnings }
  } finally {
    await host.close()
  }
}

async function trial(): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  cleanup.defer(() => rmSync(work, { recursive: true, force: true, maxRetries: 9 }))
  chmodSync(work, 0o755)
  const missing = findMissing('pgbouncer')
  if (missing) return skipped(`everything: ${missing}`)
  const [, major, minor] = /PgBouncer (\d+)\.(\d+)/.exec(
    execFileSync('pgbouncer', ['--version'], { encoding: 'utf8' }),
  )!
  const keepsStatements = Number(major) > 1 || Number(minor) >= 21
  note(`PgBouncer ${major}.${minor}`)
  const postgres = await startPostgres({ dataDir: join(work, 'postgres'), durable: false })
  cleanup.defer(() => postgres.stop())
  await migrate(postgres.url, { log: () => {} })

  const losing = { pool_mode: 'transaction', ...(keepsStatements && { max_prepared_statements: 0 }) }
  const cases: [name: string, pooler: Record<string, unknown>, settings: Record<string, string>, warnings: number][] = [
    ['in session mode', { pool_mode: 'session', default_pool_size: 20 }, {}, 0],
    ['in transaction mode', losing, {}, 1],
    ['in transaction mode, with the setting off', losing, { DATABASE_PREPARED_STATEMENTS: 'off' }, 0],
    ['that keeps statements', { pool_mode: 'transaction', max_prepared_statements: 200 }, {}, 0],
  ]
  for (const [name, pooler, settings, expected] of cases) {
    if ('max_prepared_statements' in pooler && !keepsStatements) {
      skipped(`a pooler ${name}: PgBouncer ${major}.${minor} does not`)
      continue
    }
    await using ownCleanup = new AsyncDisposableStack()
    const { failed, isCounted, warnings } = await serve(await startPooler(ownCleanup, postgres.url, pooler), settings)
    check(`behind a pooler ${name} no request fails`, failed.length === 0, JSON.stringify(failed))
    check('each request counts once', isCounted)
    const isNamed = warnings.every(warning => warning.includes('DATABASE_PREPARED_STATEMENTS'))
    check(`the log warns ${expected} times`, warnings.length === expected && isNamed, warnings.join(' '))
  }
}

await runTrial(trial)
