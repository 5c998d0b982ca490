// Actions of rules on runs: examples, webhooks and longer retention, each once for a run.
import { sql } from 'drizzle-orm'
import { Webhook } from 'standardwebhooks'
import { describe, expect, it, onTestFinished } from 'vitest'
import { localFetch } from '#runtime'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { MAX_ITEMS } from '../../../src/tracing/queues/schema.ts'
import { sweepQueues } from '../../../src/tracing/queues/sweep.ts'
import { getServices, startApp, unusedId, withClockAhead, wrapTrips } from '../../support/app.ts'
import { appendRuns, newTrace } from '../../support/new-traces.ts'
import { appendEnded, appliedRuns, END, newTracedTenant, readLogs, sweep } from '../../support/rules.ts'
import { readRows } from '../../support/traces.ts'
import { startReceiver } from '../../support/webhook-receiver.ts'

const MINUTE = 60_000
const loopbackApp = () => startApp({ settings: { ALLOW_LOOPBACK: 'true' }, overrides: { foreignFetch: localFetch } })

async function newHookedTenant() {
  const app = loopbackApp()
  const receiver = await startReceiver()
  onTestFinished(receiver.close)
  const services = getServices(app)
  return { ...(await newTracedTenant({ app })), receiver, services }
}

const newDataset = async (tenant: Awaited<ReturnType<typeof newTracedTenant>>['tenant'], body: object = {}) =>
  (await tenant.post('/datasets', { name: unusedId(), ...body })).body

describe('a webhook', () => {
  it('brings the runs that match, signed, with the headers of the rule', async () => {
    const { tenant, receiver, services, createRule } = await newHookedTenant()
    const rule = await createRule({ webhooks: [{ url: receiver.url, headers: { 'X-Token': 'secret-value' } }] })
    const outputs = '{"answer":12345678901234567890}'
    const ids = await appendEnded(tenant, 3, { inputs: '{"question":"?"}', outputs })
    await tenant.post('/feedback', { run_id: ids[0], key: 'thumbs', score: 1 })
    await sweep(tenant, services)
    expect(receiver.messages).toHaveLength(1)
    const [{ headers, body, json }] = receiver.messages as [(typeof receiver.messages)[0]]
    expect(new Webhook(rule.webhook_secret).verify(body, headers)).toEqual(json)
    expect(headers['x-token']).toBe('secret-value')
    expect(json).toMatchObject({ rule_id: rule.id, start_time: expect.any(String), end_time: expect.any(String) })
    expect(json.feedback_stats).toMatchObject({ thumbs: { n: 1, avg: 1 } })
    expect(json.runs.map(({ id }: { id: string }) => id).sort()).toEqual(ids)
    expect(json.runs[0]).toMatchObject({ name: 'chat', inputs: { question: '?' }, status: 'success' })
    expect(body).toContain(outputs)
    const [log] = await readLogs(tenant, rule)
    expect(log.webhooks).toMatchObject({
      outcome: 'success',
      payload: {
        deliveries: [{ message_id: headers['webhook-id'], url: receiver.url, attempts: 1, answer_status: 204 }],
      },
    })
  })

  it.each([
    ['500', (n: number) => (n < 3 ? 500 : 204), 3, 'success'],
    ['503', () => 503, 3, 'error'],
    ['404', () => 404, 1, 'error'],
    ['302', () => 302, 1, 'error'],
  ] as const)('that is answered %s is repeated, or not', async (_, statusOf, attempts, outcome) => {
    const { tenant, receiver, services, createRule } = await newHookedTenant()
    receiver.answer = response => response.writeHead(statusOf(receiver.messages.length)).end()
    const rule = await createRule({ webhooks: [{ url: receiver.url }] })
    await appendEnded(tenant, 1)
    await sweep(tenant, services)
    for (const minutes of [2, 10, 60]) await withClockAhead(minutes * MINUTE, () => sweep(tenant, services))
    expect(receiver.messages).toHaveLength(attempts)
    expect(new Set(receiver.messages.map(({ id }) => id)).size).toBe(1)
    const [log] = await readLogs(tenant, rule)
    expect(log.webhooks).toMatchObject({ outcome, payload: { deliveries: [{ attempts }] } })
  })

  it('whose receiver does not listen is repeated, and its outcome is open until then', async () => {
    const { tenant, receiver, services, createRule } = await newHookedTenant()
    await receiver.close()
    const rule = await createRule({ webhooks: [{ url: receiver.url }] })
    await appendEnded(tenant, 1)
    await sweep(tenant, services)
    expect((await readLogs(tenant, rule))[0].webhooks).toBeNull()
    for (const minutes of [2, 10]) await withClockAhead(minutes * MINUTE, () => sweep(tenant, services))
    expect((await readLogs(tenant, rule))[0].webhooks).toMatchObject({
      outcome: 'error',
      payload: { deliveries: [{ attempts: 3, error: 'upstream_error' }] },
    })
  })

  it('that the rule no longer has is not sent', async () => {
    const { tenant, receiver, services, createRule } = await newHookedTenant()
    receiver.answer = response => response.writeHead(500).end()
    const rule = await createRule({ webhooks: [{ url: receiver.url }] })
    await appendEnded(tenant, 1)
    await sweep(tenant, services)
    await tenant.patch(`/runs/rules/${rule.id}`, { webhooks: [] })
    await withClockAhead(5 * MINUTE, () => sweep(tenant, services))
    expect(receiver.messages).toHaveLength(1)
    const [log] = await readLogs(tenant, rule)
    expect(log.webhooks.payload.deliveries).toMatchObject([{ error: 'webhook_removed', url: null }])
  })
})

