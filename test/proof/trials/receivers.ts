// Drains into the real OpenTelemetry Collector, Loki, Prometheus and syslog-ng, each killed and started again: what was
// on the disk and is lost, what came twice, what was dropped. Go builds the first three, with --install.
import type { ChildProcess } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { encodeSpans } from '../../../src/hosting/drains/otlp-traces.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { makeCertificate } from '../../support/certificate.ts'
import { check, findMissing, optionOf, runTrial, skipped } from '../support/trial.ts'
import { until } from '../support/two-hosts.ts'
import { countArrivals, endAll, kill, killBoth, start, work } from './drains/kill-both.ts'
import { findReceiver } from './receivers/build.ts'

/** In metrics, a point each hundredth of a second. Prometheus refuses what is older than an hour. */
const EPOCH = Date.now() - 50 * 60_000
const POINTS_PER_SECOND = 100

const isListening = (port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = createConnection(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    }).on('error', () => resolve(false))
  })

const starter = (port: number, program: string, args: string[]) => async (): Promise<ChildProcess> => {
  const log = join(work, 'receiver.log')
  const child = start('sh', ['-c', 'log=$1; shift; exec "$@" >>"$log" 2>&1', 'sh', log, program, ...args])
  const isReady = until(`${program} listens`, () => child.exitCode === null && isListening(port), 60_000)
  await isReady.catch(error => {
    throw new Error(`${error.message}: ${readFileSync(log, 'utf8').slice(-1000)}`)
  })
  return child
}

function makeFolder(name: string): string {
  const folder = join(work, name)
  mkdirSync(folder, { recursive: true })
  return folder
}

const targetOf = (name: string, kind: string, url: string) => ({
  folder: join(work, `${name}-buffer`),
  kind,
  url,
  id: crypto.randomUUID(),
})
const inMetrics = { signal: 'metrics', epoch: EPOCH } as const

// ---- the collector

const exporter = (file: string) => `{path: ${file}, rotation: {max_megabytes: 1000}}`

type WrittenMetrics = {
  resourceMetrics: {
    scopeMetrics: { metrics: { name: string; gauge?: { dataPoints: { asInt?: string; asDouble?: number }[] } }[] }[]
  }[]
}

function countPoints(file: string): Map<number, number> {
  const counts = new Map<number, number>()
  for (const line of readFileSync(file, 'utf8').split('\n').filter(Boolean))
    for (const { scopeMetrics } of (JSON.parse(line) as WrittenMetrics).resourceMetrics)
      for (const { metrics } of scopeMetrics)
        for (const { name, gauge } of metrics)
          for (const { asInt, asDouble } of (name === 'slipway.copy.memory' && gauge?.dataPoints) || []) {
            const number = Number(asInt ?? asDouble)
            counts.set(number, (counts.get(number) ?? 0) + 1)
          }
  return counts
}

async function tryCollector(program: string): Promise<void> {
  const folder = makeFolder('collector')
  const port = await findFreePort()
  const signals = ['logs', 'metrics', 'traces']
  const fileOf = (signal: string) => join(folder, `${signal}.json`)
  writeFileSync(
    join(folder, 'config.yaml'),
    `receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:${port}"}}}}
exporters: {${signals.map(signal => `file/${signal}: ${exporter(fileOf(signal))}`).join(', ')}}
service:
  telemetry: {metrics: {level: none}, logs: {level: error}}
  pipelines: {${signals.map(signal => `${signal}: {receivers: [otlp], exporters: [file/${signal}]}`).join(', ')}}
`,
  )
  const startCollector = starter(port, program, ['--config', join(folder, 'config.yaml')])
  const url = `http://127.0.0.1:${port}`
  await killBoth('Collector, logs', targetOf('collector-logs', 'otlp', url), {
    start: startCollector,
    count: () => countArrivals(fileOf('logs')),
  })
  await killBoth(
    'Collector, metrics',
    { ...targetOf('collector-metrics', 'otlp', url), ...inMetrics },
    {
      start: startCollector,
      count: () => countPoints(fileOf('metrics')),
      rate: POINTS_PER_SECOND,
    },
  )
  const collector = await startCollector()
  const run = {
    id: crypto.randomUUID(),
    trace_id: crypto.randomUUID(),
    parent_run_id: null,
    name: 'answer',
    run_type: 'llm',
    start_time: new Date().toISOString(),
    order_time: new Date().toISOString(),
    inputs: '{"question": "four"}',
  }
  const spans = encodeSpans(url, 'w', [{ run: run as never, project: 'shop' }])
  const headers = { 'Content-Type': spans.contentType }
  const { status } = await fetch(spans.url, { method: 'POST', headers, body: spans.body })
  const trace = run.trace_id.replaceAll('-', '')
  check(
    'Collector, traces: a span is written',
    status === 200 && readFileSync(fileOf('traces'), 'utf8').includes(trace),
  )
  await kill(collector)
}

// ---- Loki

const PAGE = 5000

