import { randomBytes } from 'node:crypto'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startDueCrons } from '../../src/graphs/crons.ts'
import { sweep } from '../../src/graphs/sweeps.ts'
import { sendWebhook } from '../../src/graphs/webhooks.ts'
import { openGraphs, readEvents } from './graphs.ts'

let graphs: Awaited<ReturnType<typeof openGraphs>>
type Copy = Awaited<ReturnType<typeof graphs.startCopy>>
let copy: Copy
let other: Copy
beforeAll(async () => {
  graphs = await openGraphs()
  // At once: migrations and assistants of two copies do not collide.
  ;[copy, other] = await Promise.all([graphs.startCopy(), graphs.startCopy()])
})
afterAll(() => graphs.close())

const newThread = async () => (await copy.call('POST', '/threads', {})).body.thread_id as string
const startRun = async (thread: string, input: object, more: object = {}) =>
  (await copy.call('POST', `/threads/${thread}/runs`, { assistant_id: 'echo', input, ...more })).body
const join = async (thread: string, run: string) =>
  (await other.call('GET', `/threads/${thread}/runs/${run}/join`)).body
const statusOf = async (thread: string, run: string) =>
  (await copy.call('GET', `/threads/${thread}/runs/${run}`)).body.status
const running = (thread: string, run: string) => expect.poll(() => statusOf(thread, run)).toBe('running')
const LONG = { steps: 1000, say: 'late' }

describe('runs of one thread', () => {
  it('run one after the other, though two copies claim', async () => {
    const thread = await newThread()
    const runs = []
    for (const say of ['a', 'b', 'c', 'd']) runs.push(await startRun(thread, { say, steps: 3 }))
    expect(runs.map(run => run.status)).toEqual(Array(4).fill('pending'))
    expect(await join(thread, runs.at(-1)!.run_id)).toEqual({ log: ['a', 'b', 'c', 'd'] })
    expect((await copy.call('GET', `/threads/${thread}`)).body).toMatchObject({
      status: 'idle',
      values: { log: ['a', 'b', 'c', 'd'] },
    })
  })

  it('are refused, interrupted or rolled back by the strategy of the next', async () => {
    const thread = await newThread()
    const first = await startRun(thread, LONG)
    await running(thread, first.run_id)
    const refused = await copy.call('POST', `/threads/${thread}/runs`, {
      assistant_id: 'echo',
      multitask_strategy: 'reject',
    })
    expect(refused.status).toBe(409)
    const second = await startRun(thread, { ...LONG, say: 'x' }, { multitask_strategy: 'interrupt' })
    await running(thread, second.run_id)
    expect(await statusOf(thread, first.run_id)).toBe('interrupted')
    const third = await startRun(thread, { say: 'last' }, { multitask_strategy: 'rollback' })
    expect(await join(thread, third.run_id)).toEqual({ log: ['last'] })
    expect((await copy.call('GET', `/threads/${thread}/runs/${second.run_id}`)).status).toBe(404)
  })

  it('wait for their time', async () => {
    const thread = await newThread()
    const run = await startRun(thread, { say: 'later' }, { after_seconds: 60 })
    const now = await startRun(thread, { say: 'now' })
    expect(await join(thread, now.run_id)).toEqual({ log: ['now'] })
    expect(await statusOf(thread, run.run_id)).toBe('pending')
    await copy.call('POST', `/threads/${thread}/runs/${run.run_id}/cancel`)
    expect(await statusOf(thread, run.run_id)).toBe('interrupted')
  })

  it('set the status of the thread: interrupted by a question, error by a failure', async () => {
    const thread = await newThread()
    await join(thread, (await startRun(thread, { say: 'a', ask: true })).run_id)
    const { body } = await copy.call('POST', '/threads/search', { status: 'interrupted', ids: [thread] })
    expect(body).toMatchObject([{ interrupts: { task: [{ value: 'May I?' }] } }])
    const failed = await startRun(thread, { fail: 'broken' })
    expect(await join(thread, failed.run_id)).toEqual({ __error__: { error: 'TypeError', message: 'broken' } })
    expect((await copy.call('GET', `/threads/${thread}`)).body.status).toBe('error')
  })
})

