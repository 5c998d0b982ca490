// Metrics: what an agent sends, what is stored of it, and the series that come from it.
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { chooseRange } from '../../../src/hosting/metrics/metrics.ts'
import { quantileOf } from '../../../src/hosting/metrics/quantile.ts'
import { sweepMetrics } from '../../../src/hosting/metrics/sweep.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { LATENCY_BUCKETS } from '../../../src/protocol/latency-histogram.ts'
import { getApp, newTenant, type Tenant, withClockAhead } from '../../support/app.ts'
import { newDeployment } from '../../support/deployments.ts'
import { makeListenerDeployment, makeSyncAgent, newListener, type SyncAgent } from '../../support/sync-agent.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
/** The beginning of an hour that is not over yet when the tests run, 40 minutes into it. */
const hourAt = Math.ceil(Date.now() / HOUR) * HOUR
const ahead = hourAt + 40 * MINUTE - Date.now()
const timeOf = (minute: number) => new Date(hourAt + minute * MINUTE).toISOString()

let tenant: Tenant
let agent: SyncAgent
let listener: { id: string }
beforeAll(async () => {
  tenant = await newTenant()
  const created = await newListener(tenant)
  listener = created.listener
  agent = makeSyncAgent(tenant, created.key)
  await agent.poll()
})

const newRevision = async () => {
  const { id, latest_revision_id } = await newDeployment(tenant, makeListenerDeployment(listener))
  return { deployment_id: id, revision_id: latest_revision_id }
}
/** Counts in the buckets by their place, such as `{ 3: 10 }`. */
const buckets = (counts: Record<number, number>) => Array.from({ length: LATENCY_BUCKETS }, (_, i) => counts[i] ?? 0)
const answered = (statuses: number[], latencies: number[]) => ({
  statuses: statuses.join(),
  latencies: latencies.join(),
})
const makeCopy = (over: object = {}) => ({ copy: '1', running: true, restarts: 0, ...over })
type Points = Record<string, unknown>[]
const post = (points: Points, over: object = {}) =>
  agent.post('/v1/sync/metrics', { agent_id: agent.agent_id, fence: agent.fence, points, ...over })
const sendPoints = (points: Points, over: object = {}) => withClockAhead(ahead, () => post(points, over))
async function store(points: Points) {
  const { status, body } = await sendPoints(points)
  expect([status, body]).toEqual([200, { refused: [] }])
}
type Series = { metric: string; revision_id: string | null; values: (number | null)[] }
async function read(deployment_id: string, query: Record<string, string>) {
  const path = `/v2/deployments/${deployment_id}/metrics?${new URLSearchParams(query)}`
  const { status, body } = await withClockAhead(ahead, () => tenant.get(path))
  expect(status, JSON.stringify(body)).toBe(200)
  const valuesOf = (metric: string, revision: string | null = null) =>
    (body.series as Series[]).find(one => one.metric === metric && one.revision_id === revision)?.values
  return { ...body, valuesOf }
}
/** The minutes of the hour from one to another. */
const readMinutes = (deployment_id: string, from: number, to: number) =>
  read(deployment_id, { from: timeOf(from), to: timeOf(to), step: '60' })

