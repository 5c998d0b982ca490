// The published clients, unchanged, in each way they can send runs.
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { send, unusedId } from '../support/app.ts'
import { readRows } from '../support/traces.ts'
import { connectClient, isWorker, type SentRequest, VERSIONS } from '../support/tracing-clients.ts'

type Connected = Awaited<ReturnType<typeof connectClient>>
type Row = Record<string, unknown>

const briefly = (requests: SentRequest[]) =>
  requests.map(({ method, path, encoding, status }) => [method, path, encoding, status].filter(Boolean).join(' '))

/** A function that calls another one, and a tree of runs of which one fails. */
async function trace({ client, traceable, RunTree }: Connected): Promise<void> {
  const common = { client, project_name: 'traced', tracingEnabled: true }
  const model = traceable(async (question: string) => ({ answer: `${question}!` }), {
    ...common,
    name: 'model',
    run_type: 'llm',
    tags: ['fast'],
    metadata: { thread_id: 'thread' },
  })
  const answer = traceable(async (question: string) => (await model(question)).answer, { ...common, name: 'answer' })
  expect(await answer('42')).toBe('42!')

  const tree = new RunTree({ name: 'tree', run_type: 'chain', inputs: { big: 'x'.repeat(50_000) }, ...common })
  await tree.postRun()
  const child = tree.createChild({ name: 'child', run_type: 'tool', inputs: { a: 1 } })
  await child.postRun()
  await child.end(undefined, 'boom')
  await child.patchRun()
  await tree.end({ done: true })
  await tree.patchRun()
  await client.awaitPendingTraceBatches()
}

async function expectTraced({ tenant, requests }: Connected): Promise<void> {
  expect(requests.filter(({ status }) => status >= 400 && status !== 404)).toEqual([])
  const rows = await readRows<Row & { name: string }>(tenant)
  const named = (name: string) => rows.find(row => row.name === name && row.project === 'traced')!
  expect(rows.filter(({ project }) => project === 'traced')).toHaveLength(4)
  const [answer, child, model, tree] = [named('answer'), named('child'), named('model'), named('tree')]
  expect(answer).toMatchObject({
    run_type: 'chain',
    status: 'success',
    parent_run_id: null,
    trace_id: answer.id,
    inputs: '{"input":"42"}',
    outputs: '{"outputs":"42!"}',
  })
  expect(model).toMatchObject({
    run_type: 'llm',
    status: 'success',
    parent_run_id: answer.id,
    trace_id: answer.id,
    tags: ['fast'],
    inputs: '{"input":"42"}',
    outputs: '{"answer":"42!"}',
    thread_id: 'thread',
  })
  expect(tree).toMatchObject({ status: 'success', outputs: '{"done":true}', parent_run_id: null })
  expect(child).toMatchObject({ status: 'error', error: 'boom', parent_run_id: tree.id, inputs: '{"a":1}' })
  expect(String(child.dotted_order).startsWith(`${tree.dotted_order}.`)).toBe(true)
}

const refuseMultipart = (status: number) => (path: string) =>
  path === '/runs/multipart' ? Response.json({}, { status }) : undefined

