// Serves the metrics of the agent itself for Prometheus, on a port of its own and for callers with the token.
import { createHash, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { statusClasses } from '../protocol/latency-histogram.ts'
import { formatOpenMetrics, type MetricFamily, OPEN_METRICS_TYPE } from '../protocol/open-metrics.ts'
import type { UsageNow, UsageTotals } from './control-plane/metrics-reporter.ts'
import type { DatabaseTotals } from './engine.ts'

/** Sums over all deployments: the names of tenants and their applications are not for the operator's tools. */
export type AgentState = {
  version: string
  engine: string
  hasLease: boolean
  pollFailures: number
  waiting: { reports: number; metrics: number }
  totals: UsageTotals
  now: UsageNow
  databases?: DatabaseTotals | undefined
}
export type MetricsServerSettings = { host: string; port: number; token: string }

const digest = (text: string) => createHash('sha256').update(text).digest()

export async function startMetricsServer({ host, port, token }: MetricsServerSettings, readState: () => AgentState) {
  const expected = digest(`Bearer ${token}`)
  const server = createServer((req, res) => {
    if (!timingSafeEqual(digest(req.headers.authorization ?? ''), expected))
      return void res.writeHead(401, { 'WWW-Authenticate': 'Bearer' }).end()
    if (req.url !== '/metrics' || req.method !== 'GET') return void res.writeHead(404).end()
    res.writeHead(200, { 'Content-Type': OPEN_METRICS_TYPE }).end(formatOpenMetrics(toFamilies(readState())))
  })
  // A scrape is short, and must not keep the agent from ending.
  server.unref()
  await once(server.listen(port, host), 'listening').catch(error => {
    throw new Error(`AGENT_METRICS_PORT ${port} cannot be used: ${error.message}. Set another one.`)
  })
  return server
}

export function toFamilies({
  version,
  engine,
  hasLease,
  pollFailures,
  waiting,
  totals,
  now,
  databases,
}: AgentState): MetricFamily[] {
  const single = (name: string, type: 'counter' | 'gauge', help: string, value: number): MetricFamily => ({
    name,
    type,
    help,
    samples: [{ value }],
  })
  const { user, system } = process.cpuUsage()
  return [
    {
      name: 'slipway_agent',
      type: 'info',
      help: 'The version and the engine of the agent.',
      samples: [{ labels: { version, engine }, value: 1 }],
    },
    single('slipway_agent_lease', 'gauge', 'Whether this agent has the lease of its listener.', hasLease ? 1 : 0),
    single('slipway_agent_polls_failed', 'counter', 'Polls that failed.', pollFailures),
    {
      name: 'slipway_agent_waiting',
      type: 'gauge',
      help: 'What waits to be sent to the control plane.',
      samples: Object.entries(waiting).map(([kind, value]) => ({ labels: { kind }, value })),
    },
    single('slipway_copies', 'gauge', 'Copies of revisions that run.', now.copies),
    single('slipway_copies_memory_bytes', 'gauge', 'Memory of all copies.', now.memory_bytes),
    single('slipway_copies_cpu_seconds', 'counter', 'CPU time of all copies.', totals.cpu_ms / 1000),
    single('slipway_copies_restarts', 'counter', 'Restarts of copies.', totals.restarts),
    single('slipway_requests_unreached', 'counter', 'Requests that no copy accepted.', totals.unreached),
    {
      name: 'slipway_answers',
      type: 'counter',
      help: 'Answers of all copies by class of status.',
      samples: totals.statuses.map((value, i) => ({ labels: { status: statusClasses[i]! }, value })),
    },
    {
      name: 'slipway_answer_time_seconds',
      type: 'histogram',
      help: 'The time until answers of copies began.',
      samples: [{ value: { counts: totals.latencies } }],
    },
    ...(databases
      ? [
          single('slipway_databases', 'gauge', 'Databases of applications that run.', databases.count),
          single('slipway_databases_bytes', 'gauge', 'Size of all databases.', databases.bytes),
          single('slipway_databases_connections', 'gauge', 'Connections to all databases.', databases.connections),
          single('slipway_databases_backup_failing', 'gauge', 'Databases whose backup fails.', databases.failing),
        ]
      : []),
    single('process_cpu_seconds', 'counter', 'CPU time of the agent.', (user + system) / 1e6),
    single('process_resident_memory_bytes', 'gauge', 'Memory of the agent.', process.memoryUsage.rss()),
  ]
}
