// R17 for logs: followers are cut at random while 20 copies write. They read pages, server-sent events or NDJSON.
import { setTimeout as delay } from 'node:timers/promises'
import { makeImageBody } from '../../support/deployment-bodies.ts'
import { makeEnvelopeOpener } from '../../support/envelope-opener.ts'
import { makeRandom } from '../support/random.ts'
import { type Client, makeClient, runWorkers } from '../support/retrying-client.ts'
import { type Fetch, openTestbed, scaleCount, type Trial, type TrialContext } from '../support/testbed.ts'

const COPIES = 20
/** Each copy has a log of its own: an agent has one stream for each. */
const REVISIONS = COPIES / 2
const MAX_BATCH = 8
/** When a stream is cut at the latest. */
const [MAX_CUT_BYTES, MAX_CUT_MS] = [12_000, 50]
/** Followers look often, so that most cuts meet them waiting for lines. */
const STREAMS = { seconds: 900, trips: 1_000_000, perKey: 100, lookMs: [5, 20] as [number, number], keyCheckMs: 15_000 }

type Line = { arrival: number; message: string }
type Answer = { lines: Line[]; cursor: number | undefined }
type Read = (after: number, random: () => number) => Promise<Answer>

export default {
  id: 'R17L',
  what: 'log followers cut while 20 copies write',
  target: 'of 1,000 cuts each: every line once, in the order of arrival',
  async run(context: TrialContext) {
    const testbed = await openTestbed(context, { overrides: { liveStreams: STREAMS } })
    const { api_key } = await testbed.tenant()
    const { fetch } = testbed.app
    const { path, send } = await openLogs(fetch, api_key)
    const random = makeRandom(context.seed)
    const cuts = scaleCount(context, 1000)
    const followers = Object.entries(makeReaders(fetch, path, api_key)).map(([name, read]) =>
      createFollower(name, read, random, cuts),
    )
    const countCuts = () => followers.reduce((sum, { state }) => sum + state.cuts, 0)
    const sent: string[] = []
    const writing = runWorkers(COPIES, async copy => {
      const write = send(copy)
      // Logs drop lines beyond 10,000, so a copy cannot run ahead of the followers.
      for (let batch = 0; followers.some(({ state }) => state.cuts < cuts); ) {
        if (batch * COPIES > countCuts()) {
          await delay(2)
          continue
        }
        const messages = Array.from({ length: 1 + Math.floor(random() * MAX_BATCH) }, (_, i) => `${copy}/${batch}/${i}`)
        sent.push(...messages)
        batch++
        await write(messages, random)
        context.progress(followers.map(({ name, state }) => `${name} ${state.cuts}`).join(', '))
      }
    })
    await Promise.all(followers.map(({ follow }) => follow(writing, () => sent.length)))

    const wanted = sent.toSorted().join()
    const faults = followers.flatMap(({ name, state: { lines } }) => [
      ...(lines.every(({ arrival }, i) => arrival === i + 1) ? [] : [`${name}: out of order, lost or repeated`]),
      ...(lines
        .map(({ message }) => message)
        .toSorted()
        .join() === wanted
        ? []
        : [`${name}: not the lines that were sent`]),
      ...(isInOrderOfEachCopy(lines) ? [] : [`${name}: not in the order of its copy`]),
    ])
    const counts = followers.map(({ name, state }) => `${name} ${state.cuts}`).join(', ')
    return {
      measured: `${sent.length} lines; cuts: ${counts}; ${faults.join('; ') || 'every line once, in order'}`,
      met: faults.length === 0,
      figures: { lines: sent.length, ...Object.fromEntries(followers.map(({ name, state }) => [name, state.cuts])) },
    }
  },
} satisfies Trial

/** A deployment whose revisions log their builds and their runs. */
async function openLogs(fetch: Fetch, api_key: string) {
  const client = makeClient(fetch, api_key)
  const listener = await requireOk(client, 'POST', '/v2/listeners', { compute_type: 'local', compute_id: 'machine' })
  const { key } = await requireOk(client, 'POST', `/v2/listeners/${listener.id}/keys`, {})
  const newDeployment = makeImageBody({ source_config: { listener_id: listener.id } })
  const { id } = await requireOk(client, 'POST', '/v2/deployments', newDeployment)
  for (let number = 2; number <= REVISIONS; number++)
    await requireOk(client, 'PATCH', `/v2/deployments/${id}`, {
      source_config: { resource_spec: { memory_mb: 64 * number } },
    })
  const { resources } = await requireOk(client, 'GET', `/v2/deployments/${id}/revisions`)
  const revisions = (resources as { id: string }[]).map(revision => revision.id)
  const agent = makeClient(fetch, key as string)
  const { public_key } = makeEnvelopeOpener()
  const { lease } = await requireOk(agent, 'POST', '/v1/sync/poll', {
    agent_id: 'agent',
    public_key,
    fence: null,
    cursor: null,
  })
  const { fence } = lease as { fence: number }

  /** Returns how a copy sends a batch: in its own stream, with times that go back, and one in four batches twice. */
  function send(copy: number) {
    const log = {
      agent_id: 'agent',
      fence,
      deployment_id: id,
      stream: crypto.randomUUID(),
      revision_id: revisions[copy % REVISIONS],
      kind: copy < REVISIONS ? 'build' : 'deploy',
    }
    let from = 0
    return async (messages: string[], random: () => number) => {
      const lines = messages.map(message => {
        const timestamp = new Date(Date.now() - Math.floor(random() * 3_600_000)).toISOString()
        return { timestamp, level: 'INFO', message }
      })
      const batch = { ...log, from, lines }
      const times = random() < 0.25 ? 2 : 1
      await runWorkers(times, async () => void (await requireOk(agent, 'POST', '/v1/sync/logs', batch)))
      from += messages.length
    }
  }
  return { path: `/v2/deployments/${id}/logs`, send }
}

