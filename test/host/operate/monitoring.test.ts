// The alerts and the dashboard name only metrics that /metrics of the control plane or of an agent serves.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { load } from 'js-yaml'
import { expect, it } from 'vitest'
import { toFamilies } from '../../../src/agent/metrics-server.ts'
import { createHost } from '../../../src/host/host.ts'
import { formatOpenMetrics } from '../../../src/protocol/open-metrics.ts'
import { createMigratedDatabase } from '../../support/migrated-postgres.ts'

const ROOT = join(import.meta.dirname, '../../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
type Rule = { alert: string; expr: string; annotations: { runbook_url: string; summary: string } }
const alerts = load(read('deploy/monitoring/alerts.yaml')) as { groups: { name: string; rules: Rule[] }[] }
const rules = alerts.groups.flatMap(group => group.rules)
const dashboard = JSON.parse(read('deploy/monitoring/dashboard.json')) as {
  panels: { id: number; type: string; gridPos: Record<string, number>; targets?: { expr: string }[] }[]
}
const expressions = [
  ...rules.map(({ expr }) => expr),
  ...dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
]

/** Suffixes of metrics by their type. */
const SUFFIXES: Record<string, string[]> = {
  counter: ['_total'],
  info: ['_info'],
  gauge: [''],
  histogram: ['_bucket', '_count', '_sum'],
}
const namesOf = (text: string) =>
  [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].flatMap(([, name, type]) => SUFFIXES[type!]!.map(end => name! + end))

async function listServedMetrics(): Promise<string[]> {
  const token = 'operators-token-of-the-test'
  const env = {
    DATABASE_URL: await createMigratedDatabase(),
    SEALING_KEYS: `k1:${'A'.repeat(43)}`,
    PUBLIC_URL: 'http://slipway.test',
    METRICS_TOKEN: token,
  }
  const { app, close } = createHost(env, { log: () => {} })
  try {
    const headers = { Authorization: `Bearer ${token}` }
    const response = await app.fetch(new Request('http://slipway.test/metrics', { headers }))
    const text = await response.text()
    expect(text).toMatch(/^slipway_database_up 1$/m)
    expect(text).toMatch(/^slipway_sealing_key_info\{kid="k1",place="1"\} 1$/m)
    const agent = formatOpenMetrics(
      toFamilies({
        version: '1',
        engine: 'process',
        hasLease: true,
        pollFailures: 0,
        waiting: { reports: 0, metrics: 0 },
        totals: { cpu_ms: 0, restarts: 0, unreached: 0, statuses: [], latencies: [] } as never,
        now: { copies: 0, memory_bytes: 0 } as never,
      }),
    )
    return [...namesOf(text), ...namesOf(agent)]
  } finally {
    await close()
  }
}

it('every metric of an alert or a panel is served', async () => {
  const served = await listServedMetrics()
  const named = expressions.flatMap(expr => [...expr.matchAll(/\b(?:slipway|process)_\w+/g)].map(([name]) => name))
  expect(named.length).toBeGreaterThan(40)
  expect(named.filter(name => !served.includes(name))).toEqual([])
})

it('every alert has a runbook of its name', () => {
  const page = read('docs/operate/installation.md')
  const headings = [...page.matchAll(/^#{2,4} (\w+)$/gm)].map(([, heading]) => heading)
  expect(rules.length).toBeGreaterThan(5)
  for (const { alert, annotations } of rules) {
    expect(annotations.runbook_url).toBe(`docs/operate/installation.md#${alert.toLowerCase()}`)
    expect(headings, alert).toContain(alert)
  }
})

it('the panels of the dashboard do not overlap', () => {
  const boxes = dashboard.panels.map(({ gridPos }) => gridPos as { x: number; y: number; w: number; h: number })
  const cells = boxes.flatMap(({ x, y, w, h }) =>
    Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`),
  )
  expect(new Set(cells).size).toBe(cells.length)
  expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length)
})