describe('an example', () => {
  const readExamples = async (tenant: Parameters<typeof newDataset>[0], dataset: { id: string }) =>
    (await tenant.get(`/examples?dataset=${dataset.id}`)).body

  it('has the inputs and outputs of the run, or its correction', async () => {
    const { tenant, createRule } = await newTracedTenant()
    const [plain, corrected] = [await newDataset(tenant), await newDataset(tenant)]
    await createRule({ add_to_dataset_id: plain.id })
    await createRule({ add_to_dataset_id: corrected.id, add_to_dataset_prefer_correction: true })
    const [run_id] = await appendEnded(tenant, 1, { inputs: '{"a":1}', outputs: '{"b":12345678901234567890}' })
    await tenant.post('/feedback', { run_id, key: 'review', correction: { b: 0 } })
    await tenant.post('/feedback', { run_id, key: 'review', correction: { b: 2 } })
    await tenant.post('/feedback', { run_id, key: 'review', score: 1 })
    await sweep(tenant)
    expect(await readExamples(tenant, plain)).toMatchObject([{ inputs: { a: 1 }, source_run_id: run_id }])
    expect((await tenant.get(`/examples?dataset=${plain.id}`)).text).toContain('12345678901234567890')
    expect(await readExamples(tenant, corrected)).toMatchObject([{ inputs: { a: 1 }, outputs: { b: 2 } }])
  })

  it('that the dataset refuses is an error of that run alone', async () => {
    const { tenant, createRule } = await newTracedTenant()
    const inputs_schema_definition = { type: 'object', required: ['a'] }
    const dataset = await newDataset(tenant, { inputs_schema_definition })
    const rule = await createRule({ add_to_dataset_id: dataset.id })
    const good = await appendEnded(tenant, 3, { inputs: '{"a":1}' })
    const bad = await appendEnded(tenant, 2, { inputs: '{"b":1}' })
    await sweep(tenant)
    const examples = await readExamples(tenant, dataset)
    expect(examples.map((one: { source_run_id: string }) => one.source_run_id).sort()).toEqual(good)
    const logs: { run_id: string; add_to_dataset: object }[] = await readLogs(tenant, rule)
    for (const { run_id, add_to_dataset } of logs)
      expect(add_to_dataset).toMatchObject({ outcome: bad.includes(run_id) ? 'error' : 'success' })
    expect(logs).toHaveLength(5)
  })

  it('has payloads that lie in the object store', async () => {
    const { tenant, createRule } = await newTracedTenant()
    const dataset = await newDataset(tenant)
    await createRule({ add_to_dataset_id: dataset.id })
    const long = 'x'.repeat(100_000)
    await appendEnded(tenant, 1, { inputs: JSON.stringify({ long }) })
    await sweep(tenant)
    expect(await readExamples(tenant, dataset)).toMatchObject([{ inputs: { long } }])
  })
})

