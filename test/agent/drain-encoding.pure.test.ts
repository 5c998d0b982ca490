// The words of receivers, against what they publish: OTLP in the JSON mapping of protobuf, the push API of Loki, RFC
// 5424 with octet counting.
import { expect, test } from 'vitest'
import { MetricTotals } from '../../src/agent/drains/metric-records.ts'
import { encodeBatch } from '../../src/protocol/drain-encoding.ts'
import type { DrainGroup } from '../../src/protocol/drain-records.ts'
import { encodeSyslog } from '../../src/protocol/drain-syslog.ts'

const TIME = '2026-11-30T10:00:00.123Z'
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const GROUP: DrainGroup = {
  signal: 'requests',
  resource: { 'service.name': 'shop', 'slipway.deployment_id': 'd-1' },
  records: [
    { time: TIME, level: 'ERROR', message: 'GET /cart', attributes: { status: 500, slow: true, trace_id: TRACE } },
    {
      time: TIME,
      level: 'INFO',
      message: 'a "quoted" ]\\ line\nand another',
      attributes: { 'slipway.process': 'web' },
    },
  ],
}
const encode = (kind: 'otlp' | 'loki' | 'ndjson', url: string, groups: DrainGroup[]) => {
  const { body, ...rest } = encodeBatch(kind, url, groups)
  return {
    ...rest,
    body:
      kind === 'ndjson'
        ? body
            .trimEnd()
            .split('\n')
            .map(line => JSON.parse(line))
        : JSON.parse(body),
  }
}

test('lines are OTLP logs, with 64-bit numbers as strings and the trace in its own member', () => {
  const { url, body } = encode('otlp', 'https://otel.example.com:4318/base/', [GROUP])
  expect(url).toBe('https://otel.example.com:4318/base/v1/logs')
  const [{ resource, scopeLogs }] = body.resourceLogs
  expect(resource.attributes[0]).toEqual({ key: 'service.name', value: { stringValue: 'shop' } })
  expect(scopeLogs[0].logRecords[0]).toEqual({
    timeUnixNano: '1796032800123000000',
    observedTimeUnixNano: '1796032800123000000',
    severityNumber: 17,
    severityText: 'ERROR',
    body: { stringValue: 'GET /cart' },
    attributes: [
      { key: 'slipway.signal', value: { stringValue: 'requests' } },
      { key: 'status', value: { intValue: '500' } },
      { key: 'slow', value: { boolValue: true } },
      { key: 'trace_id', value: { stringValue: TRACE } },
    ],
    traceId: TRACE,
  })
})

test('metrics are cumulative OTLP, and their totals go on over minutes', () => {
  const totals = new MetricTotals()
  const point = (at: string, cpu_ms: number) => ({
    deployment_id: 'd',
    revision_id: 'r',
    at,
    copies: [
      {
        copy: '1',
        running: true,
        restarts: 1,
        cpu_ms,
        memory_bytes: 5,
        statuses: '0,2,0,0,1',
        latencies: '1,2,0,0,0,0,0,0,0,0,0,0,0,0,0,0',
      },
    ],
  })
  totals.add(point('2026-11-30T10:00:00.000Z', 500))
  const records = totals.add(point('2026-11-30T10:01:00.000Z', 250))
  const { url, body } = encode('otlp', 'https://otel.example.com', [{ signal: 'metrics', resource: {}, records }])
  expect(url).toBe('https://otel.example.com/v1/metrics')
  const metrics = Object.fromEntries(
    body.resourceMetrics[0].scopeMetrics[0].metrics.map((one: { name: string }) => [one.name, one]),
  )
  const startTimeUnixNano = '1796032800000000000'
  expect(metrics['slipway.copy.cpu'].sum).toMatchObject({
    aggregationTemporality: 2,
    isMonotonic: true,
    dataPoints: [{ asDouble: 0.75, startTimeUnixNano, timeUnixNano: '1796032920000000000' }],
  })
  expect(metrics['http.server.request.duration'].histogram.dataPoints[0]).toMatchObject({ count: '6' })
  const [{ bucketCounts, explicitBounds }] = metrics['http.server.request.duration'].histogram.dataPoints
  expect(bucketCounts.slice(0, 3)).toEqual(['2', '4', '0'])
  expect(bucketCounts).toHaveLength(explicitBounds.length + 1)
  expect(metrics['slipway.copies'].gauge.dataPoints[0]).toMatchObject({ asDouble: 1 })
  expect(metrics['slipway.requests'].sum.dataPoints.map(({ asDouble }: { asDouble: number }) => asDouble)).toEqual([
    0, 4, 0, 0, 2,
  ])
})

test('Loki gets a stream for each level, and no two lines of one time', () => {
  const twice = { ...GROUP, records: [GROUP.records[0], GROUP.records[0]] } as DrainGroup
  const { url, body } = encode('loki', 'https://loki.example.com', [twice])
  expect(url).toBe('https://loki.example.com/loki/api/v1/push')
  expect(body.streams).toEqual([
    {
      stream: { service_name: 'shop', signal: 'requests', level: 'error' },
      values: [0, 1].map(i => [
        `179603280012300000${i}`,
        'GET /cart',
        { slipway_deployment_id: 'd-1', status: '500', slow: 'true', trace_id: TRACE },
      ]),
    },
  ])
  expect(encode('loki', 'https://loki.example.com/tenant/push', [twice]).url).toMatch(/tenant\/push$/)
})

test('lines of JSON have one object for each record', () => {
  const { url, body } = encode('ndjson', 'https://in.example.com/x?key=1', [GROUP])
  expect(url).toBe('https://in.example.com/x?key=1')
  expect(body).toHaveLength(2)
  expect(body[0]).toMatchObject({ time: TIME, signal: 'requests', level: 'ERROR', message: 'GET /cart' })
})

test('syslog counts octets, and nothing of a line ends a field or begins a message', () => {
  const bytes = encodeSyslog([GROUP])
  const messages: string[] = []
  for (let at = 0; at < bytes.length; ) {
    const space = bytes.indexOf(' ', at)
    const length = Number(bytes.subarray(at, space).toString())
    messages.push(bytes.subarray(space + 1, space + 1 + length).toString())
    at = space + 1 + length
  }
  const RFC5424 = /^<(\d+)>1 (\S+) (\S+) (\S+) (\S+) (\S+) (\[(?:[^\]\\]|\\.)*\]) \ufeff([^\n]*)$/
  const fields = messages.map(message => RFC5424.exec(message)!.slice(1))
  expect(fields[0]).toEqual([
    '131',
    TIME,
    'shop',
    'shop',
    '-',
    'requests',
    `[slipway@32473 slipway.deployment_id="d-1" status="500" slow="true" trace_id="${TRACE}"]`,
    'GET /cart',
  ])
  expect(fields[1]![4]).toBe('web')
  expect(fields[1]!.at(-1)).toBe('a "quoted" ]\\ line and another')
})