describe('a stream', () => {
  it('goes on at another copy after the id of the last event', async () => {
    const thread = await newThread()
    const body = { assistant_id: 'echo', input: { steps: 5, say: 'x' }, stream_mode: ['custom', 'values'] }
    const whole = await readEvents(await copy.send('POST', `/threads/${thread}/runs/stream`, body))
    expect(whole.map(({ event }) => event)).toEqual(['metadata', ...Array(5).fill('custom'), 'values'])
    const path = `/threads/${thread}/runs/${whole[0]!.data.run_id}/stream`
    const rest = await other.send('GET', path, undefined, { 'Last-Event-ID': `${whole[3]!.id}` })
    expect(await readEvents(rest)).toEqual(whole.slice(4))
    const all = await other.send('GET', `${path}?stream_mode=custom`, undefined, { 'Last-Event-ID': '-1' })
    expect(await readEvents(all)).toEqual(whole.slice(0, 6))
  })

  it('with large events comes whole, in parts', async () => {
    const thread = await newThread()
    const { run_id } = await startRun(thread, { say: 'x' })
    await join(thread, run_id)
    await graphs.sql(`insert into graphs.events (run_id, thread_id, event, data)
      select '${run_id}', '${thread}', 'custom', to_json(i || repeat('x', 700000)) from generate_series(1, 5) i`)
    const path = `/threads/${thread}/runs/${run_id}/stream?stream_mode=custom`
    const events = await readEvents(await other.send('GET', path, undefined, { 'Last-Event-ID': '-1' }))
    const large = events.filter(({ event }) => event === 'custom')
    expect(large.map(({ data }) => String(data)[0])).toEqual(['1', '2', '3', '4', '5'])
  })

  it('that a caller leaves cancels its run, if the caller said so', async () => {
    const thread = await newThread()
    const leave = new AbortController()
    const body = JSON.stringify({ assistant_id: 'echo', input: LONG, on_disconnect: 'cancel' })
    const headers = { 'Content-Type': 'application/json' }
    const options = { method: 'POST', headers, body, signal: leave.signal }
    const response = await fetch(`${copy.url}/threads/${thread}/runs/stream`, options)
    await response.body!.getReader().read()
    leave.abort()
    const [run] = await graphs.sql(`select run_id from graphs.runs where thread_id = '${thread}'`)
    await expect.poll(() => statusOf(thread, run!.run_id)).toBe('interrupted')
  })
})

describe('a run', () => {
  it('whose executor ends is run again', async () => {
    const thread = await newThread()
    const { run_id } = await startRun(thread, { say: 'survived', crash: true })
    expect(await join(thread, run_id)).toEqual({ log: ['survived'] })
    const attempts = await graphs.sql(
      `select data from graphs.events where run_id = '${run_id}' and event = 'metadata' order by id`,
    )
    expect(attempts.map(row => JSON.parse(row.data).attempt)).toEqual([1, 2])
  })

  it('whose lease ended is taken over, and the copy that lost it writes no more', async () => {
    const thread = await newThread()
    const { run_id } = await startRun(thread, { steps: 40, pause: 50, say: 'once' })
    await running(thread, run_id)
    // Another owner: as if another copy had claimed it.
    await graphs.sql(
      `update graphs.runs set lease_owner = gen_random_uuid(), lease_until = now() - interval '1 second'
      where run_id = '${run_id}'`,
    )
    await join(thread, run_id)
    const events = await graphs.sql<{ event: string; data: string }>(
      `select event, data from graphs.events where run_id = '${run_id}' order by id`,
    )
    const second = events.findLastIndex(({ event }) => event === 'metadata')
    expect(JSON.parse(events[second]!.data).attempt).toBe(2)
    const steps = events.slice(second).flatMap(({ event, data }) => (event === 'custom' ? JSON.parse(data).step : []))
    expect(steps).toEqual(Array.from({ length: 40 }, (_, i) => i + 1))
  })

  it('without a thread has one that nobody sees', async () => {
    const { body } = await copy.call('POST', '/runs/wait', { assistant_id: 'echo', input: { say: 'alone' } })
    expect(body).toEqual({ log: ['alone'] })
    const [row] = await graphs.sql(`select thread_id, expires_at from graphs.threads where is_temporary`)
    expect(row!.expires_at).not.toBeNull()
    expect((await copy.call('POST', '/threads/search', { ids: [row!.thread_id] })).body).toEqual([])
  })
})