describe('the metrics of a deployment', () => {
  it('say nothing of copies in the newest minutes while only those that ended have reported', async () => {
    const revision = await newRevision()
    const ended = [makeCopy({ running: false, ...answered([0, 4, 0, 0, 0], buckets({ 3: 4 })) })]
    await store([
      { ...revision, at: timeOf(30), copies: ended },
      { ...revision, at: timeOf(39), copies: ended },
    ])
    const copies = (await readMinutes(revision.deployment_id, 30, 40)).valuesOf('copies')!
    expect([copies[0], copies.at(-1)]).toEqual([0, null])
  })

  it('are summed over copies, minute by minute, with a null where nothing was measured', async () => {
    const revision = await newRevision()
    const requests = answered([0, 7, 1, 1, 1], buckets({ 3: 5, 6: 5 }))
    const copies = [
      makeCopy({ cpu_ms: 15_000, memory_bytes: 100, ...requests, restarts: 2 }),
      makeCopy({ copy: '2', cpu_ms: 30_000, memory_bytes: 300, ...requests }),
    ]
    const still = [makeCopy({ cpu_ms: 0, memory_bytes: 50, ...answered([0, 0, 0, 0, 0], buckets({})) })]
    await store([
      { ...revision, at: timeOf(30), unreached: 3, copies },
      { ...revision, at: timeOf(32), copies: still },
    ])
    const answer = await readMinutes(revision.deployment_id, 30, 33)
    expect(answer).toMatchObject({ from: timeOf(30), to: timeOf(33), step: 60 })
    const expected = {
      cpu: [0.75, null, 0],
      memory: [400, null, 50],
      memory_peak: [300, null, 50],
      copies: [2, null, 1],
      restarts: [2, null, 0],
      requests: [23, null, 0],
      status_1xx: [0, null, 0],
      status_2xx: [14, null, 0],
      status_3xx: [2, null, 0],
      status_4xx: [2, null, 0],
      status_5xx: [5, null, 0],
      unreached: [3, null, null],
      // Half of the answers began within 5 to 10 ms, the other half within 50 to 100 ms.
      latency_p50: [10, null, null],
      latency_p95: [95, null, null],
      latency_p99: [99, null, null],
    }
    for (const [metric, values] of Object.entries(expected)) {
      expect([metric, answer.valuesOf(metric)]).toEqual([metric, values])
      expect([metric, answer.valuesOf(metric, revision.revision_id)]).toEqual([metric, values])
    }
  })

  it('are null if the engine cannot measure them, in minutes and in hours', async () => {
    const revision = await newRevision()
    await store([{ ...revision, at: timeOf(30), copies: [makeCopy()] }])
    for (const query of [
      { from: timeOf(30), to: timeOf(31), step: '60' },
      { from: timeOf(0), to: timeOf(60), step: '3600' },
    ]) {
      const { series } = await read(revision.deployment_id, query)
      const seen = (series as Series[])
        .filter(({ values }) => values[0] !== null)
        .map(({ metric, values }) => [metric, values])
      expect(seen).toEqual(
        ['copies', 'copies', 'restarts', 'restarts'].map(name => [name, [name === 'copies' ? 1 : 0]]),
      )
    }
  })

  it('merge the counts of revisions and minutes, and average over the minutes that were measured', async () => {
    const old = await newRevision()
    const { body: next } = await tenant.post(`/v2/deployments/${old.deployment_id}/revisions`)
    const newer = { ...old, revision_id: next.id as string }
    const answering = (place: number, count: number) => answered([0, count, 0, 0, 0], buckets({ [place]: count }))
    await store([
      { ...old, at: timeOf(10), copies: [makeCopy({ cpu_ms: 60_000, memory_bytes: 100, ...answering(2, 98) })] },
      { ...old, at: timeOf(11), copies: [makeCopy({ cpu_ms: 60_000, memory_bytes: 100 })] },
      { ...newer, at: timeOf(11), copies: [makeCopy({ cpu_ms: 60_000, memory_bytes: 300, ...answering(8, 2) })] },
    ])
    const { deployment_id } = old
    for (const step of [300, 3600]) {
      const answer = await read(deployment_id, { from: timeOf(10), to: timeOf(12), step: String(step) })
      // Three minutes of a whole core within two minutes.
      expect(answer.valuesOf('cpu')).toEqual([1.5])
      expect(answer.valuesOf('cpu', newer.revision_id)).toEqual([1])
      expect(answer.valuesOf('memory')).toEqual([250])
      expect(answer.valuesOf('memory_peak')).toEqual([300])
      expect(answer.valuesOf('copies')).toEqual([2])
      expect(answer.valuesOf('requests')).toEqual([100])
      // 98 of 100 answers within 2 to 5 ms, and 2 within 200 to 500 ms.
      expect(answer.valuesOf('latency_p95')![0]).toBeLessThan(5)
      expect(answer.valuesOf('latency_p99')).toEqual([350])
      expect(answer.valuesOf('latency_p99', old.revision_id)![0]).toBeLessThan(5)
    }
  })

  it('are of the last hour without a range, of all metrics, and of the metrics that are named', async () => {
    const { deployment_id } = await newRevision()
    const empty = await read(deployment_id, {})
    expect([empty.to, empty.step]).toEqual([timeOf(41), 60])
    expect(empty.series).toHaveLength(16)
    const named = await read(deployment_id, { metrics: 'memory,cpu,memory' })
    expect(named.series.map(({ metric, unit }: Record<string, string>) => [metric, unit])).toEqual([
      ['memory', 'bytes'],
      ['cpu', 'cores'],
    ])
    for (const query of ['step=61', 'metrics=nothing', 'from=yesterday', `from=${timeOf(1)}&to=${timeOf(0)}`])
      expect((await tenant.get(`/v2/deployments/${deployment_id}/metrics?${query}`)).body.code).toBe('invalid_request')
  })
})

