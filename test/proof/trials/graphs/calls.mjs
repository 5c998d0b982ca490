// The calls of the JavaScript SDK, each with what its answer must have. Prints a line of JSON for each.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { Client } from '@langchain/langgraph-sdk'

const apiUrl = process.argv[2]
const client = new Client({ apiUrl, callerOptions: { maxRetries: 0 } })
const { assistants, threads, runs, store, crons } = client
const human = content => ({ messages: [{ role: 'user', content }] })
const textsOf = values => values.messages.map(message => message.content)
const newThread = async () => (await threads.create()).thread_id
const collect = async stream => {
  const parts = []
  for await (const part of stream) parts.push(part)
  return parts
}
const eventsOf = parts => parts.map(part => part.event)
const raw = (path, body, headers = {}) =>
  fetch(apiUrl + path, {
    method: body ? 'POST' : 'GET',
    headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', ...headers },
    ...(body && { body: JSON.stringify(body) }),
  })
async function rejection(promise) {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('It was not refused.')
}
async function until(look, limitMs = 15_000) {
  const end = Date.now() + limitMs
  for (;;) {
    const found = await look()
    if (found) return found
    assert.ok(Date.now() < end, 'It did not happen in time.')
    await delay(50)
  }
}
const ended = (thread, run) =>
  until(async () => {
    const { status } = await runs.get(thread, run)
    return !['pending', 'running'].includes(status) && status
  })
const quick = { configurable: { steps: 3, pause: 50 } }
const long = { configurable: { steps: 100, pause: 100 } }

const hooks = []
const hook = createServer(async (request, response) => {
  let text = ''
  for await (const chunk of request) text += chunk
  hooks.push(JSON.parse(text))
  response.end()
})
await once(hook.listen(0, '127.0.0.1'), 'listening')
const hookUrl = `http://127.0.0.1:${hook.address().port}/`

const kept = {}
const team = `team-${Date.now()}`
const user = `user-${Date.now()}`
const modes = {
  values: parts => assert.deepEqual(textsOf(parts.at(-1).data), ['hi', 'You said: hi']),
  updates: parts => assert.ok(parts.some(part => part.event === 'updates' && part.data.answer)),
  messages: parts => {
    assert.ok(parts.some(part => part.event === 'messages/partial'))
    assert.ok(parts.some(part => part.event === 'messages/metadata'))
    const complete = parts.filter(part => part.event === 'messages/complete').flatMap(part => part.data)
    assert.ok(complete.some(message => message.content === 'You said: hi'))
  },
  'messages-tuple': parts => {
    const chunks = parts.filter(part => part.event === 'messages' && /^ai/i.test(part.data[0].type))
    assert.equal(chunks.map(part => part.data[0].content).join(''), 'You said: hi')
  },
  custom: parts => assert.deepEqual(parts.find(part => part.event === 'custom')?.data, { progress: 'thinking' }),
  events: parts => assert.ok(parts.some(part => part.data.event === 'on_chat_model_stream')),
  debug: parts => assert.ok(parts.some(part => part.event === 'debug' && part.data.type === 'checkpoint')),
  checkpoints: parts => assert.ok(parts.some(part => part.event === 'checkpoints' && part.data.values)),
  tasks: parts => assert.ok(parts.some(part => part.event === 'tasks' && part.data.name === 'answer')),
}

