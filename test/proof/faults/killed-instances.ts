// R19: instances on Node, Deno and Bun share one database and one folder for uploads, and nothing else. One after the
// other is killed under load and started again, and then each is stopped with SIGTERM.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import pg from 'pg'
import { newApiKey } from '../../../src/kernel/crypto/crypto.ts'
import { type Row, runAsSystem } from '../../../src/kernel/db/db.ts'
import { createClock, EXCHANGE_MS } from '../../../src/platform.ts'
import { type Fleet, type Instance, startFleet } from '../support/fleet.ts'
import { formatBalance, isBalanced, openLedger } from '../support/ledger.ts'
import { makeRandom } from '../support/random.ts'
import { makeClient, runWorkers, type Tally } from '../support/retrying-client.ts'
import { openTestbed, SETTINGS, scaleCount, type Testbed, type Trial, type TrialContext } from '../support/testbed.ts'

const KILLS = 8
const KILL_EVERY_MS = 10_000
const [WRITERS, READERS] = [4, 3]
/** Between two writes of a writer, so that readers and the schedule have their turn on a small machine. */
const WRITE_PAUSE_MS = 50
const TICK_MS = 250
const RUN_MS = 500
/** The part of the answered writes that is sent again with its key. */
const REPEATED = 0.2
const RATE_LIMIT = 100_000
const MAX_FAILURES_OF_ADDRESS = 60
/** In which a message that arrived was not yet stored as delivered. */
const STORING_MS = 15_000
/** In which a message that was sent before a kill still arrives: this process is busy, too. */
const ARRIVING_MS = 1_000
const LEASE_MS = 3 * 60_000
const MAX_LAST_SWEEPS = 20

type Message = { at: number; path: string; id: string; body: { rule_id?: string; runs?: { id: string }[] } }

