// The SDK against an application with an authentication and an index of its own. Prints a line of JSON for each check.
import assert from 'node:assert/strict'
import { Client } from '@langchain/langgraph-sdk'

const apiUrl = process.argv[2]
const as = (token, headers = token ? { Authorization: `Bearer ${token}` } : {}) =>
  new Client({ apiUrl, apiKey: null, defaultHeaders: headers, callerOptions: { maxRetries: 0 } })
const [ann, bob] = [as('ann'), as('bob')]
const statusOf = promise =>
  promise.then(
    () => 200,
    error => error.status,
  )
const input = { messages: [{ role: 'user', content: 'hi' }] }
let thread

const checks = {
  'without a token': async () => assert.equal(await statusOf(as(null).threads.create()), 401),
  'a thread is its owner’s': async () => {
    thread = (await ann.threads.create({ metadata: { kind: 'x' } })).thread_id
    assert.equal((await ann.threads.get(thread)).metadata.owner, 'ann')
    assert.equal(await statusOf(bob.threads.get(thread)), 404)
    assert.equal(await statusOf(bob.runs.wait(thread, 'agent', { input })), 404)
    assert.equal(await statusOf(bob.threads.updateState(thread, { values: input })), 404)
    assert.deepEqual(await bob.threads.search({ metadata: { kind: 'x' } }), [])
    assert.equal(await bob.threads.count({}), 0)
  },
  'a run knows its user': async () => {
    const values = await ann.runs.wait(thread, 'agent', { input })
    assert.equal(values.messages.at(-1).content, 'You said: hi')
    const [run] = await ann.runs.list(thread)
    assert.equal(run.kwargs.config.configurable.langgraph_auth_user.identity, 'ann')
    assert.equal(await statusOf(bob.runs.get(thread, run.run_id)), 404)
  },
  'a stream': async () => {
    const events = []
    for await (const part of ann.runs.stream(thread, 'agent', { input, streamMode: 'values' })) events.push(part.event)
    assert.equal(events.at(-1), 'values')
  },
  'a refusal': async () => {
    assert.equal(await statusOf(ann.assistants.create({ graphId: 'agent' })), 403)
    assert.ok((await ann.assistants.search()).length > 0)
  },
  'a cron': async () => {
    const { cron_id } = await ann.crons.create('agent', { schedule: '0 0 1 1 *', input })
    assert.equal((await ann.crons.search()).length, 1)
    assert.deepEqual(await bob.crons.search(), [])
    assert.equal(await statusOf(bob.crons.delete(cron_id)), 404)
    await ann.crons.delete(cron_id)
  },
  'the store is searched by meaning, each user in a part of it': async () => {
    await ann.store.putItem(['notes'], 'one', { text: 'aaa' })
    await ann.store.putItem(['notes'], 'two', { text: 'bbb' })
    await ann.store.putItem(['notes'], 'three', { text: 'a' }, { index: false })
    const { items } = await ann.store.searchItems(['notes'], { query: 'ab b' })
    assert.deepEqual(
      items.map(item => item.key),
      ['two', 'one'],
    )
    assert.ok(items[0].score > items[1].score)
    assert.deepEqual((await bob.store.searchItems(['notes'], { query: 'a' })).items, [])
    assert.equal(await statusOf(bob.store.getItem(['notes'], 'one')), 200)
  },
  'routes of the application know the user, and take what is sent': async () => {
    const send = (path, token, body) =>
      fetch(apiUrl + path, {
        ...(body && { method: 'POST', body }),
        headers: { ...(token && { Authorization: token }) },
      })
    assert.equal((await send('/hello/you')).status, 401)
    assert.deepEqual(await (await send('/hello/you', 'Bearer ann')).json(), { hello: 'you', user: 'ann' })
    const upload = await send('/upload', 'Bearer ann', new Uint8Array(3_000_000))
    assert.deepEqual([upload.status, await upload.json()], [201, { bytes: 3_000_000 }])
    assert.equal((await send('/other', 'Bearer ann')).status, 404)
  },
  'a graph searches by meaning': async () => {
    const found = await ann.runs.wait(null, 'finder', { input: { text: 'bb' } })
    assert.equal(found.text, 'two')
  },
}

for (const [name, run] of Object.entries(checks))
  try {
    await run()
    console.log(JSON.stringify({ name, ok: true }))
  } catch (error) {
    console.log(JSON.stringify({ name, ok: false, detail: String(error?.message ?? error).slice(0, 300) }))
  }
process.exit()