describe.each(VERSIONS)('langsmith %s', version => {
  // The older one compresses nothing on Bun.
  const gzip = version === '0.7.0' && 'Bun' in globalThis ? '' : ' gzip'
  const encoding = version === '0.12.0' && !isWorker ? ' zstd' : gzip

  it.each<[string, Parameters<typeof connectClient>[1], string]>([
    ['as this installation says', {}, `POST /runs/multipart${encoding} 202`],
    ['with gzip', { info: { instance_flags: { zstd_compression_enabled: false } } }, `POST /runs/multipart${gzip} 202`],
    [
      'without compression',
      { info: { instance_flags: { zstd_compression_enabled: false, gzip_body_enabled: false } } },
      'POST /runs/multipart 202',
    ],
    ['in batches', { info: { batch_ingest_config: { use_multipart_endpoint: false } } }, 'POST /runs/batch 202'],
    ['in batches, after multipart was not found', { answer: refuseMultipart(404) }, 'POST /runs/batch 202'],
    ['below /api/v1', { apiUrl: 'http://slipway.test/api/v1' }, `POST /api/v1/runs/multipart${encoding} 202`],
  ])('traces %s', async (_, options, expected) => {
    const connected = await connectClient(version, options)
    const { client, RunTree } = connected
    // The first request tells the client of the 404. One that is compressed is not sent again.
    await new RunTree({ name: 'first', project_name: 'first', client, tracingEnabled: true }).postRun()
    await client.awaitPendingTraceBatches()
    await trace(connected)
    await expectTraced(connected)
    expect(briefly(connected.requests).at(-1)).toBe(expected)
  })

  it.skipIf(isWorker)('keeps what was refused in a file, whose body can be sent later', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'slipway-failed-traces-'))
    const connected = await connectClient(version, { answer: refuseMultipart(400) })
    Object.assign(connected.client, { failedTracesDir: folder })
    await trace(connected)
    for (const file of readdirSync(folder)) {
      const { endpoint, headers, body_base64 } = JSON.parse(readFileSync(join(folder, file), 'utf8'))
      const raw = Uint8Array.from(Buffer.from(body_base64, 'base64'))
      const reply = await send('POST', `/${endpoint}`, {
        raw,
        headers: { ...headers, 'X-Api-Key': connected.tenant.key },
      })
      expect(reply.status).toBe(202)
    }
    rmSync(folder, { recursive: true })
    connected.requests.length = 0
    await expectTraced(connected)
  })

  it('sends hundreds of runs that share a long prompt, which compress far', async () => {
    const { client, RunTree, tenant, requests } = await connectClient(version)
    // Long enough to collect them in batches of a hundred.
    Object.assign(client, { autoBatchAggregationDelayMs: 100 })
    const content = randomBytes(24 * 1024).toString('base64')
    const inputs = { messages: [{ role: 'system', content }] }
    const runs = Array.from({ length: 500 }, (_, i) => {
      const run = { name: `run ${i}`, run_type: 'llm', inputs, client, project_name: 'traced', tracingEnabled: true }
      return new RunTree(run)
    })
    await Promise.all(runs.map(run => run.postRun()))
    await client.awaitPendingTraceBatches()
    // An isolate may have no room for so many large bodies at once. The client sends those again.
    const mayBeFull = navigator.userAgent === 'Cloudflare-Workers'
    expect(requests.filter(({ status }) => status >= 400 && !(mayBeFull && status === 503))).toEqual([])
    expect(await readRows(tenant)).toHaveLength(500)
  }, 60_000)

  it('creates and updates a run that has no place in a trace', async () => {
    const { client, tenant, requests } = await connectClient(version)
    const id = unusedId()
    await client.createRun({ id, name: 'plain', run_type: 'llm', inputs: { a: 1 } })
    await client.updateRun(id, { outputs: { b: 2 }, end_time: Date.now() })
    expect(briefly(requests)).toEqual(['POST /runs 202', `PATCH /runs/${id} 202`])
    expect(await readRows(tenant)).toMatchObject([
      { id, trace_id: id, project: 'default', inputs: '{"a":1}', outputs: '{"b":2}', status: 'success' },
    ])
  })

  it('sends attachments and feedback with the runs', async () => {
    const { client, RunTree, tenant } = await connectClient(version)
    const picture = Uint8Array.of(0, 13, 10, 45, 45, 255)
    const run = new RunTree({
      name: 'seen',
      run_type: 'chain',
      inputs: {},
      client,
      project_name: 'traced',
      tracingEnabled: true,
      attachments: { picture: ['image/png', picture] },
    })
    await run.postRun()
    await run.end({})
    await run.patchRun()
    await client.createFeedback(run.id, 'correctness', { score: 0.5, comment: 'half', traceId: run.id } as never)
    await client.awaitPendingTraceBatches()
    const [row] = await readRows<{ objects: { attachments: Record<string, object> } }>(tenant)
    expect(row!.objects.attachments).toMatchObject({ picture: { bytes: picture.byteLength, type: 'image/png' } })
    const { body } = await tenant.get(`/feedback?run=${run.id}`)
    expect(body).toMatchObject([{ run_id: run.id, key: 'correctness', score: 0.5, comment: 'half' }])
  })
})