/** Keeps the messages of webhooks by the path that they came to. */
async function startReceiver(context: TrialContext) {
  const messages: Message[] = []
  const server = createServer(async (request, response) => {
    const body = JSON.parse(await text(request))
    messages.push({ at: Date.now(), path: request.url!, id: request.headers['webhook-id'] as string, body })
    response.writeHead(204).end()
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  context.defer(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, messages }
}

export default {
  id: 'R19',
  what: 'four instances on one database, one killed every 10 s under load, then each stopped',
  target: '0 writes lost or double; only requests on a killed connection fail; scheduled work once',
  async run(context: TrialContext) {
    let ahead = 0
    const clock = createClock(() => ahead)
    const testbed = await openTestbed(context, { settings: { ALLOW_LOOPBACK: 'true' }, overrides: { clock } })
    const receiver = await startReceiver(context)
    const fleet = await startFleet(context, ['start', 'start', 'start:deno', 'start:bun'], {
      ...SETTINGS,
      DATABASE_URL: testbed.logins.app,
      DATABASE_SYSTEM_URL: testbed.logins.system,
      ALLOW_LOOPBACK: 'true',
      RATE_LIMIT_PER_MINUTE: String(RATE_LIMIT),
      INGESTION_RATE_LIMIT_PER_MINUTE: '0',
      CLIO_SCHEDULE_MIN_INTERVAL_SECONDS: '60',
      SHUTDOWN_DELAY_SECONDS: '3',
      UNKNOWN_KEYS_PER_MINUTE: String(MAX_FAILURES_OF_ADDRESS),
    })
    const { tenant_id, api_key } = await testbed.tenant()
    const repeats = makeRepeats(fleet, makeRandom(context.seed))
    const client = makeClient(repeats.fetch, api_key)
    const read = makeClient(fleet.fetch, api_key)
    const load = await prepareLoad(client, receiver.url)

    let isOver = false
    const during = async (pauseMs: number, act: (round: number) => Promise<unknown>) => {
      for (let round = 0; !isOver; round++) {
        await act(round)
        await delay(pauseMs)
      }
    }
    const [streamed, polled] = [makeNumbers(), makeNumbers()]
    const working = Promise.all([
      runWorkers(WRITERS, () => during(WRITE_PAUSE_MS, () => load.ledger.patch())),
      runWorkers(READERS, worker => during(10, round => read.send('GET', load.paths[(worker + round) % 3]!))),
      during(TICK_MS, round => load.tick(round)),
      during(RUN_MS, () => load.sendRun()),
      during(0, () => followStream(fleet, api_key, streamed, () => isOver)),
      during(0, () => followPolls(read, polled)),
    ])

    const downtimes: number[] = []
    let stopped: (number | null)[] = []
    let stopsFrom = 0
    let refusedBefore = 0
    try {
      const kills = scaleCount(context, KILLS)
      for (let kill = 1; kill <= kills; kill++) {
        await delay(KILL_EVERY_MS / 2)
        const instance = fleet.instances[kill % fleet.instances.length]!
        const startedAt = Date.now()
        await instance.end('SIGKILL')
        context.progress(`kill ${kill} of ${kills}: instance ${instance.name}; ${read.tally}`)
        await delay(KILL_EVERY_MS / 2)
        await instance.start()
        downtimes.push(Date.now() - startedAt)
      }
      await delay(KILL_EVERY_MS / 2)
      stopsFrom = Date.now()
      refusedBefore = fleet.refused()
      stopped = await stopInTurn(fleet, context)
      await delay(KILL_EVERY_MS / 4)
    } finally {
      isOver = true
      await working
    }
    const unexplained = fleet.listUnexplained()
    const failedInStops =
      unexplained.filter(({ failedAt }) => failedAt >= stopsFrom).length + fleet.refused() - refusedBefore

    context.progress('what is left is done')
    ahead = LEASE_MS
    await finishSchedule(testbed)
    ahead = 0
    const limits = await measureLimits(fleet, (await testbed.tenant()).api_key)
    const database = await openDatabase(context, testbed.url)
    const balance = await load.ledger.balance(testbed.url)
    const journal = await readJournal(database, tenant_id)
    await Promise.all([followPolls(read, polled, journal.last), catchUp(fleet, api_key, streamed, journal.last)])
    const messages = judgeMessages(receiver.messages, journal.ticks, load.webhooks, fleet.kills())
    const schedule = await judgeSchedule(database, tenant_id, receiver.messages, load.runs)
    const unexpected = [read.tally, client.tally].flatMap(tally =>
      tally.listUnexpected(/^2\d\d$/, '503 connection_cut', /idempotency_in_flight/),
    )
    const faults = [
      ...unexplained.map(({ instance, error }) => `instance ${instance.name} failed while it served: ${error}`),
      ...unexpected.map(answer => `unexpected answers: ${answer}`),
      ...repeats.faults,
      ...messages.faults,
      ...schedule.faults,
      ...limits.faults,
      ...(isComplete(streamed, journal.last) ? [] : ['the stream missed or repeated events']),
      ...(isComplete(polled, journal.last) ? [] : ['the long polls missed or repeated events']),
      ...(journal.gaps > 0 ? [`${journal.gaps} journals with gaps`] : []),
      ...(failedInStops > 0 ? [`${failedInStops} requests failed while instances were stopped`] : []),
      ...stopped.filter(code => code !== 0).map(code => `an instance ended with ${code}`),
    ]
    return {
      measured:
        `${formatBalance(balance)}; ${fleet.failures.length} of ${count(read.tally) + count(client.tally)} requests ` +
        `cut in ${fleet.kills().length} kills, ${failedInStops} failed in ${stopped.length} stops; ` +
        `${messages.repeated} of ${messages.delivered} messages repeated; ${schedule.done}`,
      met: isBalanced(balance) && faults.length === 0 && repeats.count > 0 && messages.delivered > 0,
      notes: [
        ...faults.slice(0, 20),
        ...(fleet.stalls.length > 0 ? [`the client stood still ${fleet.stalls.length} times`] : []),
        `instances: ${fleet.instances.map(({ name }) => name).join(', ')}`,
        `answers: ${read.tally}; of writes: ${client.tally}`,
        `${repeats.count} writes sent again with their key, ${fleet.refused()} connections refused`,
        `away for ${downtimes.map(ms => (ms / 1000).toFixed(1)).join(', ')} s`,
        limits.measured,
      ],
      figures: {
        ...balance,
        requests: count(read.tally) + count(client.tally),
        cut: fleet.failures.length,
        failedInStops,
        messages: messages.delivered,
        repeatedMessages: messages.repeated,
        events: journal.last,
      },
    }
  },
} satisfies Trial

const count = ({ counts }: Tally): number => [...counts.values()].reduce((sum, one) => sum + one, 0)

// ---- the load

async function prepareLoad(client: ReturnType<typeof makeClient>, receiverUrl: string) {
  const create = async (path: string, body: object) => {
    const answer = await client.sendUntilAnswered('POST', path, body)
    if (answer.status >= 300) throw new Error(`POST ${path} answered ${answer.status}: ${answer.body.detail}`)
    return answer.body
  }
  const ledger = await openLedger(client)
  const tag = await create('/v2/tag-keys', { key: 'tick' })
  const webhooks = ['/a', '/b', '/c']
  for (const path of webhooks)
    await create('/v2/webhooks', { url: receiverUrl + path, event_types: ['tag_key.renamed'] })
  const session = await create('/sessions', { name: 'load' })
  await create('/runs/rules', {
    display_name: 'all',
    sampling_rate: 1,
    session_id: session.id,
    webhooks: [{ url: `${receiverUrl}/rule` }],
  })
  await create(`/sessions/${session.id}/insights/configs`, {
    name: 'each minute',
    config: { model: 'none', last_n_hours: 1 },
    schedule_cron: '* * * * *',
  })
  const runs = new Set<string>()
  return {
    ledger,
    webhooks,
    runs,
    paths: ['/v2/deployments?limit=20', `/v2/deployments/${ledger.ids[0]}`, '/v2/events?limit=5&order=desc'],
    tick: (round: number) => client.sendUntilAnswered('PATCH', `/v2/tag-keys/${tag.id}`, { key: `tick-${round}` }),
    async sendRun() {
      const id = crypto.randomUUID()
      const time = new Date()
      const dotted_order = `${time.toISOString().replace(/[-:.]/g, '').replace('Z', '000Z')}${id}`
      const times = { start_time: time.toISOString(), end_time: new Date().toISOString() }
      const run = { id, trace_id: id, dotted_order, name: 'run', run_type: 'chain', session_name: 'load', ...times }
      const { status } = await client.sendUntilAnswered('POST', '/runs', run)
      if (status < 300) runs.add(id)
    },
  }
}

/** Sends some writes again, once they are answered. A write with one key has one answer, from whichever instance. */
function makeRepeats(fleet: Fleet, random: () => number) {
  const repeats = {
    count: 0,
    faults: [] as string[],
    async fetch(request: Request): Promise<Response> {
      const again = request.clone()
      const response = await fleet.fetch(request)
      const isChosen = request.headers.has('Idempotency-Key') && request.url.includes('/v2/') && random() < REPEATED
      if (!isChosen || response.status >= 300) return response
      const second = await fleet.fetch(again)
      if (second.status === 503) return response
      repeats.count++
      const [first, repeated] = await Promise.all([response.clone().text(), second.text()])
      if (second.status !== response.status || repeated !== first)
        repeats.faults.push(`a repeated write was answered ${second.status}, not as before`)
      return response
    },
  }
  return repeats
}

// ---- events

/** The numbers of events that a client has seen, and whether each was the next one. */
type Numbers = { last: number; faults: number }
const makeNumbers = (): Numbers => ({ last: 0, faults: 0 })
function see(numbers: Numbers, number: number): void {
  if (number !== numbers.last + 1) numbers.faults++
  numbers.last = number
}
const isComplete = ({ last, faults }: Numbers, expected: number): boolean => last === expected && faults === 0

/** Until the stream ends or is cut. */
async function followStream(fleet: Fleet, key: string, numbers: Numbers, isOver: () => boolean): Promise<void> {
  const aborter = new AbortController()
  const headers = { 'X-Api-Key': key, 'Last-Event-ID': String(numbers.last) }
  const request = new Request('http://slipway.test/v2/events/stream', { headers, signal: aborter.signal })
  const timer = setInterval(() => isOver() && aborter.abort(), 100)
  try {
    const { response } = await fleet.open(request)
    let text = ''
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      const blocks = (text + chunk).split('\n\n')
      text = blocks.pop()!
      for (const block of blocks) {
        const id = /^id: (\d+)\nevent: message$/m.exec(block)?.[1]
        if (id) see(numbers, Number(id))
      }
    }
  } catch {
    // The next one goes on after the last event.
  } finally {
    clearInterval(timer)
  }
}

const catchUp = (fleet: Fleet, key: string, numbers: Numbers, last: number): Promise<void> =>
  numbers.last >= last ? Promise.resolve() : followStream(fleet, key, numbers, () => numbers.last >= last)

/** One page, or until the event with that number. */
async function followPolls(client: ReturnType<typeof makeClient>, numbers: Numbers, last = 0): Promise<void> {
  do {
    const { status, body } = await client.send('GET', `/v2/events?limit=100&after=${numbers.last}&wait=3`)
    if (status === 200) for (const { number } of body.resources as { number: number }[]) see(numbers, number)
  } while (numbers.last < last)
}

// ---- the end

async function stopInTurn({ instances }: Fleet, context: TrialContext): Promise<(number | null)[]> {
  const codes: (number | null)[] = []
  for (const instance of instances) {
    context.progress(`stop: instance ${instance.name}`)
    codes.push(await instance.end('SIGTERM'))
    await instance.start()
  }
  return codes
}

/** By an instance whose clock is ahead, so that the leases of killed ones have ended. */
async function finishSchedule({ app }: Testbed): Promise<void> {
  for (let sweep = 0; sweep < MAX_LAST_SWEEPS; sweep++) {
    await app.housekeep()
    if (sweep >= 2 && (await countWaiting(app)) === 0) return
  }
}

async function countWaiting({ database }: Testbed['app']): Promise<number> {
  const [rows] = await runAsSystem(
    database,
    sql<Row>`
      select (select count(*) from webhook_deliveries where state = 'waiting')
        + (select count(*) from rule_deliveries where state = 'waiting')`,
  )
  return Number((rows as [string][])[0]![0])
}

async function openDatabase(context: TrialContext, url: string): Promise<pg.Client> {
  const database = new pg.Client({ connectionString: url })
  await database.connect()
  context.defer(() => database.end())
  return database
}

async function readJournal(database: pg.Client, tenant: string) {
  const { rows: ticks } = await database.query(
    `select 'evt_' || scope_id || '_' || seq as id from events where scope_id = $1 and type = 'tag_key.renamed'`,
    [tenant],
  )
  const { rows } = await database.query(
    `select (select seq::integer from journals where scope_id = $1) as last,
      (select count(*)::integer from journals j
        where seq <> (select count(*) from events e where e.scope_id = j.scope_id)) as gaps`,
    [tenant],
  )
  return { ticks: ticks.map(({ id }) => id as string), ...(rows[0] as { last: number; gaps: number }) }
}

/** A message may come again only if the instance that sent it was killed before it stored the answer. */
function judgeMessages(messages: Message[], events: string[], webhooks: string[], kills: number[]) {
  const faults: string[] = []
  let [delivered, repeated] = [0, 0]
  for (const path of webhooks) {
    const times = Map.groupBy(
      messages.filter(message => message.path === path),
      ({ id }) => id,
    )
    const missing = events.filter(id => !times.has(id)).length
    if (missing > 0) faults.push(`${missing} of ${events.length} events never sent to ${path}`)
    for (const received of times.values()) {
      delivered++
      repeated += received.length - 1
      const [{ at }] = received as [Message]
      const isOfKilled = kills.some(kill => kill >= at - ARRIVING_MS && kill - at < STORING_MS)
      if (received.length > 1 && !isOfKilled) faults.push(`a message to ${path} was sent ${received.length} times`)
    }
  }
  return { faults, delivered, repeated }
}

/** Each run is sent for the rule in one message, and each firing of the schedule starts one job. */
async function judgeSchedule(database: pg.Client, tenant: string, messages: Message[], runs: Set<string>) {
  const idsOf = new Map<string, Set<string>>()
  for (const { path, id, body } of messages)
    if (path === '/rule') for (const run of body.runs ?? []) idsOf.set(run.id, (idsOf.get(run.id) ?? new Set()).add(id))
  const unsent = [...runs].filter(run => !idsOf.has(run)).length
  const twice = [...idsOf.values()].filter(ids => ids.size > 1).length
  const { rows } = await database.query(
    `select
      count(*) filter (where type = 'insight_job.created')::integer as jobs,
      count(distinct date_trunc('minute', created_at)) filter (where type = 'insight_job.created')::integer as minutes
    from events
    where scope_id = $1 and actor_kind = 'cron'`,
    [tenant],
  )
  const { jobs, minutes } = rows[0] as { jobs: number; minutes: number }
  return {
    done: `${runs.size} runs judged by a rule, ${jobs} jobs started`,
    faults: [
      ...(unsent > 0 ? [`${unsent} of ${runs.size} runs never sent for the rule`] : []),
      ...(twice > 0 ? [`${twice} runs sent for the rule in several messages`] : []),
      ...(jobs === 0 || jobs !== minutes ? [`${jobs} jobs started in ${minutes} minutes`] : []),
    ],
  }
}

/**
 * Requests of a key count exactly, once the instances have told each other. Failures of an address may exceed the limit
 * by a few for each instance.
 */
async function measureLimits({ instances }: Fleet, key: string) {
  const get = (instance: Instance, ofKey: string) =>
    fetch(`${instance.url}/workspaces`, { headers: { 'X-Api-Key': ofKey } })
  const sent = 20 * instances.length
  let remaining = 0
  const send = async (i: number) => {
    const response = await get(instances[i % instances.length]!, key)
    await response.text()
    remaining = Number(/r=(\d+)/.exec(response.headers.get('RateLimit') ?? '')?.[1])
  }
  for (let i = 0; i < sent; i++) await send(i)
  // The first of these asks the database, once all have told it. The second shows what it has learned.
  for (let i = 0; i < 2; i++) {
    await delay(2 * EXCHANGE_MS)
    await send(0)
  }
  const requests = sent + 2
  const statuses: number[] = []
  for (let i = 0; i < MAX_FAILURES_OF_ADDRESS + 10 * instances.length; i++) {
    const response = await get(instances[i % instances.length]!, newApiKey())
    await response.text()
    statuses.push(response.status)
  }
  const failed = statuses.filter(status => status === 401).length
  const counted = RATE_LIMIT - remaining
  return {
    measured: `${counted} of ${requests} requests of one key counted together; ${failed} failed keys of one address`,
    faults: [
      ...(counted === requests ? [] : [`${counted} of ${requests} requests counted`]),
      ...(failed <= MAX_FAILURES_OF_ADDRESS + 2 * instances.length ? [] : [`${failed} failed keys were looked up`]),
    ],
  }
}
