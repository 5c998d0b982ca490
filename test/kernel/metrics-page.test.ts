// /metrics of the control plane and of an agent.
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type AgentState, startMetricsServer } from '../../src/agent/metrics-server.ts'
import { formatOpenMetrics } from '../../src/protocol/open-metrics.ts'
import { newTenant, startApp } from '../support/app.ts'

const token = 'a-token-of-metrics'
const bearer = { Authorization: `Bearer ${token}` }
const ORIGIN = 'http://slipway.test'

type TestApp = ReturnType<typeof startApp>
const read = async (app: TestApp, headers: Record<string, string> = bearer) => {
  const response = await app.fetch(new Request(`${ORIGIN}/metrics`, { headers }))
  return { status: response.status, type: response.headers.get('Content-Type'), text: await response.text() }
}
const readSample = (text: string, sample: string) =>
  text
    .split('\n')
    .find(line => line.startsWith(`${sample} `))
    ?.slice(sample.length + 1)

describe('the metrics of the control plane', () => {
  it('do not exist without METRICS_TOKEN', async () => {
    expect((await read(startApp())).status).toBe(404)
  })

  it('are refused without the token', async () => {
    const app = startApp({ settings: { METRICS_TOKEN: token } })
    for (const headers of [
      {},
      { Authorization: `Bearer ${token}x` },
      { Authorization: 'Bearer' },
      { 'X-Api-Key': token },
    ])
      expect((await read(app, headers)).status).toBe(401)
  })

  it('count requests by operation and status, and what waits, and name no tenant', async () => {
    const app = startApp({ settings: { METRICS_TOKEN: token }, overrides: { processMetrics: () => [] } })
    const tenant = await newTenant({ app })
    await app.fetch(new Request(`${ORIGIN}/workspaces`, { headers: { 'X-Api-Key': tenant.key } }))
    await app.fetch(new Request(`${ORIGIN}/no-such-${tenant.tenant_id}`))
    const { status, type, text } = await read(app)
    expect([status, type]).toEqual([200, 'application/openmetrics-text; version=1.0.0; charset=utf-8'])
    expect(readSample(text, 'slipway_requests_total{operation="listWorkspaces",status="2xx"}')).toBe('1')
    expect(readSample(text, 'slipway_request_duration_seconds_count{operation="listWorkspaces"}')).toBe('1')
    expect(readSample(text, 'slipway_requests_total{operation="none",status="4xx"}')).toBe('1')
    expect(Number(readSample(text, 'slipway_database_trip_duration_seconds_count'))).toBeGreaterThan(0)
    expect(readSample(text, 'slipway_database_up')).toBe('1')
    expect(Number(readSample(text, 'slipway_webhook_deliveries_waiting'))).toBeGreaterThanOrEqual(0)
    expect(text).not.toContain(tenant.tenant_id)
    expect(text).not.toContain(tenant.organization_id)
  })

  it('have no counts of requests on a host without a lasting process', async () => {
    const { text } = await read(
      startApp({ settings: { METRICS_TOKEN: token }, overrides: { processMetrics: undefined } }),
    )
    expect(text).not.toContain('slipway_requests')
    expect(readSample(text, 'slipway_database_up')).toBe('1')
  })
})

it('the metrics of an agent are served to callers with the token', async () => {
  const state: AgentState = {
    version: '1',
    engine: 'process',
    hasLease: true,
    pollFailures: 2,
    waiting: { reports: 1, metrics: 0 },
    totals: {
      statuses: [0, 5, 0, 0, 1],
      latencies: [6, ...Array(15).fill(0)],
      cpu_ms: 1500,
      restarts: 1,
      unreached: 0,
    },
    now: { copies: 2, memory_bytes: 1024 },
    databases: { count: 3, bytes: 4096, connections: 7, failing: 1 },
  }
  const server = await startMetricsServer({ host: '127.0.0.1', port: 0, token }, () => state)
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  expect((await fetch(`${url}/metrics`)).status).toBe(401)
  expect((await fetch(url, { headers: bearer })).status).toBe(404)
  const text = await (await fetch(`${url}/metrics`, { headers: bearer })).text()
  expect(readSample(text, 'slipway_copies_cpu_seconds_total')).toBe('1.5')
  expect(readSample(text, 'slipway_answers_total{status="5xx"}')).toBe('1')
  expect(readSample(text, 'slipway_databases_backup_failing')).toBe('1')
  expect(text.endsWith('# EOF\n')).toBe(true)
})

it('quotes and line breaks in a label are escaped', () => {
  const text = formatOpenMetrics([
    { name: 'a', help: 'b', type: 'gauge', samples: [{ labels: { c: '"\n\\' }, value: 1 }] },
  ])
  expect(text).toBe('# TYPE a gauge\n# HELP a b\na{c="\\"\\n\\\\"} 1\n# EOF\n')
})
