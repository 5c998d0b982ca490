// Serves /metrics: the metrics of the control plane itself, for Prometheus.
import type { Env, Hono } from 'hono'
import { sha256Hex } from '../kernel/crypto/digest.ts'
import { fail } from '../kernel/http/errors.ts'
import type { Services } from '../kernel/http/routes.ts'
import { VERSION } from '../kernel/version.ts'
import { formatOpenMetrics, type MetricFamily, OPEN_METRICS_TYPE } from '../protocol/open-metrics.ts'
import { readInstallationGauges } from './installation-gauges.ts'
import type { ProcessCounters } from './process-counters.ts'

/** Without METRICS_TOKEN the path does not exist. */
export function serveMetricsPage<E extends Env>(app: Hono<E>, services: Services, counters: ProcessCounters): void {
  const { metricsToken } = services.config
  const { processMetrics } = services.platform
  if (metricsToken === undefined) return
  app.get('/metrics', async c => {
    // Digests take the same time to compare, however many characters are right.
    const [sent, expected] = await Promise.all([
      sha256Hex(readToken(c.req.header('Authorization'))),
      sha256Hex(metricsToken),
    ])
    if (sent !== expected) throw fail('metrics_token_wrong', { headers: { 'WWW-Authenticate': 'Bearer' } })
    const build: MetricFamily = {
      name: 'slipway_build',
      type: 'info',
      help: 'The version of the control plane.',
      samples: [{ labels: { version: VERSION }, value: 1 }],
    }
    // Counts of a process are useless where each request may reach another isolate: they would go back and forth.
    const ofProcess = processMetrics ? [...counters.families(), ...processMetrics()] : []
    const families = [build, ...(await readInstallationGauges(services)), ...ofProcess]
    return c.body(formatOpenMetrics(families), 200, { 'Content-Type': OPEN_METRICS_TYPE, 'Cache-Control': 'no-store' })
  })
}

const readToken = (header = '') => /^Bearer +([!-~]+)$/i.exec(header)?.[1] ?? ''
