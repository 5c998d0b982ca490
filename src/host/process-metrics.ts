// Metrics of the process that hosts the app: its CPU time, memory and database connections.
import type { MetricFamily } from '../protocol/open-metrics.ts'
import type { DatabasePools } from './database-pools.ts'

const startedAt = Date.now() / 1000 - process.uptime()

export function readProcessMetrics(pools: DatabasePools | undefined): MetricFamily[] {
  const { user, system } = process.cpuUsage()
  const value = (name: string, type: 'counter' | 'gauge', help: string, value: number): MetricFamily => ({
    name,
    type,
    help,
    samples: [{ value }],
  })
  const connections = Object.entries(pools?.poolState() ?? {})
  return [
    value('process_cpu_seconds', 'counter', 'CPU time of this process.', (user + system) / 1e6),
    value('process_resident_memory_bytes', 'gauge', 'Memory of this process.', process.memoryUsage.rss()),
    value('process_start_time_seconds', 'gauge', 'When this process started.', startedAt),
    ...(connections.length > 0
      ? [
          {
            name: 'slipway_database_connections',
            type: 'gauge' as const,
            help: 'Connections to the database that are open and idle, and trips that wait for their share of them.',
            samples: connections.map(([state, value]) => ({ labels: { state }, value })),
          },
        ]
      : []),
  ]
}