/** Loki drops a line that it has already, with the same time. */
async function countInLoki(url: string): Promise<Map<number, number>> {
  const counts = new Map<number, number>()
  const seen = new Set<string>()
  for (let from = String((Date.now() - 3600_000) * 1e6); ; ) {
    const query = new URLSearchParams({ query: '{signal="logs"}', direction: 'forward', limit: `${PAGE}`, start: from })
    const answer = await fetch(`${url}/loki/api/v1/query_range?${query}`)
    if (!answer.ok) throw new Error(`Loki answered ${answer.status} ${await answer.text()}`)
    const { data } = (await answer.json()) as { data: { result: { values: [time: string, line: string][] }[] } }
    const values = data.result.flatMap(({ values }) => values)
    const fresh = values.filter(([time, line]) => !seen.has(`${time} ${line}`))
    for (const [time, line] of fresh) {
      seen.add(`${time} ${line}`)
      const number = Number(/line (\d+) x/.exec(line)![1])
      counts.set(number, (counts.get(number) ?? 0) + 1)
    }
    if (fresh.length === 0) return counts
    from = values.map(([time]) => time).reduce((a, b) => (BigInt(a) > BigInt(b) ? a : b))
  }
}

async function tryLoki(program: string): Promise<void> {
  const folder = makeFolder('loki')
  const [port, grpc] = [await findFreePort(), await findFreePort()]
  writeFileSync(
    join(folder, 'config.yaml'),
    `auth_enabled: false
server: {http_listen_address: 127.0.0.1, http_listen_port: ${port}, grpc_listen_address: 127.0.0.1,
  grpc_listen_port: ${grpc}, log_level: error}
common: {instance_addr: 127.0.0.1, path_prefix: ${folder}, replication_factor: 1, ring: {kvstore: {store: inmemory}},
  storage: {filesystem: {chunks_directory: ${folder}/chunks, rules_directory: ${folder}/rules}}}
schema_config: {configs: [{from: "2024-01-01", store: tsdb, object_store: filesystem, schema: v13,
  index: {prefix: index_, period: 24h}}]}
analytics: {reporting_enabled: false}
`,
  )
  const url = `http://127.0.0.1:${port}`
  await killBoth('Loki', targetOf('loki', 'loki', url), {
    start: starter(port, program, [`-config.file=${join(folder, 'config.yaml')}`]),
    count: () => countInLoki(url),
    isAsked: true,
  })
}

// ---- Prometheus

async function countInPrometheus(url: string): Promise<Map<number, number>> {
  const query = new URLSearchParams({ query: 'slipway_copy_memory_bytes[2h]', time: `${Date.now() / 1000 + 3600}` })
  const answer = await fetch(`${url}/api/v1/query?${query}`)
  const { data } = (await answer.json()) as { data: { result: { values: [time: number, value: string][] }[] } }
  return new Map(data.result.flatMap(({ values }) => values.map(([, value]) => [Number(value), 1])))
}

async function tryPrometheus(program: string): Promise<void> {
  const folder = makeFolder('prometheus')
  const port = await findFreePort()
  const file = join(folder, 'prometheus.yml')
  writeFileSync(file, 'global: {}\n')
  const url = `http://127.0.0.1:${port}`
  const args = [
    `--config.file=${file}`,
    `--storage.tsdb.path=${folder}/data`,
    `--web.listen-address=127.0.0.1:${port}`,
    '--web.enable-otlp-receiver',
    '--log.level=error',
  ]
  await killBoth(
    'Prometheus',
    { ...targetOf('prometheus', 'otlp', `${url}/api/v1/otlp`), ...inMetrics },
    {
      start: starter(port, program, args),
      count: () => countInPrometheus(url),
      isAsked: true,
      rate: POINTS_PER_SECOND,
    },
  )
}

// ---- syslog-ng

async function trySyslogNg(): Promise<void> {
  const folder = makeFolder('syslog-ng')
  const port = await findFreePort()
  const { key, cert } = makeCertificate('localhost')
  for (const [name, text] of Object.entries({ key, cert })) writeFileSync(join(folder, `${name}.pem`), text)
  const file = join(folder, 'out.txt')
  const config = join(folder, 'syslog-ng.conf')
  writeFileSync(
    config,
    `@version: 3.35
options { keep-hostname(yes); use-dns(no); dns-cache(no); stats-freq(0); };
source s { syslog(ip("127.0.0.1") port(${port}) transport("tls") log-iw-size(1000)
  tls(key-file("${folder}/key.pem") cert-file("${folder}/cert.pem") peer-verify(optional-untrusted))); };
destination d { file("${file}" template("$PROGRAM $MSG\\n") flush-lines(1)); };
log { source(s); destination(d); flags(flow-control); };
`,
  )
  const args = [
    '-F',
    '-f',
    config,
    '-R',
    join(folder, 'persist'),
    '-p',
    join(folder, 'pid'),
    '-c',
    join(folder, 'control'),
  ]
  await killBoth('syslog-ng', targetOf('syslog-ng', 'syslog', `tls://localhost:${port}`), {
    start: starter(port, 'syslog-ng', args),
    count: () => countArrivals(file),
    env: { NODE_EXTRA_CA_CERTS: join(folder, 'cert.pem') },
    mayLose: true,
  })
}

await runTrial(async () => {
  const only = optionOf('only')
  const receivers = { otelcol: tryCollector, loki: tryLoki, prometheus: tryPrometheus } as const
  try {
    for (const [name, attempt] of Object.entries(receivers)) {
      if (only !== undefined && only !== name) continue
      const found = findReceiver(name)
      if ('missing' in found) skipped(found.missing)
      else await attempt(found.program)
    }
    if (only !== undefined && only !== 'syslog-ng') return
    const missing = findMissing('syslog-ng')
    if (missing) skipped(missing)
    else await trySyslogNg()
  } finally {
    await endAll()
  }
})