describe('a point of an agent', () => {
  it('counts once however often it arrives, also at the same time', async () => {
    const revision = await newRevision()
    const requests = answered([0, 5, 0, 0, 0], buckets({ 1: 5 }))
    const point = { ...revision, at: timeOf(20), copies: [makeCopy({ cpu_ms: 6000, memory_bytes: 1, ...requests })] }
    await withClockAhead(ahead, () => Promise.all([post([point, point]), post([point]), post([point])]))
    await store([{ ...point, copies: [makeCopy({ cpu_ms: 60_000 })] }])
    for (const query of [
      { from: timeOf(20), to: timeOf(21) },
      { from: timeOf(0), to: timeOf(60), step: '3600' },
    ]) {
      const answer = await read(revision.deployment_id, query)
      expect([answer.valuesOf('requests'), answer.valuesOf('cpu')]).toEqual([[5], [0.1]])
    }
  })

  it('is refused with a code, beside points that are stored, if its minute or its revision is not valid', async () => {
    const [revision, otherRevision, other] = [await newRevision(), await newRevision(), await newTenant()]
    const foreign = await newDeployment(other, makeListenerDeployment((await newListener(other)).listener))
    const copies = [makeCopy({ cpu_ms: 1 })]
    const refused = [
      { at: timeOf(41), code: 'time_ahead' },
      { at: timeOf(-20), code: 'time_passed' },
      { revision_id: otherRevision.revision_id, code: 'revision_unknown' },
      { deployment_id: foreign.id, revision_id: foreign.latest_revision_id, code: 'revision_unknown' },
      { deployment_id: crypto.randomUUID(), code: 'revision_unknown' },
    ]
    const points = refused.map(({ code: _, ...over }) => ({ ...revision, at: timeOf(5), copies, ...over }))
    const { body } = await sendPoints([{ ...revision, at: timeOf(5), copies }, ...points])
    expect(body.refused).toEqual(refused.map(({ code }, i) => ({ place: i + 1, code })))
    expect((await readMinutes(revision.deployment_id, 5, 6)).valuesOf('cpu')).not.toEqual([null])
    const [rows] = await runAsSystem(
      getApp().database,
      sql`select from metric_points where deployment_id = ${foreign.id}::uuid`,
    )
    expect(rows).toEqual([])
  })

  it('is kept for each process type beside the whole, by minute and by hour', async () => {
    const revision = await newRevision()
    const requests = answered([0, 9, 0, 0, 0], buckets({ 3: 9 }))
    const web = makeCopy({ process: 'web', cpu_ms: 6000, memory_bytes: 100, ...requests })
    const worker = makeCopy({ process: 'worker', copy: 'worker.1', cpu_ms: 30_000, memory_bytes: 700, restarts: 2 })
    const point = (minute: number, copies: object[]) => ({ ...revision, at: timeOf(minute), copies })
    await store([point(5, [web]), point(6, [web, worker]), point(7, [worker])])
    await store([point(6, [makeCopy({ process: 'worker', cpu_ms: 1 }), web])])
    const table = [
      [undefined, [0.1, 0.6, 0.5], [100, 700, 700], [9, 9, null], [0, 2, 2]],
      ['web', [0.1, 0.1, null], [100, 100, null], [9, 9, null], [0, 0, null]],
      ['worker', [null, 0.5, 0.5], [null, 700, 700], [null, null, null], [null, 2, 2]],
      ['mail', [null, null, null], [null, null, null], [null, null, null], [null, null, null]],
    ] as const
    for (const [process, cpu, peak, answers, restarts] of table) {
      const query = { from: timeOf(5), to: timeOf(8), step: '60', ...(process && { process }) }
      const { valuesOf, processes } = await read(revision.deployment_id, query)
      expect(processes).toEqual(['web', 'worker'])
      const found = ['cpu', 'memory_peak', 'requests', 'restarts'].map(name => valuesOf(name))
      expect(found, process).toEqual([cpu, peak, answers, restarts])
    }
    const hour = { from: timeOf(0), to: timeOf(60), step: '3600', process: 'worker' }
    const { valuesOf } = await read(revision.deployment_id, hour)
    expect([valuesOf('cpu'), valuesOf('restarts'), valuesOf('copies')]).toEqual([[0.5], [4], [1]])
  })

  it('has the amounts of the stores that its deployment asks for, the most of each step', async () => {
    const revision = await newRevision()
    const path = `/v2/deployments/${revision.deployment_id}`
    const volumes = [{ name: 'media', persistentVolumeClaim: { claimName: 'media' } }]
    await tenant.patch(path, { source_config: { resource_spec: { volumes, db_max_connections: 5 } } })
    const point = (minute: number, bytes: number, connections: number) => ({
      ...{ ...revision, at: timeOf(minute), copies: [makeCopy()] },
      stores: [
        { store: 'database', bytes, connections },
        { store: 'disk:media', bytes: 2 * bytes },
        { store: 'disk:other', bytes },
      ],
    })
    await store([point(5, 100, 3), point(7, 300, 1), point(8, 2 ** 49, 999_999_999)])
    await store([point(7, 999, 9)])
    const amounts = async (query: Record<string, string>) =>
      (await read(revision.deployment_id, query)).series.filter(({ store }: { store?: string }) => store !== undefined)
    const names = 'database_size,database_connections,redis_memory,disk_size'
    const minutes = { from: timeOf(5), to: timeOf(8), step: '60' }
    const series = (metric: string, unit: string, store: string, values: (number | null)[]) => ({
      ...{ metric, unit, revision_id: null, store, values },
    })
    expect(await amounts({ ...minutes, metrics: names })).toEqual([
      series('database_size', 'bytes', 'database', [100, null, 300]),
      series('database_connections', 'connections', 'database', [3, null, 1]),
      series('disk_size', 'bytes', 'disk:media', [200, null, 600]),
    ])
    expect(await amounts({ ...minutes, process: 'web' })).toEqual([])
    const [size] = await amounts({ from: timeOf(0), to: timeOf(60), step: '3600' })
    expect(size).toMatchObject({ store: 'database', values: [2 ** 49] })
  })

  it('is refused beyond 12 revisions of a deployment in an hour, in one request and in several', async () => {
    const { deployment_id, revision_id } = await newRevision()
    const revisions = [revision_id]
    while (revisions.length < 14)
      revisions.push((await tenant.post(`/v2/deployments/${deployment_id}/revisions`)).body.id)
    const pointOf = (revision: string, minute: number) => ({
      deployment_id,
      revision_id: revision,
      at: timeOf(minute),
      copies: [makeCopy()],
    })
    await store(revisions.slice(0, 5).map(one => pointOf(one, 1)))
    const { body } = await sendPoints(revisions.map(one => pointOf(one, 2)))
    expect(body.refused.map(({ code }: { code: string }) => code)).toEqual(['too_many_revisions', 'too_many_revisions'])
    const { series } = await readMinutes(deployment_id, 2, 3)
    expect(new Set((series as Series[]).map(one => one.revision_id)).size).toBe(1 + 10)
    expect((series as Series[]).find(({ metric }) => metric === 'copies')!.values).toEqual([12])
  })

  it.each([
    ['a negative number', { cpu_ms: -1 }],
    ['a number that is not whole', { cpu_ms: 0.5 }],
    ['no number', { memory_bytes: 'NaN' }],
    ['more memory than a machine has', { memory_bytes: 2 ** 53 }],
    ['a bucket too few', { latencies: buckets({}).slice(1).join() }],
    ['a count that is no number', { statuses: '0,1,NaN,0,0' }],
    ['a name with a line break', { copy: 'a\nb' }],
  ])('with %s is refused as invalid', async (_, over) => {
    const point = { deployment_id: listener.id, revision_id: listener.id, at: timeOf(1), copies: [makeCopy(over)] }
    const { status, body } = await sendPoints([point])
    expect([status, body.code]).toEqual([422, 'invalid_request'])
  })

  it('is refused in the middle of a minute, and from an agent without the lease', async () => {
    const revision = await newRevision()
    const at = new Date(Date.parse(timeOf(1)) + 1000).toISOString()
    expect((await sendPoints([{ ...revision, at, copies: [] }])).status).toBe(422)
    const stale = await sendPoints([{ ...revision, at: timeOf(1), copies: [] }], { fence: 99 })
    expect(stale.body.code).toBe('fence_stale')
  })

  it('with the largest numbers in every minute of an hour overflows nothing', async () => {
    const revision = await newRevision()
    const most = 999_999_999
    const requests = answered(Array(5).fill(most), Array(LATENCY_BUCKETS).fill(most))
    const largest = { restarts: most, cpu_ms: 1e9, memory_bytes: 2 ** 44, ...requests }
    const copies = Array.from({ length: 1000 }, (_, i) => makeCopy({ copy: String(i), ...largest }))
    await store([{ ...revision, at: timeOf(0), unreached: most, copies }])
    await runAsSystem(
      getApp().database,
      sql`
        update metric_points set memory_bytes = memory_bytes * 59, status_2xx = status_2xx * 59
        where deployment_id = ${revision.deployment_id}::uuid and seconds = 3600`,
    )
    await store([{ ...revision, at: timeOf(1), copies }])
    const answer = await read(revision.deployment_id, { step: '3600', from: timeOf(0), to: timeOf(60) })
    expect(answer.valuesOf('status_2xx')).toEqual([60 * 1000 * most])
  })
})

