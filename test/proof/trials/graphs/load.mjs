// Load on a server of graphs, from a process of its own: load.mjs URL runs|streams|reads with settings as NAME=VALUE.
// Prints a line of JSON. Requests are made on time, whether earlier ones have been answered or not.
import { Agent, request } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'

const [, , origin, kind, ...given] = process.argv
const settings = Object.fromEntries(given.map(pair => pair.split('=')))
const agent = new Agent({ keepAlive: true, maxSockets: Number(settings.sockets ?? 2000) })

function open(method, path, body, headers = {}) {
  const { promise, resolve, reject } = Promise.withResolvers()
  const text = body === undefined ? undefined : JSON.stringify(body)
  const length = text === undefined ? {} : { 'Content-Length': Buffer.byteLength(text) }
  const sent = request(origin + path, {
    method,
    agent,
    headers: { 'Content-Type': 'application/json', ...length, ...headers },
  })
  sent.once('response', resolve)
  sent.once('error', reject)
  sent.end(text)
  return promise
}

async function call(method, path, body) {
  const response = await open(method, path, body)
  let text = ''
  for await (const chunk of response) text += chunk
  return { status: response.statusCode, text }
}
const json = async (...parts) => JSON.parse((await call(...parts)).text)
const newThread = async () => (await json('POST', '/threads', {})).thread_id

function summarize(times) {
  times.sort((a, b) => a - b)
  const at = share => Number((times[Math.floor(times.length * share)] ?? 0).toFixed(1))
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
}

/** Calls `once` at a rate for some seconds, with at most `most` open: a slow server shows as a lower rate. */
async function atRate(once, { rate, seconds, most = 500 }) {
  const times = []
  const open = new Set()
  let failed = 0
  const begin = performance.now()
  for (let i = 0; i < rate * seconds; i++) {
    const late = begin + (i * 1000) / rate - performance.now()
    if (late > 1) await delay(late)
    if (open.size >= most) await Promise.race(open)
    if (performance.now() - begin > seconds * 1500) break
    const start = performance.now()
    const one = once(i).then(
      isRight => (isRight ? times.push(performance.now() - start) : failed++),
      () => failed++,
    )
    open.add(one)
    void one.finally(() => open.delete(one))
  }
  await Promise.all(open)
  const took = (performance.now() - begin) / 1000
  return { answered: times.length, failed, perSecond: Number((times.length / took).toFixed(1)), ...summarize(times) }
}

const kinds = {
  /** `runs.wait` over a trivial graph: with threads, each run on one of so many. */
  async runs({ rate = 100, seconds = 10, threads = 0, graph = 'trivial' }) {
    const ids = []
    while (ids.length < threads) ids.push(await newThread())
    const once = async i => {
      const path = ids.length > 0 ? `/threads/${ids[i % ids.length]}/runs/wait` : '/runs/wait'
      const { status, text } = await call('POST', path, { assistant_id: graph, input: { value: 1 } })
      return status === 200 && text.includes('"value":2')
    }
    return atRate(once, { rate, seconds })
  },

  /** Streams of threads, open at once: each of some is written to, and its reader sees the values. */
  async streams({ count = 1000, runs = 200, rate = 20 }) {
    const ids = []
    const arrived = new Map()
    while (ids.length < count) ids.push(...(await Promise.all(Array.from({ length: 50 }, newThread))))
    ids.length = count
    const begin = performance.now()
    const streams = []
    for (const id of ids) {
      const stream = await open('GET', `/threads/${id}/stream`, undefined, { 'Last-Event-ID': '-1' })
      if (stream.statusCode !== 200) throw new Error(`A stream was answered ${stream.statusCode}.`)
      stream.on('error', () => {})
      stream.on('data', chunk => `${chunk}`.includes('event: values') && arrived.get(id)?.())
      streams.push(stream)
    }
    const opened = Math.round(performance.now() - begin)
    console.error('open')
    await delay(Number(settings.idle ?? 0))
    const once = async i => {
      const id = ids[Math.floor((i * count) / runs) % count]
      const seen = new Promise(resolve => arrived.set(id, resolve))
      const { status } = await call('POST', `/threads/${id}/runs`, { assistant_id: 'trivial', input: { value: 1 } })
      if (status !== 200) return false
      await Promise.race([seen, delay(10_000).then(() => Promise.reject(new Error('late')))])
      return true
    }
    const result = await atRate(once, { rate, seconds: runs / rate })
    for (const stream of streams) stream.destroy()
    return { opened_ms: opened, ...result }
  },

  /** Reads of threads that are there: state, history, search. */
  async reads({ rate = 100, seconds = 10 }) {
    const results = {}
    const found = await json('POST', '/threads/search', { limit: 1000 })
    const id = i => found[i % found.length].thread_id
    const reads = {
      thread: i => call('GET', `/threads/${id(i)}`),
      state: i => call('GET', `/threads/${id(i)}/state`),
      history: i => call('POST', `/threads/${id(i)}/history`, { limit: 10 }),
      search: () => call('POST', '/threads/search', { limit: 10 }),
      found: () => call('POST', '/threads/search', { limit: 10, metadata: { number: 7 } }),
    }
    for (const [name, read] of Object.entries(reads))
      results[name] = await atRate(async i => (await read(i)).status === 200, { rate, seconds })
    return results
  },
}

const numbers = Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, Number(value) || value]))
console.log(JSON.stringify(await kinds[kind](numbers)))
process.exit()