const calls = {
  'GET /ok': async () => assert.deepEqual(await (await raw('/ok')).json(), { ok: true }),
  'GET /info': async () => assert.equal((await (await raw('/info')).json()).flags.crons, true),
  'GET /docs': async () => assert.match(await (await raw('/docs')).text(), /<html/),
  'GET /openapi.json': async () => assert.ok((await (await raw('/openapi.json')).json()).paths['/threads/{thread_id}']),
  'GET /metrics': async () => assert.match(await (await raw('/metrics')).text(), /^# HELP/),
  'POST /mcp initialize': async () => {
    const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'trial', version: '1' } }
    const { result } = await (await raw('/mcp', { jsonrpc: '2.0', id: 1, method: 'initialize', params })).json()
    assert.equal(result.protocolVersion, '2025-06-18')
  },
  'POST /mcp tools/list': async () => {
    const { result } = await (await raw('/mcp', { jsonrpc: '2.0', id: 2, method: 'tools/list' })).json()
    assert.ok(result.tools.some(tool => tool.name === 'agent' && tool.inputSchema.properties.messages))
  },
  'assistants.search': async () => {
    const found = await assistants.search({ graphId: 'agent' })
    kept.agent = found[0].assistant_id
    assert.equal(found[0].metadata.created_by, 'system')
  },
  'assistants.get': async () => assert.equal((await assistants.get(kept.agent)).graph_id, 'agent'),
  'assistants.getGraph': async () => {
    const { nodes, edges } = await assistants.getGraph('agent')
    assert.ok(nodes.some(node => node.id === 'answer') && edges.length > 2)
  },
  'assistants.getSchemas': async () => {
    const { input_schema } = await assistants.getSchemas('agent')
    assert.ok(input_schema.properties.messages)
  },
  'assistants.getSubgraphs': async () =>
    assert.deepEqual(Object.keys(await assistants.getSubgraphs('parent')), ['child']),
  'assistants.create': async () => {
    const created = await assistants.create({ graphId: 'agent', name: 'Mine', metadata: { team } })
    kept.mine = created.assistant_id
    assert.equal(created.version, 1)
  },
  'assistants.update': async () => {
    const updated = await assistants.update(kept.mine, { name: 'Ours', metadata: { kind: 'b' } })
    assert.deepEqual([updated.version, updated.name, updated.metadata], [2, 'Ours', { team, kind: 'b' }])
  },
  'assistants.getVersions': async () => {
    const versions = await assistants.getVersions(kept.mine)
    assert.deepEqual(
      versions.map(one => one.version),
      [2, 1],
    )
  },
  'assistants.setLatest': async () => assert.equal((await assistants.setLatest(kept.mine, 1)).name, 'Mine'),
  'assistants.count': async () => assert.equal(await assistants.count({ metadata: { team } }), 1),
  'assistants.delete': async () => {
    await assistants.delete(kept.mine)
    assert.match((await rejection(assistants.get(kept.mine))).message, /404/)
  },
  'threads.create': async () => {
    const thread = await threads.create({ metadata: { user } })
    kept.thread = thread.thread_id
    assert.equal(thread.status, 'idle')
  },
  'threads.create ttl': async () => assert.ok((await threads.create({ ttl: 5 })).thread_id),
  'threads.get': async () => assert.equal((await threads.get(kept.thread)).metadata.user, user),
  'threads.update': async () => {
    const { metadata } = await threads.update(kept.thread, { metadata: { more: 1 } })
    assert.deepEqual(metadata, { user, more: 1 })
  },
  'threads.search': async () => assert.equal((await threads.search({ metadata: { user } })).length, 1),
  'threads.count': async () => assert.equal(await threads.count({ metadata: { user } }), 1),
  ...Object.fromEntries(
    Object.entries(modes).map(([streamMode, look]) => [
      `runs.stream ${streamMode}`,
      async () => {
        const parts = await collect(runs.stream(await newThread(), 'agent', { input: human('hi'), streamMode }))
        assert.equal(parts[0].event, 'metadata')
        look(parts)
      },
    ]),
  ),
  'runs.stream several modes': async () => {
    const streamMode = ['values', 'updates', 'custom']
    const parts = await collect(runs.stream(await newThread(), 'agent', { input: human('hi'), streamMode }))
    for (const mode of streamMode) assert.ok(eventsOf(parts).includes(mode), mode)
  },
  'runs.stream stateless': async () => {
    const parts = await collect(runs.stream(null, 'agent', { input: human('hi'), streamMode: 'values' }))
    assert.deepEqual(textsOf(parts.at(-1).data), ['hi', 'You said: hi'])
  },
  'runs.wait': async () => {
    const values = await runs.wait(kept.thread, 'agent', { input: human('hello') })
    assert.deepEqual(textsOf(values), ['hello', 'You said: hello'])
  },
  'runs.wait stateless': async () =>
    assert.deepEqual(await runs.wait(null, 'trivial', { input: { value: 41 } }), { value: 42 }),
  'runs.wait failing graph': async () => {
    const thread = await newThread()
    assert.match((await rejection(runs.wait(thread, 'failing', { input: human('x') }))).message, /this graph fails/)
    assert.equal((await threads.get(thread)).status, 'error')
  },
  'threads.getState': async () => {
    const state = await threads.getState(kept.thread)
    kept.checkpoint = state.checkpoint
    assert.deepEqual(textsOf(state.values), ['hello', 'You said: hello'])
  },
  'threads.getHistory': async () => {
    const history = await threads.getHistory(kept.thread)
    assert.ok(history.length >= 3 && history[0].checkpoint.checkpoint_id === kept.checkpoint.checkpoint_id)
  },
  'threads.updateState': async () => {
    await threads.updateState(kept.thread, { values: human('added'), asNode: 'answer' })
    assert.equal(textsOf((await threads.getState(kept.thread)).values).at(-1), 'added')
  },
  'threads.getState checkpoint': async () => {
    const state = await threads.getState(kept.thread, kept.checkpoint)
    const same = await threads.getState(kept.thread, kept.checkpoint.checkpoint_id)
    assert.deepEqual([textsOf(state.values).length, textsOf(same.values).length], [2, 2])
  },
  'threads.copy': async () => {
    const copy = await threads.copy(kept.thread)
    assert.notEqual(copy.thread_id, kept.thread)
    assert.equal(textsOf((await threads.getState(copy.thread_id)).values).at(-1), 'added')
  },
  interrupt: async () => {
    kept.asked = await newThread()
    const values = await runs.wait(kept.asked, 'agent', { input: human('delete it') })
    assert.deepEqual(values.__interrupt__[0].value, { question: 'May I delete it?' })
    const thread = await threads.get(kept.asked)
    assert.equal(thread.status, 'interrupted')
    assert.equal(Object.values(thread.interrupts)[0][0].value.question, 'May I delete it?')
  },
  'threads.search interrupted': async () => {
    const found = await threads.search({ status: 'interrupted', ids: [kept.asked] })
    assert.equal(found.length, 1)
  },
  'resume by command': async () => {
    const values = await runs.wait(kept.asked, 'agent', { command: { resume: 'yes' } })
    assert.deepEqual(textsOf(values), ['delete it', 'You said: delete it', 'Decision: yes'])
    assert.equal((await threads.get(kept.asked)).status, 'idle')
  },
  'interrupt_before + goto on': async () => {
    const thread = await newThread()
    await runs.wait(thread, 'agent', { input: human('go'), interruptBefore: ['approve'] })
    assert.deepEqual((await threads.getState(thread)).next, ['approve'])
    await runs.wait(thread, 'agent', { input: null })
    assert.deepEqual((await threads.getState(thread)).next, [])
  },
  'runs.create + join': async () => {
    const thread = await newThread()
    const { run_id, status } = await runs.create(thread, 'agent', { input: human('later') })
    assert.equal(status, 'pending')
    assert.equal(textsOf(await runs.join(thread, run_id)).at(-1), 'You said: later')
    kept.run = [thread, run_id]
  },
  'runs.list': async () => assert.equal((await runs.list(kept.run[0])).length, 1),
  'runs.delete': async () => {
    await runs.delete(...kept.run)
    assert.equal((await runs.list(kept.run[0])).length, 0)
  },
  'runs.joinStream live': async () => {
    const thread = await newThread()
    const config = { configurable: { steps: 5, pause: 150 } }
    const { run_id } = await runs.create(thread, 'slow', {
      input: human('x'),
      config,
      streamMode: ['custom', 'values'],
    })
    const parts = await collect(runs.joinStream(thread, run_id))
    assert.ok(parts.some(part => part.event === 'custom') && textsOf(parts.at(-1).data).at(-1) === 'counted')
  },
  'runs.joinStream after a cut, lastEventId': async () => {
    const thread = await newThread()
    const config = { configurable: { steps: 6, pause: 100 } }
    const options = { input: human('x'), config, streamMode: 'custom', streamResumable: true }
    const seen = []
    let run
    const cut = new AbortController()
    const stream = runs.stream(thread, 'slow', {
      ...options,
      signal: cut.signal,
      onRunCreated: created => {
        run = created.run_id
      },
    })
    try {
      for await (const part of stream) {
        seen.push(part)
        if (part.event === 'custom' && part.data.step === 2) cut.abort()
      }
    } catch {
      // The abort.
    }
    const rest = await collect(runs.joinStream(thread, run, { lastEventId: seen.at(-1).id }))
    const steps = [...seen, ...rest].filter(part => part.event === 'custom').map(part => part.data.step)
    assert.deepEqual(steps, [1, 2, 3, 4, 5, 6])
  },
  'stream cut, run goes on': async () => {
    const [thread, run] = await cutStream({})
    assert.equal(await ended(thread, run), 'success')
  },
  'stream cut, onDisconnect cancel': async () => {
    const [thread, run] = await cutStream({ onDisconnect: 'cancel', config: long })
    assert.equal(await ended(thread, run), 'interrupted')
  },
  'runs.cancel': async () => {
    const thread = await newThread()
    const { run_id } = await runs.create(thread, 'slow', { input: human('x'), config: long })
    await until(async () => (await runs.get(thread, run_id)).status === 'running')
    await runs.cancel(thread, run_id, true)
    assert.equal((await runs.get(thread, run_id)).status, 'interrupted')
  },
  'multitask reject': async () => {
    const [thread] = await startLong()
    const error = await rejection(runs.create(thread, 'slow', { input: human('y'), multitaskStrategy: 'reject' }))
    assert.match(error.message, /HTTP 4(09|22)/)
  },
  'multitask enqueue': async () => {
    const thread = await newThread()
    const first = await runs.create(thread, 'slow', { input: human('1'), config: quick })
    const options = { input: human('2'), config: quick, multitaskStrategy: 'enqueue' }
    const second = await runs.create(thread, 'slow', options)
    const values = await runs.join(thread, second.run_id)
    assert.equal((await runs.get(thread, first.run_id)).status, 'success')
    assert.deepEqual(textsOf(values), ['1', 'counted', '2', 'counted'])
  },
  'multitask interrupt': async () => {
    const [thread, run] = await startLong()
    const values = await runs.wait(thread, 'agent', { input: human('now'), multitaskStrategy: 'interrupt' })
    assert.equal((await runs.get(thread, run)).status, 'interrupted')
    assert.equal(textsOf(values).at(-1), 'You said: now')
  },
  'multitask rollback': async () => {
    const [thread, run] = await startLong()
    const values = await runs.wait(thread, 'agent', { input: human('anew'), multitaskStrategy: 'rollback' })
    assert.match((await rejection(runs.get(thread, run))).message, /404/)
    assert.deepEqual(textsOf(values), ['anew', 'You said: anew'])
  },
  'runs.create afterSeconds': async () => {
    const thread = await newThread()
    const { run_id } = await runs.create(thread, 'trivial', { input: { value: 1 }, afterSeconds: 2 })
    await delay(700)
    assert.equal((await runs.get(thread, run_id)).status, 'pending')
    assert.equal(await ended(thread, run_id), 'success')
  },
  'runs.createBatch': async () => {
    const created = await runs.createBatch([
      { assistantId: 'trivial', input: { value: 1 } },
      { assistantId: 'trivial', input: { value: 2 } },
    ])
    assert.equal(created.length, 2)
  },
  'runs webhook': async () => {
    const thread = await newThread()
    await runs.wait(thread, 'trivial', { input: { value: 6 }, webhook: hookUrl })
    const call = await until(async () => hooks.find(one => one.thread_id === thread))
    assert.deepEqual([call.status, call.values], ['success', { value: 7 }])
  },
  'store.putItem + getItem': async () => {
    await store.putItem(['users', 'u1'], 'likes', { food: 'pizza', age: 3 })
    assert.deepEqual((await store.getItem(['users', 'u1'], 'likes')).value, { food: 'pizza', age: 3 })
    assert.equal(await store.getItem(['users', 'u1'], 'none'), null)
  },
  'store.searchItems': async () => {
    const { items } = await store.searchItems(['users'], { filter: { food: 'pizza' } })
    assert.deepEqual([items.length, items[0].key], [1, 'likes'])
    assert.equal((await store.searchItems(['seen'])).items[0].value.count > 0, true)
  },
  'store.listNamespaces': async () => {
    const { namespaces } = await store.listNamespaces({ prefix: ['users'] })
    assert.deepEqual(namespaces, [['users', 'u1']])
  },
  'store.deleteItem': async () => {
    await store.deleteItem(['users', 'u1'], 'likes')
    assert.equal((await store.searchItems(['users'])).items.length, 0)
  },
  'crons.create': async () => {
    const cron = await crons.create('trivial', {
      schedule: '0 9 * * 1-5',
      timezone: 'Europe/Berlin',
      input: { value: 1 },
    })
    kept.cron = cron.cron_id
    assert.ok(cron.next_run_date)
  },
  'crons.search': async () => {
    const found = await crons.search({ limit: 10 })
    assert.ok(found.some(cron => cron.cron_id === kept.cron))
  },
  'crons.update': async () =>
    assert.equal((await crons.update(kept.cron, { schedule: '0 8 * * *' })).schedule, '0 8 * * *'),
  'crons.delete': async () => {
    await crons.delete(kept.cron)
    assert.equal(
      (await crons.search()).some(cron => cron.cron_id === kept.cron),
      false,
    )
  },
  'crons.createForThread': async () => {
    const thread = await newThread()
    const cron = await crons.createForThread(thread, 'trivial', { schedule: '* * * * *', input: { value: 1 } })
    assert.equal(cron.thread_id, thread)
    await crons.delete(cron.cron_id)
  },
  'threads.prune': async () => {
    const ids = [await newThread(), await newThread()]
    assert.equal((await threads.prune(ids)).pruned_count, 2)
    const thread = await newThread()
    await runs.wait(thread, 'agent', { input: human('keep') })
    await threads.prune([thread], { strategy: 'keep_latest' })
    assert.equal((await threads.getHistory(thread)).length, 1)
    const values = await runs.wait(thread, 'agent', { input: human('more') })
    assert.equal(textsOf(values).length, 4)
  },
  'threads.delete': async () => {
    await threads.delete(kept.thread)
    assert.match((await rejection(threads.get(kept.thread))).message, /404/)
  },
  'threads.stream v2 (protocol)': async () => {
    const thread = threads.stream({ assistantId: 'agent' })
    await thread.run.start({ input: human('hi') })
    const output = await within(10_000, thread.output)
    // The library gives blocks of content in this protocol.
    assert.equal(
      [output.messages.at(-1).content]
        .flat()
        .map(block => block.text ?? block)
        .join(''),
      'You said: hi',
    )
    await thread.close()
  },
  'threads.stream v2, interrupt and respond': async () => {
    const thread = await newThread()
    const command = async (id, method, params) =>
      (await raw(`/threads/${thread}/commands`, { id, method, params })).json()
    const input = human('delete it')
    assert.equal((await command(1, 'run.start', { assistant_id: 'agent', input })).type, 'success')
    const channels = ['lifecycle', 'input']
    const stream = await raw(`/threads/${thread}/stream/events`, { channels })
    const seen = []
    await within(
      15_000,
      readSse(stream, event => {
        seen.push(event)
        const { data } = event.params
        if (event.method === 'lifecycle' && data.event === 'interrupted') {
          const { interrupt_id } = seen.find(one => one.method === 'input.requested').params.data
          void command(2, 'input.respond', { interrupt_id, response: 'yes' })
        }
        return event.params.namespace.length === 0 && data.event === 'completed'
      }),
    )
    const { result } = await command(3, 'state.get', {})
    assert.equal(textsOf(result.values).at(-1), 'Decision: yes')
    const again = await raw(`/threads/${thread}/stream/events`, { channels, since: seen.at(-2).seq })
    await within(
      5000,
      readSse(again, event => event.seq === seen.at(-1).seq),
    )
  },
}