it('minutes are deleted after a day and hours after 30 days', async () => {
  const revision = await newRevision()
  await store([{ ...revision, at: timeOf(30), copies: [makeCopy({ cpu_ms: 60_000, memory_bytes: 1 })] }])
  const readKept = async (after: number) => {
    await withClockAhead(ahead + after, () => sweepMetrics(getApp()))
    const range = { from: timeOf(0), to: timeOf(60) }
    const readStep = (step: string) => read(revision.deployment_id, { ...range, step, metrics: 'cpu' })
    const [minutes, hours] = [await readStep('60'), await readStep('3600')]
    return [minutes.valuesOf('cpu').some((value: unknown) => value !== null), hours.valuesOf('cpu')]
  }
  expect(await readKept(DAY - 15 * MINUTE)).toEqual([true, [1]])
  expect(await readKept(DAY)).toEqual([false, [1]])
  expect(await readKept(30 * DAY - HOUR)).toEqual([false, [1]])
  expect(await readKept(30 * DAY)).toEqual([false, [null]])
})

it('the metrics of a deployment are deleted with it', async () => {
  const revision = await newRevision()
  await store([{ ...revision, at: timeOf(30), copies: [makeCopy()] }])
  await tenant.delete(`/v2/deployments/${revision.deployment_id}`)
  const work = (await agent.pollAll()).find(one => one.deployment_id === revision.deployment_id)!
  await agent.report(work, { state: 'removed' })
  const query = sql`select from metric_points where deployment_id = ${revision.deployment_id}::uuid`
  expect(await runAsSystem(getApp().database, query)).toEqual([[]])
})

it('a percentile lies within its bucket, and in the last bucket at its lower bound', () => {
  expect(quantileOf(buckets({}), 0.5)).toBeNull()
  expect(quantileOf(buckets({ 0: 4 }), 0.5)).toBe(0.5)
  expect(quantileOf(buckets({ 0: 99, 15: 1 }), 0.99)).toBe(1)
  expect(quantileOf(buckets({ 0: 99, 15: 1 }), 0.999)).toBe(60_000)
})

it('a range has whole steps, and the shortest step that keeps the answer small', () => {
  const range = (hours: number) => {
    const { stepMs, count } = chooseRange({ from: new Date(DAY).toISOString(), metrics: undefined }, DAY + hours * HOUR)
    return [stepMs / 1000, count]
  }
  expect([1, 5, 6, 24, 48, 31 * 24].map(range)).toEqual([
    [60, 60],
    [60, 300],
    [300, 72],
    [300, 288],
    [900, 192],
    [21_600, 124],
  ])
})
