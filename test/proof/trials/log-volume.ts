// Twenty copies write 20,000 lines a second: as twenty deployments, and as the copies of one. A real agent sends them
// to a control plane with Postgres. Counts what arrived and what was left out, the CPU of each part, and the bytes.
// `--rate=` is that of all copies together, `--seconds=` how long they write.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { requestRouter } from '../../support/process-engine.ts'
import { readCpuMs } from '../support/cpu.ts'
import { check, note, optionOf, PATIENCE_MS, runTrial } from '../support/trial.ts'
import { until } from '../support/two-hosts.ts'
import { startReceiver, upload } from './alerts/parts.ts'
import { type Installation, startInstallation } from './whole-application/installation.ts'

const COPIES = 20
const RATE = Number(optionOf('rate') ?? 20_000)
const SECONDS = Number(optionOf('seconds') ?? 60)
const FILE = readFileSync(join(import.meta.dirname, 'log-volume/writer.mjs'), 'utf8')
/** A log keeps its newest lines, and one that says how many were dropped. */
const MAX_LINES_OF_LOG = 10_001
const SAMPLE_SECONDS = 10
/** The log is whole when nothing more arrives for so long. */
const CALM_MS = 10_000

/** CPU time of all processes with such a command line, by the part that they are. */
function readParts(agentPid: number): Record<string, number> {
  const parts: Record<string, number> = { agent: 0, 'control plane': 0, Postgres: 0, copies: 0 }
  for (const pid of readdirSync('/proc').filter(name => /^\d+$/.test(name))) {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      const part =
        Number(pid) === agentPid
          ? 'agent'
          : /postgres/.test(command)
            ? 'Postgres'
            : /src\/host\/main\.ts\0start/.test(command)
              ? 'control plane'
              : /^node\0main\.mjs/.test(command) && 'copies'
      if (part) parts[part]! += readCpuMs(Number(pid))
    } catch {
      // It has ended.
    }
  }
  return parts
}

/** `bytes`: with what is deleted and waits for the vacuum. */
type Totals = { lines: number; dropped: number; kept: number; bytes: number }

async function tryShape(name: string, deployments: number): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  let isWriting = false
  const receiver = await startReceiver(
    end => cleanup.defer(async () => void (await end())),
    () => (isWriting ? 'write' : 'wait'),
  )
  const installation = await startInstallation(cleanup, 'process', { AGENT_METRICS_SECONDS: '60' })
  await deploy(installation, deployments, `${receiver.url}/switch/all`)
  const client = new pg.Client(installation.databaseUrl)
  await client.connect()
  cleanup.defer(() => client.end())
  /** Lines of copies have a process, others are the agent's own. What was left out is said by a line of the agent. */
  const readTotals = async (): Promise<Totals> => {
    const {
      rows: [totals],
    } = await client.query(`
      select
        (select coalesce(sum(lines), 0)::int from logs where kind = 'deploy') as lines,
        (
          select coalesce(sum((regexp_match(message, '^… (\\d+) lines before this one are left out'))[1]::int), 0)::int
          from log_lines
          where kind = 'deploy' and process is null and number > 0
        ) as dropped,
        (select count(*)::int from log_lines where kind = 'deploy') as kept,
        (pg_total_relation_size('log_lines') + pg_total_relation_size('logs'))::text as bytes`)
    return { ...totals, bytes: Number(totals.bytes) }
  }
  const before = await readTotals()
  const cpuBefore = readParts(installation.agentPid())
  const startedAt = performance.now()
  isWriting = true
  const sizes: number[] = []
  for (let second = SAMPLE_SECONDS; second <= SECONDS; second += SAMPLE_SECONDS) {
    await delay(startedAt + second * 1000 - performance.now())
    sizes.push((await readTotals()).bytes)
  }
  const cpu = readParts(installation.agentPid())
  const elapsed = (performance.now() - startedAt) / 1000
  const shares = Object.entries(cpu).map(
    ([part, ms]) => `${part} ${((ms - cpuBefore[part]!) / elapsed / 10).toFixed(0)} %`,
  )
  const written = RATE * SECONDS
  let [last, lastAt] = [-1, Date.now()]
  await until(
    'the lines have arrived',
    async () => {
      const { lines } = await readTotals()
      if (lines !== last) [last, lastAt] = [lines, Date.now()]
      return lines - before.lines >= written || Date.now() - lastAt > CALM_MS
    },
    PATIENCE_MS,
  )
  const late = (performance.now() - startedAt) / 1000 - SECONDS
  const { lines, dropped, kept, bytes } = await readTotals()
  const arrived = lines - before.lines
  const mib = (bytes / 1024 ** 2).toFixed(0)
  note(
    `${name}: ${written} lines in ${SECONDS} s; ${arrived} arrived, the last ${late.toFixed(1)} s later; ` +
      `${dropped} left out by the agent`,
  )
  note(`${name}: CPU of a core: ${shares.join(', ')}; ${mib} MiB in Postgres`)
  note(`${name}: MiB each ${SAMPLE_SECONDS} s: ${sizes.map(size => (size / 1024 ** 2).toFixed(0)).join(', ')}`)
  check(
    `${name}: each line arrives, or is counted as left out`,
    arrived + dropped >= written,
    `${arrived} + ${dropped} of ${written}`,
  )
  check(`${name}: Postgres keeps the newest of each log`, kept <= MAX_LINES_OF_LOG * deployments, `${kept} lines`)
}

async function deploy(installation: Installation, deployments: number, switchUrl: string): Promise<void> {
  const { api } = installation
  const source_tarball_path = await upload(installation, {
    'main.mjs': FILE,
    'slipway.json': JSON.stringify({ start_command: 'node main.mjs' }),
  })
  const scale = COPIES / deployments
  const ids: string[] = []
  for (let i = 0; i < deployments; i++) {
    const { status, body } = await api('POST', '/v2/deployments', {
      name: `writer-${i}`,
      source: 'internal_source',
      source_config: { resource_spec: { min_scale: scale, max_scale: scale } },
      source_revision_config: { source_tarball_path },
      secrets: Object.entries({ SWITCH_URL: switchUrl, RATE: RATE / COPIES, SECONDS }).map(([name, value]) => ({
        name,
        value: String(value),
      })),
    })
    if (status !== 201) throw new Error(JSON.stringify(body))
    ids.push(body.id)
  }
  for (const id of ids)
    await until(
      `${id} serves`,
      async () => {
        const url = await installation.readUrl(id)
        return url && (await requestRouter(url)).status === 200
      },
      PATIENCE_MS,
    )
  const countCopies = () =>
    readdirSync('/proc').filter(pid => {
      try {
        return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith('node\0main.mjs')
      } catch {
        return false
      }
    }).length
  await until('all copies run', () => countCopies() >= COPIES, PATIENCE_MS)
}

await runTrial(async () => {
  const only = optionOf('deployments')
  if (only !== '1') await tryShape('20 deployments', COPIES)
  if (only !== '20') await tryShape('20 copies of one deployment', 1)
})