const within = (ms, promise) =>
  Promise.race([
    promise,
    delay(ms, undefined, { ref: false }).then(() => {
      throw new Error(`It did not end within ${ms} ms.`)
    }),
  ])

/** Reads events until one is the last. */
async function readSse(response, isLast) {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body) {
    text += decoder.decode(chunk, { stream: true })
    const blocks = text.split('\n\n')
    text = blocks.pop()
    for (const block of blocks) {
      const line = block.split('\n').find(one => one.startsWith('data: '))
      if (line && isLast(JSON.parse(line.slice('data: '.length)))) return
    }
  }
}

async function startLong() {
  const thread = await newThread()
  const { run_id } = await runs.create(thread, 'slow', { input: human('x'), config: long })
  await until(async () => (await runs.get(thread, run_id)).status === 'running')
  return [thread, run_id]
}

async function cutStream(options) {
  const thread = await newThread()
  const cut = new AbortController()
  let run
  const stream = runs.stream(thread, 'slow', {
    input: human('x'),
    config: quick,
    streamMode: 'custom',
    ...options,
    signal: cut.signal,
    onRunCreated: created => {
      run = created.run_id
    },
  })
  try {
    for await (const part of stream) if (part.event === 'custom') cut.abort()
  } catch {
    // The abort.
  }
  return [thread, run]
}

const only = process.argv.slice(3)
for (const [name, call] of Object.entries(calls)) {
  if (only.length > 0 && !only.some(word => name.includes(word))) continue
  const start = performance.now()
  let detail
  try {
    await within(25_000, call())
  } catch (error) {
    detail = String(error?.message ?? error).slice(0, 400)
  }
  const ms = Math.round(performance.now() - start)
  console.log(JSON.stringify({ name, ok: detail === undefined, ms, ...(detail && { detail }) }))
}
process.exit()
