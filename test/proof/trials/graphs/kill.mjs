// Kills copies of the server while runs stream, and checks that no run, event or message is lost or doubled.
// It starts the copies itself: kill.mjs ACTIONS COMMAND…, with PORT set for each. Actions are `kill:20`,
// `wait:SECONDS`, and `roll:FILE`, which replaces one copy after the other by one of another file.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { Client } from '@langchain/langgraph-sdk'

const actions = process.argv[2].split(',').map(action => action.split(':'))
const [program, ...args] = process.argv.slice(3)
let kills = 0
const COPIES = 3

const freePort = () =>
  new Promise(resolve => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
/** Copies of all times: none outlives this process. */
const all = new Set()
process.on('exit', () => all.forEach(child => void child.kill('SIGKILL')))
function spawnCopy(port) {
  const child = spawn(program, args, {
    env: { ...process.env, PORT: `${port}` },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  all.add(child)
  child.once('exit', () => all.delete(child))
  return child
}

async function startCopy(port) {
  let child = spawnCopy(port)
  for (let tries = 0; tries < 600; tries++) {
    // Without its database, a copy ends at once, and an agent starts it again.
    if (child.exitCode !== null) child = spawnCopy(port)
    if (
      await fetch(`http://127.0.0.1:${port}/ok`).then(
        response => response.ok,
        () => false,
      )
    )
      return child
    await delay(100)
  }
  throw new Error('A copy did not start within a minute.')
}
const ports = await Promise.all(Array.from({ length: COPIES }, freePort))
const copies = []
for (const port of ports) copies.push(await startCopy(port))
const clientAt = i => new Client({ apiUrl: `http://127.0.0.1:${ports[i % COPIES]}`, callerOptions: { maxRetries: 0 } })

/** Tries at each copy in turn until one answers. */
async function atAnyCopy(call) {
  for (let i = 0; ; i++) {
    try {
      return await call(clientAt(i))
    } catch (error) {
      if (i > 600) throw error
      await delay(100)
    }
  }
}

const counts = { runs: 0, streams: 0, joins: 0, takeovers: 0 }
let isEnding = false

/** One conversation after the other: each run is streamed, and joined again at another copy when the stream breaks. */
async function converse(number) {
  while (!isEnding) {
    const { thread_id: thread } = await atAnyCopy(client => client.threads.create({ metadata: { number } }))
    for (let turn = 1; turn <= 2; turn++) await runOnce(thread, turn)
    const state = await atAnyCopy(client => client.threads.getState(thread))
    const texts = state.values.messages.map(message => message.content)
    assert.deepEqual(texts, ['turn 1', 'counted', 'turn 2', 'counted'])
    counts.runs += 2
  }
}

async function runOnce(thread, turn) {
  const content = `turn ${turn}`
  const run = await createOnce(thread, content)
  const seen = []
  let last = '-1'
  for (let i = 0; ; i++) {
    try {
      counts.streams++
      for await (const part of clientAt(i).runs.joinStream(thread, run, { lastEventId: last })) {
        if (part.id === undefined) continue
        seen.push(part)
        last = part.id
      }
    } catch {
      // The copy that streamed was killed.
    }
    const { status } = await atAnyCopy(client => client.runs.get(thread, run))
    if (status === 'success') break
    assert.ok(status === 'running' || status === 'pending', `run ${run} has the status ${status}`)
    counts.joins++
    await delay(50)
  }
  const rest = await atAnyCopy(async client => {
    const parts = []
    for await (const part of client.runs.joinStream(thread, run, { lastEventId: last })) parts.push(part)
    return parts
  })
  const ids = [...seen, ...rest].map(part => Number(part.id))
  assert.deepEqual(
    ids,
    [...new Set(ids)].sort((a, b) => a - b),
    'ids are in order, and none comes twice',
  )
  const attempts = [...seen, ...rest].filter(part => part.event === 'metadata').length
  if (attempts > 1) counts.takeovers++
  const steps = [...seen, ...rest].filter(part => part.event === 'custom').map(part => part.data.step)
  assert.equal(steps.at(-1), 5, 'the stream has the last step')
  const values = [...seen, ...rest].findLast(part => part.event === 'values')
  assert.equal(values?.data.messages.at(-1).content, 'counted', 'the stream has the last values')
}

/** A creation whose answer is lost may have happened: the thread says so. */
async function createOnce(thread, content) {
  const options = {
    input: { messages: [{ role: 'user', content }] },
    streamMode: ['custom', 'values'],
    config: { configurable: { steps: 5, pause: 120 } },
    metadata: { content },
  }
  for (let i = 0; ; i++) {
    try {
      return (await clientAt(i).runs.create(thread, 'slow', options)).run_id
    } catch {
      await delay(100)
      const runs = await atAnyCopy(client => client.runs.list(thread))
      const made = runs.find(run => run.metadata.content === content)
      if (made) return made.run_id
    }
  }
}

const keeper = await atAnyCopy(client => client.threads.create())
await atAnyCopy(client =>
  client.runs.wait(keeper.thread_id, 'agent', { input: { messages: [{ role: 'user', content: 'delete it' }] } }),
)
await atAnyCopy(client => client.store.putItem(['kept'], 'item', { value: 1 }))
const cron = await atAnyCopy(client => client.crons.create('trivial', { schedule: '0 0 1 1 *', input: { value: 1 } }))

const conversations = Array.from({ length: 6 }, (_, number) => converse(number))
const ended = Promise.all(conversations)
// A failure ends the kills below.
let failure
ended.catch(error => {
  failure = error
})
const perform = {
  async kill(count) {
    for (let n = 0; n < Number(count) && !failure; n++) {
      const i = ++kills % COPIES
      copies[i].kill('SIGKILL')
      await delay(100)
      copies[i] = await startCopy(ports[i])
      await delay(200)
    }
  },
  /** A new copy first, then the end of an old one, which has the time that an agent gives it. */
  async roll(file) {
    args[args.length - 1] = file
    for (let i = 0; i < COPIES && !failure; i++) {
      const port = await freePort()
      const next = await startCopy(port)
      const old = copies[i]
      if (old.exitCode !== null) failure ??= new Error(`a copy ended by itself with ${old.exitCode}`)
      if (failure) return
      copies[i] = next
      ports[i] = port
      const exited = new Promise(resolve => old.once('exit', (code, signal) => resolve(signal ?? code)))
      old.kill('SIGTERM')
      const end = await exited
      if (end !== 0) failure ??= new Error(`an old copy ended with ${end}`)
    }
  },
  wait: seconds => delay(Number(seconds) * 1000),
}
for (const [name, value] of actions) if (!failure) await perform[name](value)
isEnding = true
try {
  await ended
  if (failure) throw failure
  const [thread] = await atAnyCopy(client => client.threads.search({ ids: [keeper.thread_id] }))
  assert.equal(thread.status, 'interrupted')
  const values = await atAnyCopy(client => client.runs.wait(keeper.thread_id, 'agent', { command: { resume: 'yes' } }))
  assert.equal(values.messages.at(-1).content, 'Decision: yes')
  const item = await atAnyCopy(client => client.store.getItem(['kept'], 'item'))
  assert.deepEqual(item.value, { value: 1 })
  const found = await atAnyCopy(client => client.crons.search())
  assert.ok(found.some(one => one.cron_id === cron.cron_id))
  const open = await atAnyCopy(client => client.threads.count({ status: 'busy' }))
  console.log(JSON.stringify({ ok: open === 0, kills, ...counts, open }))
} catch (error) {
  console.log(JSON.stringify({ ok: false, kills, ...counts, detail: String(error?.message ?? error) }))
}
for (const copy of copies) copy.kill('SIGTERM')
process.exit()
