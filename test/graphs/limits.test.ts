// Limits of callers of the graph server, and what happens when the database or a graph does not answer.
import { randomBytes } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { lookup, Resolver } from 'node:dns/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findAddresses } from '../../src/graphs/host-addresses.ts'
import { openGraphs, readEvents } from './graphs.ts'

let graphs: Awaited<ReturnType<typeof openGraphs>>
type Copy = Awaited<ReturnType<typeof graphs.startCopy>>
let copy: Copy
beforeAll(async () => {
  graphs = await openGraphs()
  const limits = { queuedRuns: 3, queuedRunsOfThread: 2, threads: 8, storedMegabytes: 2, eventMegabytes: 1, streams: 2 }
  copy = await graphs.startCopy({ limits, answerMs: 3_000 })
})
afterAll(() => graphs.close())

const newThread = async () => (await copy.call('POST', '/threads', {})).body.thread_id as string
const later = { assistant_id: 'echo', after_seconds: 600 }
const run = (thread: string, input: object) =>
  copy.call('POST', `/threads/${thread}/runs/wait`, { assistant_id: 'echo', input })

it('runs that wait are limited for a thread and for all, with a time to try again', async () => {
  const [one, two] = [await newThread(), await newThread()]
  const create = (thread: string) => copy.send('POST', `/threads/${thread}/runs`, later)
  const statuses = []
  for (const thread of [one, one, one, two]) statuses.push((await create(thread)).status)
  expect(statuses).toEqual([200, 200, 429, 200])
  await copy.server.usage.countQueue(copy.server.db)
  const refused = await create(two)
  expect(refused.status).toBe(429)
  expect(refused.headers.get('Retry-After')).toBe('10')
  expect((await copy.call('POST', '/runs/batch', [later])).status).toBe(429)
  await copy.call('POST', '/runs/cancel', { status: 'pending' })
  await copy.server.usage.countQueue(copy.server.db)
  expect((await run(two, { say: 'now' })).body).toEqual({ log: ['now'] })
})

it('threads are limited, and a thread that is deleted makes room', async () => {
  const threads = []
  for (let created = await newThread(); created; created = await newThread()) threads.push(created)
  expect((await copy.call('POST', '/threads', {})).status).toBe(429)
  expect((await copy.call('POST', '/runs/wait', { assistant_id: 'echo' })).status).toBe(429)
  await copy.call('POST', '/threads/prune', { thread_ids: threads })
  await copy.server.usage.measure(copy.server.db)
  expect((await copy.call('POST', '/threads', {})).status).toBe(200)
})

it('stored bytes are limited, and rows that are deleted make room at once', async () => {
  const put = (key: string, value: object) => copy.call('PUT', '/store/items', { namespace: ['a'], key, value })
  expect((await put('large', { text: randomBytes(2e6).toString('base64') })).status).toBe(204)
  await copy.server.usage.measure(copy.server.db)
  expect((await put('small', {})).status).toBe(413)
  expect((await copy.call('POST', '/runs', { assistant_id: 'echo' })).status).toBe(413)
  expect((await copy.call('GET', '/store/items?namespace=a&key=large')).status).toBe(200)
  expect((await copy.call('DELETE', '/store/items', { namespace: ['a'], key: 'large' })).status).toBe(204)
  await copy.server.usage.measure(copy.server.db)
  expect((await put('small', {})).status).toBe(204)
})

it('assistants, crons and metadata count as stored bytes, and a time to live may still be set', async () => {
  const large = { text: randomBytes(2e6).toString('base64') }
  const thread = await newThread()
  const assistant = { graph_id: 'echo', config: { configurable: large } }
  const { assistant_id } = (await copy.call('POST', '/assistants', assistant)).body
  await copy.server.usage.measure(copy.server.db)
  const cron = { assistant_id: 'echo', schedule: '0 0 1 1 *' }
  const attempts: [method: string, path: string, body: object][] = [
    ['POST', '/assistants', { graph_id: 'echo' }],
    ['PATCH', `/assistants/${assistant_id}`, { name: 'x' }],
    ['POST', '/runs/crons', cron],
    ['PATCH', `/threads/${thread}`, { metadata: {} }],
    ['PATCH', `/threads/${thread}/state`, { metadata: {} }],
  ]
  for (const [method, path, body] of attempts)
    expect([path, (await copy.call(method, path, body)).status]).toEqual([path, 413])
  expect((await copy.call('PATCH', `/threads/${thread}`, { ttl: 60 })).status).toBe(200)
  await copy.call('DELETE', `/assistants/${assistant_id}`)
  await copy.call('DELETE', `/threads/${thread}`)
  await copy.server.usage.measure(copy.server.db)
  expect((await copy.call('POST', '/runs/crons', cron)).status).toBe(200)
})