it('an assistant keeps its versions', async () => {
  const { body: made } = await copy.call('POST', '/assistants', { graph_id: 'echo', name: 'Mine', metadata: { a: 1 } })
  const path = `/assistants/${made.assistant_id}`
  expect((await copy.call('PATCH', path, { name: 'New', metadata: { b: 2 } })).body).toMatchObject({
    version: 2,
    metadata: { a: 1, b: 2 },
  })
  expect((await copy.call('POST', `${path}/latest`, { version: 1 })).body).toMatchObject({ version: 1, name: 'Mine' })
  expect((await copy.call('POST', `${path}/latest`, { version: 9 })).status).toBe(404)
  expect((await copy.call('POST', `${path}/versions`, {})).body.map((one: { name: string }) => one.name)).toEqual([
    'New',
    'Mine',
  ])
  expect((await copy.call('DELETE', path)).status).toBe(204)
  expect((await copy.call('GET', path)).status).toBe(404)
})

it('the store filters, lists namespaces, and forgets items after their time', async () => {
  const put = (namespace: string[], key: string, value: object, ttl?: number) =>
    copy.call('PUT', '/store/items', { namespace, key, value, ttl })
  await put(['u', 'one'], 'a', { kind: 'x', age: 3, '%': "'" })
  await put(['u', 'two'], 'b', { kind: 'x', age: 9 })
  await put(['u', 'two'], 'c', { kind: 'y', age: 9 }, 0.00001)
  const search = async (body: object) =>
    (await copy.call('POST', '/store/items/search', body)).body.items.map((item: { key: string }) => item.key)
  expect(await search({ namespace_prefix: ['u'], filter: { kind: 'x', age: { $gt: 3 } } })).toEqual(['b'])
  expect(await search({ namespace_prefix: [], filter: { '%': "'" } })).toEqual(['a'])
  expect(await search({ filter: { age: { $gte: 3, $lt: 9 }, none: { $ne: 1 } } })).toEqual([])
  expect(await search({ filter: { age: { toString: 3 } } })).toEqual([])
  const { body } = await copy.call('POST', '/store/namespaces', { suffix: ['*', 'two'] })
  expect(body.namespaces).toEqual([['u', 'two']])
  await delay(5)
  expect((await copy.call('GET', '/store/items?namespace=u.two&key=c')).body).toBeNull()
  expect((await put(['a.b'], 'k', {})).status).toBe(422)
  // Longer than an entry of an index.
  expect((await put(['u'], randomBytes(9000).toString('hex'), {})).status).toBe(422)
})

it('the store finds items by their meaning, below a prefix and by a filter', async () => {
  const embed = { path: './embed.mjs', name: 'embed', language: 'javascript' } as const
  const indexed = await graphs.startCopy({ index: { dims: 3, fields: ['text', 'parts[*].text'], embed } })
  const put = (key: string, value: object, more: object = {}) =>
    indexed.call('PUT', '/store/items', { namespace: ['m', 'docs'], key, value, ...more })
  await put('a', { text: 'aaab', kind: 'x' })
  await put('b', { text: 'bbba', kind: 'x' })
  await put('parts', { parts: [{ text: 'c' }, { text: 'aab' }], kind: 'y' })
  await put('title', { title: 'ccc' }, { index: ['title'] })
  await put('hidden', { text: 'a' }, { index: false })
  const search = async (query: string, more: object = {}) =>
    (await indexed.call('POST', '/store/items/search', { namespace_prefix: ['m'], query, ...more })).body.items
  const keys = async (query: string, more?: object) =>
    (await search(query, more)).map((one: { key: string }) => one.key)
  expect(await keys('a')).toEqual(['a', 'parts', 'b', 'title'])
  expect(await keys('c', { limit: 2 })).toEqual(expect.arrayContaining(['parts', 'title']))
  expect(await keys('a', { filter: { kind: 'y' } })).toEqual(['parts'])
  expect(await keys('a', { namespace_prefix: ['other'] })).toEqual([])
  expect((await search('aab', { limit: 1 }))[0]).toMatchObject({ key: 'parts', score: expect.closeTo(1, 5) })
  await put('a', { text: 'ccc', kind: 'x' })
  expect(await keys('a', { limit: 1 })).toEqual(['parts'])
  await indexed.call('DELETE', '/store/items', { namespace: ['m', 'docs'], key: 'parts' })
  expect(await keys('a', { limit: 1 })).toEqual(['b'])
  expect((await put('wrong', {}, { index: ['a..b'] })).status).toBe(422)
  const long = { text: 'a'.repeat(60_000) }
  expect((await put('long', long, { index: Array(20).fill('text') })).status).toBe(422)
  expect((await put('long', long)).status).toBe(204)
  const small = await graphs.startCopy({ index: { dims: 2, fields: ['text'], embed } })
  const wrong = { namespace: ['m'], key: 'k', value: { text: 'a' } }
  expect((await small.call('PUT', '/store/items', wrong)).status).toBe(502)
})

