// An executor without LangGraph, for tests of the server: its graphs do what their input says, and their state is a
// file for each thread, so that the executors of two servers share it.
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { serveApp } from '../../src/graphs/runtimes/javascript/app.mjs'
import { authenticate, authorize, loadAuth } from '../../src/graphs/runtimes/javascript/auth.mjs'

const pipe = new Socket({ fd: 3 })
pipe.on('close', () => process.exit())
pipe.on('error', () => process.exit())
const send = message => pipe.write(`${JSON.stringify(message)}\n`)
const LETTERS = ['a', 'b', 'c']
let folder
let handlers
const cancelled = new Set()

const fileOf = thread => join(folder, `${thread}.jsonl`)
const questionOf = thread => join(folder, `${thread}.question`)
const readLog = thread => (existsSync(fileOf(thread)) ? readFileSync(fileOf(thread), 'utf8').trim().split('\n') : [])
const summaryOf = (thread, next = []) => ({
  values: JSON.stringify({ log: readLog(thread) }),
  next,
  interrupts: next.length > 0 ? { task: [{ value: 'May I?' }] } : {},
})

function stateOf({ configurable }) {
  const { thread_id } = configurable
  const isAsking = existsSync(questionOf(thread_id))
  return {
    values: { log: readLog(thread_id) },
    next: isAsking ? ['asking'] : [],
    tasks: isAsking ? [{ id: 'task', name: 'asking', interrupts: [{ id: 'question', value: 'May I?' }] }] : [],
    metadata: { step: 1 },
    created_at: '2026-11-30T12:00:00.000Z',
    checkpoint: { checkpoint_id: 'one' },
    config: configurable,
  }
}

async function run({ run_id, thread_id, attempt, kwargs }) {
  const { say, write = [], steps = 0, pause = 10, crash, ask, fail, event, size = 0 } = kwargs.input ?? {}
  const emit = (event, data) => send({ type: 'event', run: run_id, event, data: JSON.stringify(data) })
  const end = (status, rest = {}) =>
    JSON.stringify({
      status,
      error: null,
      output: JSON.stringify({ log: readLog(thread_id) }),
      state: summaryOf(thread_id),
      ...rest,
    })
  emit('metadata', { run_id, attempt })
  if (crash && attempt === 1) process.exit(9)
  if (event) emit(event === 'nul' ? '\0' : event, { text: 'x'.repeat(size) })
  for (const content of write) emit('messages', [{ type: 'AIMessageChunk', id: 'written', content }, {}])
  for (let step = 1; step <= steps; step++) {
    await delay(pause)
    if (cancelled.delete(run_id)) return end('interrupted')
    emit('custom', { step })
  }
  if (fail) return end('error', { error: { error: 'TypeError', message: fail } })
  if (say) appendFileSync(fileOf(thread_id), `${say}\n`)
  rmSync(questionOf(thread_id), { force: true })
  const answer = kwargs.command?.resume
  if (answer !== undefined) appendFileSync(fileOf(thread_id), `The answer is ${JSON.stringify(answer)}.\n`)
  if (ask) writeFileSync(questionOf(thread_id), '')
  emit('values', { log: readLog(thread_id), user: kwargs.config.configurable.langgraph_auth_user?.identity })
  return ask ? end('success', { state: summaryOf(thread_id, ['asking']) }) : end('success')
}

const questions = {
  // A number for each letter, so that texts with the same letters are near.
  embed: ({ texts }) => JSON.stringify(texts.map(text => LETTERS.map(letter => text.split(letter).length - 1))),
  authenticate: async message => JSON.stringify(await authenticate(handlers, message)),
  authorize: async message => JSON.stringify(await authorize(handlers, message)),
  run: ({ run: given }) => run(given),
  setup: () => 'null',
  summary: ({ config }) => JSON.stringify(summaryOf(config.configurable.thread_id)),
  state: ({ config }) => JSON.stringify(stateOf(config)),
  history: ({ config }) => JSON.stringify([stateOf(config)]),
  // Like a node that blocks its process.
  graph: () => new Promise(() => {}),
  // It keeps no checkpoints.
  prune: () => Promise.reject(new Error('There are no checkpoints.')),
  schemas: () => JSON.stringify({ input_schema: { type: 'object', properties: { say: { type: 'string' } } } }),
}

createInterface({ input: pipe }).on('line', async line => {
  const message = JSON.parse(line)
  if (message.type === 'start') {
    folder = message.folder
    handlers = message.auth && (await loadAuth(message.auth, folder))
    send({ type: 'ready', routes: message.app ? await serveApp(message.app, folder) : [] })
  } else if (message.type === 'cancel') cancelled.add(message.run)
  else if (message.type === 'ask')
    Promise.resolve(questions[message.question](message)).then(
      result => send({ type: 'answer', id: message.id, result }),
      ({ message: text, status }) => send({ type: 'answer', id: message.id, error: { message: text, status } }),
    )
})