it('a copy of a thread and a version of an assistant count at once', async () => {
  const thread = await newThread()
  await graphs.sql(`insert into graphs_javascript.checkpoint_blobs (thread_id, blob)
    select '${thread}', string_agg(sha256(i::text::bytea), '') from generate_series(1, 37000) i`)
  const statusOfCopy = async () => (await copy.call('POST', `/threads/${thread}/copy`)).status
  expect([await statusOfCopy(), await statusOfCopy()]).toEqual([200, 413])
  await copy.call('POST', '/threads/prune', { thread_ids: await threadIds() })
  await copy.server.usage.measure(copy.server.db)
  const config = { configurable: { text: randomBytes(9e5).toString('base64') } }
  const { assistant_id } = (await copy.call('POST', '/assistants', { graph_id: 'echo', config })).body
  const rename = async () => (await copy.call('PATCH', `/assistants/${assistant_id}`, { name: 'other' })).status
  expect([await rename(), await rename()]).toEqual([200, 413])
  await copy.call('DELETE', `/assistants/${assistant_id}`)
  await copy.server.usage.measure(copy.server.db)
})
const threadIds = async () => (await graphs.sql('select thread_id from graphs.threads')).map(row => row.thread_id)

it('an answer of many large values is refused, and one of few, or without them, is given', async () => {
  const ids = [await newThread(), await newThread(), await newThread()]
  await graphs.sql(`update graphs.threads
    set "values" = jsonb_build_object('text', repeat('x', 12000000))
    where thread_id in ('${ids.join("', '")}')`)
  const search = async (more: object) => (await copy.call('POST', '/threads/search', { ids, ...more })).status
  expect([await search({}), await search({ limit: 2 }), await search({ select: ['thread_id'] })]).toEqual([
    413, 200, 200,
  ])
  await copy.call('POST', '/threads/prune', { thread_ids: ids })
})

it('servers of names that do not answer hold up no other names', async () => {
  const silent = createSocket('udp4')
  await new Promise<void>(bound => silent.bind(0, '127.0.0.1', bound))
  const resolver = new Resolver({ timeout: 100, tries: 1 })
  resolver.setServers([`127.0.0.1:${silent.address().port}`])
  const names = Array.from({ length: 8 }, (_, i) => `name-${i}.invalid`)
  const stalled = Promise.allSettled(names.map(name => findAddresses(name, resolver)))
  expect((await lookup('localhost')).address).toMatch(/^127|^::1/)
  expect((await stalled).map(({ status }) => status)).toEqual(names.map(() => 'rejected'))
  silent.close()
})

it('requests that wait are limited', async () => {
  const thread = await newThread()
  const leave = new AbortController()
  const path = `${copy.url}/threads/${thread}/stream`
  for (let i = 0; i < 2; i++) await fetch(path, { signal: leave.signal })
  await expect.poll(() => copy.server.waiters.size).toBe(2)
  expect((await fetch(path)).status).toBe(429)
  expect((await run(thread, {})).status).toBe(429)
  const { run_id } = (await copy.call('POST', `/threads/${thread}/runs`, later)).body
  expect((await copy.call('POST', `/threads/${thread}/runs/${run_id}/cancel?wait=true`)).status).toBe(429)
  const params = { name: 'echo', arguments: {} }
  const tool = (await copy.call('POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params })).body
  expect(tool.error.message).toContain('GRAPHS_MAX_STREAMS')
  leave.abort()
  await expect.poll(() => copy.server.waiters.size).toBe(0)
})

describe('a run fails, and says why,', () => {
  const failureOf = async (input: object) => (await run(await newThread(), input)).body.__error__

  it('if its events are more than it may have', async () => {
    const failure = await failureOf({ event: 'custom', size: 2 ** 21, steps: 1000 })
    expect(failure.error).toBe('TooManyEvents')
  })

  it('if one of its events cannot be stored, which takes no event of another run', async () => {
    const thread = await newThread()
    const body = { assistant_id: 'echo', input: { steps: 50 }, stream_mode: ['custom'] }
    const other = copy.send('POST', `/threads/${thread}/runs/stream`, body).then(readEvents)
    expect((await failureOf({ event: 'nul', steps: 1000 })).error).toBe('InvalidEvent')
    expect((await other).filter(({ event }) => event === 'custom')).toHaveLength(50)
  })
})

it('events wait while the database cannot take them', async () => {
  const thread = await newThread()
  await graphs.sql('alter table graphs.events rename to away')
  const answer = run(thread, { steps: 3, say: 'kept' })
  await expect.poll(() => graphs.sql(`select from graphs.runs where thread_id = '${thread}'`)).toHaveLength(1)
  await new Promise(resolve => setTimeout(resolve, 300))
  await graphs.sql('alter table graphs.away rename to events')
  expect((await answer).body).toEqual({ log: ['kept'] })
  const events = await graphs.sql(`select event from graphs.events where thread_id = '${thread}' order by id`)
  expect(events.map(({ event }) => event)).toEqual(['metadata', 'custom', 'custom', 'custom', 'values'])
})

it('a graph that does not answer, and a statement that does not end, are given up', async () => {
  expect((await copy.call('GET', '/assistants/echo/graph')).status).toBe(504)
  const [row] = await copy.server.db.query('show statement_timeout')
  expect(row!.statement_timeout).toBe('30s')
})