it('a due cron starts one run, though each copy looks', async () => {
  const { body: cron } = await copy.call('POST', '/runs/crons', {
    assistant_id: 'echo',
    schedule: '0 0 1 1 *',
    input: { say: 'tick' },
    metadata: { from: 'cron' },
    on_run_completed: 'keep',
  })
  await graphs.sql(`update graphs.crons set next_run_date = now() - interval '1 minute'`)
  await Promise.all([startDueCrons(copy.server), startDueCrons(other.server)])
  const findRuns = () => graphs.sql(`select * from graphs.runs where metadata ->> 'cron_id' = '${cron.cron_id}'`)
  // Each copy also looks by itself, each second.
  await expect.poll(findRuns).toHaveLength(1)
  const [run] = await findRuns()
  await join(run!.thread_id, run!.run_id)
  expect(await findRuns()).toMatchObject([{ metadata: { from: 'cron' } }])
  const [row] = await graphs.sql(`select next_run_date > now() as is_ahead from graphs.crons`)
  expect(row!.is_ahead).toBe(true)
  for (const patch of [{ schedule: 'often' }, { schedule: '0 0 31 2 *' }, { webhook: 'http://169.254.169.254/' }])
    expect((await copy.call('PATCH', `/runs/crons/${cron.cron_id}`, patch)).status).toBe(422)
  expect((await copy.call('DELETE', `/runs/crons/${cron.cron_id}`)).status).toBe(204)
})

