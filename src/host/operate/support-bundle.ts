// `slipway support-bundle`: writes what helps to diagnose an installation, without secrets.
import { execFile } from 'node:child_process'
import { readFileSync, statfsSync, writeFileSync } from 'node:fs'
import { arch, cpus, freemem, loadavg, release, totalmem, uptime } from 'node:os'
import { parseArgs, promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { packTar } from 'modern-tar'
import { readListenAddress, readSystemUrl, SETTINGS } from '../../env.ts'
import { VERSION } from '../../kernel/version.ts'
import { describeDatabase } from './bundle-database.ts'
import { createLineFilter } from './bundle-lines.ts'

const USAGE = `slipway support-bundle FILE.tgz [--log FILE]…

Writes versions, the names of settings, sizes and bounds of tables, locks, health, metrics, agents, failed revisions and
the newest lines of the log into one file. It has no secret, key, e-mail address or content of applications: see
docs/operate/installation.md. The log is of the units slipway and slipway-agent in the journal of systemd, and of each
FILE.`

/** Their values say nothing about people, and open nothing. Of every other setting only whether it is set. */
const SHOWN_SETTINGS = [
  'SLIPWAY_MODE',
  'CONTRACT_WORDS',
  'ABAC',
  'AUDIT_LOGS',
  'DEPLOYMENT_TRACING',
  'DEPLOYMENT_MODELS',
  'MODEL_PRIVATE_ADDRESSES',
  'DRAIN_PRIVATE_ADDRESSES',
  'RATE_LIMIT_PER_MINUTE',
  'INGESTION_RATE_LIMIT_PER_MINUTE',
  'UNKNOWN_KEYS_PER_MINUTE',
  'DATABASE_SECONDS_PER_MINUTE',
  'EVENTS_PER_DAY',
  'AUDIT_RETENTION_DAYS',
  'LOG_RETENTION_DAYS',
  'REVISION_RETENTION_DAYS',
  'JOB_RETENTION_DAYS',
  'UPLOADS_MAX_GIB',
  'ALLOW_LOOPBACK',
  'DATABASE_PREPARED_STATEMENTS',
  'CLIO_SCHEDULE_MIN_INTERVAL_SECONDS',
  'PORT',
  'SHUTDOWN_DELAY_SECONDS',
  'SHUTDOWN_TIMEOUT_SECONDS',
]
const SHOWN_VALUE = /^[a-z0-9_]{1,20}$/
const MAX_LINES = 5000
const UNITS = ['slipway', 'slipway-agent']

export async function main(): Promise<void> {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { log: { type: 'string', multiple: true, default: [] }, help: { type: 'boolean', short: 'h' } },
    })
    if (values.help) return console.log(USAGE)
    if (positionals.length !== 1) throw new Error(`Name one file.\n\n${USAGE}`)
    const files = await collectBundle(process.env, values.log)
    const entries = Object.entries(files).map(([name, text]) => ({
      header: { name: `slipway-support/${name}`, size: Buffer.byteLength(text), mode: 0o600 },
      body: text,
    }))
    // An archive that others of this machine cannot read.
    writeFileSync(positionals[0]!, gzipSync(await packTar(entries)), { mode: 0o600, flag: 'wx' })
    console.log(`${positionals[0]} has ${entries.length} files. Look at them before you send it.`)
  } catch (error) {
    const { code } = error as { code?: string }
    console.error(code === 'EEXIST' ? 'The file exists. Name another one.' : (error as Error).message)
    process.exitCode = 1
  }
}

export async function collectBundle(env: NodeJS.ProcessEnv, logs: string[]): Promise<Record<string, string>> {
  const { loadOperations } = await import('../../app.ts')
  const operations = await loadOperations()
  const words = new Set(operations.flatMap(({ path }) => path.split('/').filter(part => !part.startsWith('{'))))
  const keepLine = createLineFilter(words)
  const report: Record<string, unknown> = {
    'machine.json': describeMachine(env),
    'settings.json': describeSettings(env),
    'database.json': await describeDatabase(readSystemUrl(env)),
    'health.json': await readHealth(env),
  }
  const texts = Object.entries(report).map(([name, value]) => [name, `${JSON.stringify(value, null, 2)}\n`])
  const filterLines = (text: string) => {
    const lines = text.split('\n').filter(Boolean).slice(-MAX_LINES)
    const kept = lines.flatMap(line => keepLine(line) ?? [])
    return `${kept.join('\n')}\n# ${lines.length - kept.length} lines that Slipway did not write are left out.\n`
  }
  const read = logs.map((file, i) => [`log-${i + 1}.txt`, filterLines(readFileSync(file, 'utf8'))])
  const journals = await Promise.all(UNITS.map(readJournal))
  const ofUnits = journals.flatMap((text, i) => (text ? [[`journal-${UNITS[i]}.txt`, filterLines(text)]] : []))
  const files = Object.fromEntries([...texts, ...read, ...ofUnits, ['metrics.txt', await readMetrics(env)]])
  return hideValues(files, env)
}