describe('an annotation queue', () => {
  it('gets each run once, and makes its trace long-lived', async () => {
    const { tenant, createRule } = await newTracedTenant()
    const queue = (await tenant.post('/annotation-queues', { name: 'Failures' })).body
    const body = { filter: 'eq(status, "error")', add_to_annotation_queue_id: queue.id }
    const rule = await createRule(body)
    expect(rule).toMatchObject({ add_to_annotation_queue_id: queue.id, add_to_annotation_queue_name: 'Failures' })
    const again = await createRule(body)
    const failed = await appendEnded(tenant, 2, { error: 'boom' })
    await appendEnded(tenant, 1)
    await sweep(tenant)
    await sweep(tenant)
    const { body: queued } = await tenant.get(`/annotation-queues/${queue.id}/runs`)
    expect(queued.map(({ id }: { id: string }) => id).sort()).toEqual(failed)
    const outcomes = (await Promise.all([rule, again].map(one => readLogs(tenant, one)))).flat()
    expect(outcomes.map(one => one.add_to_annotation_queue.outcome).sort()).toEqual([
      'skipped',
      'skipped',
      'success',
      'success',
    ])
    expect(outcomes[0].add_to_annotation_queue.payload).toEqual({ queue_id: queue.id })
    await sweepQueues(getServices())
    const rows = await readRows<{ id: string; trace_tier: string }>(tenant)
    const longlived = rows.filter(({ trace_tier }) => trace_tier === 'longlived')
    expect(longlived.map(({ id }) => id).sort()).toEqual(failed)
    await tenant.delete(`/annotation-queues/${queue.id}`)
    await appendEnded(tenant, 1, { error: 'boom' })
    await sweep(tenant)
    expect((await readLogs(tenant, rule))[0].add_to_annotation_queue).toBeNull()
  })

  it('that is full takes no further runs, and the rule goes on', async () => {
    const { tenant, createRule } = await newTracedTenant()
    const queue = (await tenant.post('/annotation-queues', { name: 'Full' })).body
    const rule = await createRule({ add_to_annotation_queue_id: queue.id })
    const runs = await appendEnded(tenant, 2)
    await runAsSystem(
      getServices().database,
      sql`
        insert into annotation_queue_items (
          queue_id, organization_id, tenant_id, session_id, thread_id, start_time, check_at
        )
        select q.id, q.organization_id, q.tenant_id, r.session_id, n::text, now(), now() + interval '1 year'
        from annotation_queues q
        join run_rules r on r.add_to_annotation_queue_id = q.id
        cross join generate_series(1, ${MAX_ITEMS - 1}) n
        where q.id = ${queue.id}::uuid`,
    )
    await sweep(tenant)
    const outcomes = (await readLogs(tenant, rule)).map(
      ({ add_to_annotation_queue }: { add_to_annotation_queue: object }) => add_to_annotation_queue,
    )
    expect(outcomes).toContainEqual({ outcome: 'success', payload: { queue_id: queue.id } })
    expect(outcomes).toContainEqual({ outcome: 'error', payload: { error: 'queue_full' } })
    const added = await tenant.post(`/annotation-queues/${queue.id}/runs`, runs)
    expect([added.status, added.body.code]).toEqual([400, 'queue_full'])
  })

  it('in another workspace is refused', async () => {
    const { tenant, session_id } = await newTracedTenant()
    const rule = { display_name: 'Rule', sampling_rate: 1, session_id, add_to_annotation_queue_id: unusedId() }
    const { status, body } = await tenant.post('/runs/rules', rule)
    expect([status, body.code]).toEqual([404, 'queue_not_found'])
  })
})