it('webhooks whose receivers do not answer do not fill the memory', async () => {
  const received: ServerResponse[] = []
  const receiver = createServer((req, res) => void req.resume().once('end', () => received.push(res)))
  await new Promise<void>(listening => receiver.listen(0, '127.0.0.1', listening))
  try {
    const webhook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`
    const policy = { url: { disable_loopback: false } }
    const values = JSON.stringify('x'.repeat(40 * 2 ** 20))
    const ended = {
      run: { run_id: 'one', kwargs: { webhook } },
      end: { status: 'success', error: null, state: { values } },
    }
    const send = () => sendWebhook(ended as never, { policy, environment: {}, ownUrl: '', hasAuth: false })
    const first = send()
    await expect.poll(() => received.length).toBe(1)
    await send()
    expect(received).toHaveLength(1)
    received[0]!.end()
    await first
    const next = send()
    await expect.poll(() => received.length).toBe(2)
    received[1]!.end()
    await next
  } finally {
    receiver.closeAllConnections()
    receiver.close()
  }
})

/** Each copy also sweeps by itself, each minute: it may have taken a thread before the sweep of a test. */
const expectGone = (thread: string) =>
  expect.poll(async () => (await copy.call('GET', `/threads/${thread}`)).status).toBe(404)

it('a sweep deletes old events and expired threads', async () => {
  const { body: expiring } = await copy.call('POST', '/threads', { ttl: 60 })
  const [kept, old] = [await newThread(), await newThread()]
  for (const thread of [kept, old]) await join(thread, (await startRun(thread, { say: 'x' })).run_id)
  await graphs.sql(`update graphs.threads set expires_at = now() where thread_id = '${expiring.thread_id}'`)
  await graphs.sql(`update graphs.events set at = now() - interval '2 hours' where thread_id = '${old}'`)
  await sweep(copy.server)
  await expectGone(expiring.thread_id)
  const eventsOf = (thread: string) => graphs.sql(`select from graphs.events where thread_id = '${thread}'`)
  await expect.poll(() => eventsOf(old)).toEqual([])
  expect(await eventsOf(kept)).not.toEqual([])
})

it('a thread that cannot be removed keeps no others, and is tried again', async () => {
  const create = async (ttl: object) => (await copy.call('POST', '/threads', { ttl })).body.thread_id as string
  const held = await create({ ttl: 60 })
  const other = await create({ ttl: 60 })
  // The executor of these tests cannot prune.
  const unpruned = await create({ ttl: 60, strategy: 'keep_latest' })
  await graphs.sql(`update graphs.threads
    set expires_at = now(), metadata = '{"graph_id": "echo"}'
    where thread_id in ('${held}', '${other}', '${unpruned}')`)
  await graphs.sql(`create table held as select '${held}'::uuid as id`)
  await graphs.sql('alter table held add foreign key (id) references graphs.threads')
  await sweep(copy.server)
  const left = await graphs.sql(`select thread_id from graphs.threads where expires_at > now()`)
  expect(left.map(row => row.thread_id)).toEqual(expect.arrayContaining([held, unpruned]))
  await expectGone(other)
  await graphs.sql('drop table held')
  await graphs.sql(`update graphs.threads set expires_at = now() where thread_id = '${held}'`)
  await sweep(copy.server)
  await expectGone(held)
})

describe('a request', () => {
  it('with faults gets all of them, and changes nothing', async () => {
    const before = await graphs.sql('select count(*) from graphs.runs')
    const body = { input: {}, stream_mode: 'none', multitask_strategy: 'x', after_seconds: -1 }
    const { status, body: answer } = await copy.call('POST', '/runs', body)
    expect(status).toBe(422)
    for (const name of ['assistant_id', 'stream_mode', 'multitask_strategy', 'after_seconds'])
      expect(answer.detail).toContain(`body.${name}`)
    const batch = [{ assistant_id: 'echo' }, { assistant_id: 'none' }]
    expect((await copy.call('POST', '/runs/batch', batch)).status).toBe(404)
    expect(await graphs.sql('select count(*) from graphs.runs')).toEqual(before)
  })

  it.each([
    ['POST', '/internal/truncate', {}, 404],
    ['GET', '/threads/none', undefined, 422],
    ['GET', `/threads/${crypto.randomUUID()}`, undefined, 404],
    ['POST', '/runs', { assistant_id: 'none' }, 404],
    ['POST', '/threads/search', { limit: 1e9 }, 422],
    ['POST', '/threads/search', { offset: 1e12 }, 422],
    ['POST', '/threads', { metadata: { text: 'a\0b' } }, 200],
    ['POST', '/runs/crons', { assistant_id: 'echo', schedule: '* * * * *', end_time: 'never' }, 422],
    ['GET', '/runs/x/stream', undefined, 422],
    ['POST', '/threads/search', { extract: { last: 'values.log[-1]' } }, 422],
    ['POST', '/runs?namespace=child', { assistant_id: 'echo' }, 422],
    ['POST', '/runs', { assistant_id: 'echo', webhook: '//other.example' }, 422],
    ['POST', '/runs', { assistant_id: 'echo', input: JSON.parse('['.repeat(300) + ']'.repeat(300)) }, 422],
    ['POST', '/store/items/search', { query: 'like this' }, 422],
    ['PUT', '/store/items', { namespace: ['a'], key: 'k', value: {}, index: ['text'] }, 422],
  ])('%s %s with %j is answered with its status', async (method, path, body, status) => {
    expect((await copy.call(method, path, body)).status).toBe(status)
  })

  it('needs the key of the deployment, but for the health check', async () => {
    const locked = await graphs.startCopy({ apiKey: 'secret' })
    expect((await locked.send('GET', '/ok')).status).toBe(200)
    for (const path of ['/info', '/docs', '/metrics', '/openapi.json'])
      expect((await locked.send('GET', path)).status, path).toBe(401)
    expect((await locked.send('GET', '/info', undefined, { 'X-Api-Key': 'secret' })).status).toBe(200)
    expect((await locked.send('GET', '/info', undefined, { Authorization: 'Bearer wrong' })).status).toBe(401)
  })

  it('by MCP lists assistants as tools, and runs one', async () => {
    const ask = async (method: string, params: object = {}) =>
      (await copy.call('POST', '/mcp', { jsonrpc: '2.0', id: 1, method, params })).body
    expect((await ask('tools/list')).result.tools).toMatchObject([{ name: 'echo', inputSchema: { type: 'object' } }])
    const { result } = await ask('tools/call', { name: 'echo', arguments: { say: 'hi' } })
    expect(JSON.parse(result.content[0].text)).toEqual({ log: ['hi'] })
    expect((await ask('none')).error.code).toBe(-32601)
  })
})

it('the OpenAPI document has each operation once, with a name of its own', async () => {
  const { body } = await copy.call('GET', '/openapi.json')
  const operations = Object.values<Record<string, { operationId: string }>>(body.paths).flatMap(Object.values)
  expect(operations.length).toBeGreaterThan(50)
  expect(new Set(operations.map(one => one.operationId)).size).toBe(operations.length)
})