/** The last defense: replaces the value of each setting that is not shown in all files. */
function hideValues(files: Record<string, string>, env: NodeJS.ProcessEnv): Record<string, string> {
  const hidden = [
    ...SETTINGS,
    'DATABASE_OWNER_URL',
    'SLIPWAY_LISTENER_KEY',
    'AGENT_DATABASE_URL',
    'BACKUPS_S3_SECRET_ACCESS_KEY',
  ]
    .filter(name => !SHOWN_SETTINGS.includes(name))
    .flatMap(name => [env[name] ?? '', URL.parse(env[name] ?? '')?.password ?? ''])
    .filter(value => value.length >= 8)
  const hide = (text: string) => hidden.reduce((left, value) => left.replaceAll(value, '*****'), text)
  return Object.fromEntries(Object.entries(files).map(([name, text]) => [name, hide(text)]))
}

const describeSettings = (env: NodeJS.ProcessEnv): Record<string, string> =>
  Object.fromEntries(
    [...new Set([...SETTINGS, ...SHOWN_SETTINGS])].sort().map(name => {
      const value = env[name]
      if (!value) return [name, 'not set']
      return [name, SHOWN_SETTINGS.includes(name) && SHOWN_VALUE.test(value) ? value : 'set, left out']
    }),
  )

function describeMachine(env: NodeJS.ProcessEnv) {
  const diskOf = (folder: string) => {
    try {
      const { bsize, blocks, bavail, files, ffree } = statfsSync(folder)
      return { bytes: bsize * blocks, free_bytes: bsize * bavail, files, free_files: ffree }
    } catch (error) {
      return { error: (error as NodeJS.ErrnoException).code }
    }
  }
  return {
    slipway: VERSION,
    node: process.version,
    system: process.platform,
    release: release(),
    arch: arch(),
    cpus: cpus().length,
    load: loadavg(),
    memory_bytes: totalmem(),
    free_memory_bytes: freemem(),
    up_seconds: uptime(),
    written_at: new Date().toISOString(),
    disks: { root: diskOf('/'), temporary: diskOf('/tmp'), uploads: diskOf(env.UPLOADS_DIR || '.slipway/uploads') },
  }
}

const ask = (env: NodeJS.ProcessEnv, path: string, headers: Record<string, string> = {}) => {
  const { PORT, HOST } = readListenAddress(env)
  const host = HOST === '0.0.0.0' || HOST === '::' ? '127.0.0.1' : HOST.includes(':') ? `[${HOST}]` : HOST
  return fetch(`http://${host}:${PORT}${path}`, { headers, signal: AbortSignal.timeout(5000) })
}

async function readHealth(env: NodeJS.ProcessEnv) {
  const read = (path: string) =>
    ask(env, path).then(
      async answer => ({ status: answer.status, body: await answer.json().catch(() => null) }),
      () => ({ error: 'no answer' }),
    )
  return { healthz: await read('/healthz'), readyz: await read('/readyz') }
}

async function readMetrics(env: NodeJS.ProcessEnv): Promise<string> {
  if (!env.METRICS_TOKEN) return '# METRICS_TOKEN is not set.\n'
  const answer = await ask(env, '/metrics', { Authorization: `Bearer ${env.METRICS_TOKEN}` }).catch(() => undefined)
  return answer?.ok ? answer.text() : `# /metrics did not answer: ${answer?.status ?? 'no connection'}.\n`
}

/** Without systemd there is none. */
const readJournal = (unit: string): Promise<string> =>
  promisify(execFile)('journalctl', ['-u', unit, '-n', String(MAX_LINES), '-o', 'cat', '--no-pager'], {
    maxBuffer: 64 * 1024 * 1024,
  }).then(
    ({ stdout }) => stdout,
    () => '',
  )