async function requireOk(client: Client, method: string, path: string, body?: unknown) {
  const { status, body: answer } = await client.send(method, path, body)
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${answer.detail}`)
  return answer
}

/** Each reads from a cursor on until it is cut, and returns the lines that it has whole. */
function makeReaders(fetch: Fetch, path: string, key: string): Record<string, Read> {
  const open = (query: string, headers: Record<string, string> = {}) =>
    fetch(new Request(`http://slipway.test${path}${query}`, { headers: { 'X-Api-Key': key, ...headers } }))
  const readPage: Read = async (after, random) => {
    const response = await open(`?after=${after}&limit=${1 + Math.floor(random() * 50)}&wait=1`)
    // On a busy machine the database may not answer in time. The client asks again.
    if (response.status === 503) return { lines: [], cursor: undefined }
    const { logs, next_after } = (await response.json()) as { logs: Line[]; next_after: number }
    // A cut loses the whole page.
    return random() < 0.5 ? { lines: [], cursor: undefined } : { lines: logs, cursor: next_after }
  }
  const readEvents: Read = async (after, random) => {
    const text = await readPart(await open('/stream', { 'Last-Event-ID': String(after) }), random)
    const blocks = text.split('\n\n').slice(0, -1)
    const fields = blocks.map(block =>
      Object.fromEntries([...block.matchAll(/^(\w+): (.*)$/gm)].map(m => [m[1], m[2]])),
    )
    const lines = fields.filter(({ event }) => event === 'message').map(({ data }) => JSON.parse(data!))
    return { lines, cursor: toCursor(fields.findLast(({ id }) => id)?.id) }
  }
  const readJsonLines: Read = async (after, random) => {
    const headers = { Accept: 'application/x-ndjson' }
    const text = await readPart(await open(`/stream?after=${after}`, headers), random)
    const lines = (
      text
        .split('\n')
        .slice(0, -1)
        .map(line => JSON.parse(line)) as Line[]
    ).filter(line => line.arrival)
    return { lines, cursor: lines.at(-1)?.arrival }
  }
  return { pages: readPage, events: readEvents, ndjson: readJsonLines }
}

const toCursor = (id: string | undefined) => (id === undefined ? undefined : Number(id))

/** Reads until a random byte or time, as when a connection breaks. */
async function readPart(response: Response, random: () => number): Promise<string> {
  const reader = response.body!.getReader()
  const decoder = new TextDecoder()
  let text = ''
  const timer = setTimeout(() => void reader.cancel(), random() * MAX_CUT_MS)
  for (let left = Math.floor(random() * MAX_CUT_BYTES); left > 0; ) {
    const { done, value } = await reader.read()
    if (done) break
    text += decoder.decode(value.subarray(0, left), { stream: true })
    left -= value.byteLength
  }
  clearTimeout(timer)
  await reader.cancel()
  return text
}

function createFollower(name: string, read: Read, random: () => number, cuts: number) {
  const state = { lines: [] as Line[], cuts: 0 }
  async function follow(writing: Promise<unknown>, countSent: () => number): Promise<void> {
    let cursor = 0
    const readOn = async () => {
      const { lines, cursor: next = cursor } = await read(cursor, random)
      state.lines.push(...lines)
      cursor = next
    }
    for (; state.cuts < cuts; state.cuts++) await readOn()
    await writing
    while (state.lines.length < countSent()) await readOn()
  }
  return { name, state, follow }
}

function isInOrderOfEachCopy(lines: Line[]): boolean {
  const last = new Map<string, [number, number]>()
  return lines.every(({ message }) => {
    const [copy, batch, i] = message.split('/') as [string, string, string]
    const [lastBatch, lastI] = last.get(copy) ?? [-1, 0]
    last.set(copy, [Number(batch), Number(i)])
    return Number(batch) > lastBatch || (Number(batch) === lastBatch && Number(i) > lastI)
  })
}