it('retention is extended once, for the whole trace', async () => {
  const { tenant, createRule } = await newTracedTenant()
  const rule = await createRule({ extend_only: true, filter: 'eq(name, "leaf")' })
  const trace = newTrace(['leaf'])
  await appendRuns(
    tenant,
    trace.runs.map(one => ({ ...one, ...END })),
  )
  await appendEnded(tenant, 1)
  await sweep(tenant)
  await sweep(tenant)
  expect(await readLogs(tenant, rule)).toMatchObject([{ extend_only: { outcome: 'success', payload: null } }])
  const { body } = await tenant.post('/runs/query', { id: trace.runs.map(({ id }) => id), select: ['trace_tier'] })
  expect(body.runs.map((one: { trace_tier: string }) => one.trace_tier)).toEqual(['longlived', 'longlived'])
})

describe('a worker that dies at one of its round trips to the database', () => {
  class CutError extends Error {}

  /** Fails at the trip of that number: before it reaches the database, or when its reply is lost. */
  const cutAt = (services: ReturnType<typeof getServices>, cut: number, isReplyLost: boolean) => {
    const state = { trips: 0 }
    const database = wrapTrips(services.database, trip => async statements => {
      state.trips++
      if (state.trips < cut) return trip(statements)
      // The worker is dead: nothing that it does later reaches the database either.
      if (state.trips === cut && isReplyLost) await trip(statements)
      throw new CutError('cut')
    })
    return { services: { ...services, database }, state }
  }

  it.each([
    ['before it', false],
    ['after it, so that the reply is lost', true],
  ])('%s, leaves each action to be done once', async (_, isReplyLost) => {
    const { tenant, receiver, services, createRule } = await newHookedTenant()
    let cut = 0
    let isCut = true
    for (; isCut; ) {
      cut++
      const dataset = await newDataset(tenant)
      const queue = (await tenant.post('/annotation-queues', { name: unusedId() })).body
      const rule = await createRule({
        add_to_dataset_id: dataset.id,
        add_to_annotation_queue_id: queue.id,
        extend_only: true,
        webhooks: [{ url: receiver.url }],
      })
      const runs = await appendEnded(tenant, 2)
      receiver.messages.length = 0
      const { services: dying, state } = cutAt(services, cut, isReplyLost)
      await sweep(tenant, dying).catch(error => expect(error).toBeInstanceOf(CutError))
      isCut = state.trips >= cut
      // The leases end.
      for (const minutes of [3, 6]) await withClockAhead(minutes * MINUTE, () => sweep(tenant, services))
      const about = `cut at trip ${cut}`
      expect(await appliedRuns(tenant, rule), about).toEqual(runs)
      const examples = (await tenant.get(`/examples?dataset=${dataset.id}`)).body
      expect(examples.map((one: { source_run_id: string }) => one.source_run_id).sort(), about).toEqual(runs)
      const queued = (await tenant.get(`/annotation-queues/${queue.id}/runs`)).body
      expect(queued.map(({ id }: { id: string }) => id).sort(), about).toEqual(runs)
      const messages = receiver.messages.filter(({ json }) => json.rule_id === rule.id)
      expect(new Set(messages.map(({ id }) => id)).size, about).toBe(1)
      expect(messages[0]!.json.runs.map(({ id }: { id: string }) => id).sort(), about).toEqual(runs)
      const logs = await readLogs(tenant, rule)
      expect(logs, about).toMatchObject(
        runs.map(() => ({
          add_to_dataset: { outcome: 'success' },
          add_to_annotation_queue: { outcome: 'success' },
          webhooks: { outcome: 'success' },
        })),
      )
      await tenant.delete(`/runs/rules/${rule.id}`)
    }
    expect(cut).toBeGreaterThan(10)
  })
})
