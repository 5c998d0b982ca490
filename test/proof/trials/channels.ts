// Tells 300 incidents by e-mail to a real OpenSMTPD, to a bot of Slack, to PagerDuty and to a webhook, while the
// deliverer is killed 100 times at any step. Slack and PagerDuty follow their published wire and refuse what breaks it.
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import pg from 'pg'
import { enqueueNotices } from '../../../src/connect/channels/enqueue.ts'
import { deliverDueNotices } from '../../../src/connect/channels/notice-worker.ts'
import { createMailSender } from '../../../src/host/smtp.ts'
import { createSealer } from '../../../src/kernel/crypto/crypto.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { createClock } from '../../../src/platform.ts'
import { startMailServer } from '../support/mail-server.ts'
import { makeRandom } from '../support/random.ts'
import { makeClient } from '../support/retrying-client.ts'
import { makeLife } from '../support/short-life.ts'
import { createQuietApp, openTestbed, SETTINGS } from '../support/testbed.ts'
import { check, findMissing, note, optionOf, runTrial, skipped } from '../support/trial.ts'

const INCIDENTS = Number(optionOf('incidents') ?? 300)
const KILLS = Number(optionOf('kills') ?? 100)
const SEED = Number(optionOf('seed') ?? 1)
/** Longer than a lease. */
const LIFE_MS = 3 * 60_000
const MAX_STEPS = 60
const MAX_LIVES = 3000

type Posted = { ts: string; metadata: { event_payload: { thread: string } }; attachments: unknown[] }
type Incident = { key: string; state: 'open' | 'acknowledged' | 'resolved'; opened: number }

/** Slack, PagerDuty and a webhook in memory. One answer in ten is 500 or 429. */
function makeReceivers(random: () => number) {
  const posted: Posted[] = []
  const incidents = new Map<string, Incident>()
  const hooked = new Map<string, string[]>()
  const faults: string[] = []
  const refuse = () => (random() < 0.5 ? new Response(null, { status: 500 }) : tooMany())
  const tooMany = () => new Response(null, { status: 429, headers: { 'Retry-After': '2' } })

  function answerSlack(method: string, body: Record<string, unknown>): object {
    const [attachment] = (body.attachments ?? []) as { blocks: { type: string; text?: { text: string } }[] }[]
    for (const { type, text } of attachment?.blocks ?? [])
      if ((text?.text.length ?? 1) > (type === 'header' ? 150 : 3000)) faults.push(`slack: a long ${type}`)
    if (method === 'conversations.history') {
      const from = Number(body.cursor ?? 0)
      const messages = posted.toReversed().slice(from, from + Number(body.limit))
      const next_cursor = from + messages.length < posted.length ? String(from + messages.length) : ''
      return { ok: true, messages, response_metadata: { next_cursor } }
    }
    if (method === 'chat.update') {
      const message = posted.find(({ ts }) => ts === body.ts)
      if (message) Object.assign(message, { attachments: body.attachments })
      return message ? { ok: true, ts: body.ts, channel: body.channel } : { ok: false, error: 'message_not_found' }
    }
    const ts = `1700000000.${String(posted.length).padStart(6, '0')}`
    posted.push({ ...(body as unknown as Posted), ts })
    return { ok: true, ts, channel: body.channel }
  }

  function answerPagerDuty(event: Record<string, unknown> & { payload?: Record<string, unknown> }): Response {
    const { event_action, dedup_key, routing_key, payload } = event
    const [action, key] = [String(event_action), String(dedup_key)]
    const isTrigger = action === 'trigger'
    const lacksPayload = isTrigger && !['summary', 'source', 'severity'].every(name => payload?.[name])
    const isKnown = ['trigger', 'acknowledge', 'resolve'].includes(action)
    if (!routing_key || !isKnown || lacksPayload || key.length > 255) {
      faults.push(`pagerduty: ${JSON.stringify(event).slice(0, 200)}`)
      return new Response(null, { status: 400 })
    }
    const incident = incidents.get(key)
    const isOpen = incident && incident.state !== 'resolved'
    if (isTrigger && !isOpen) {
      incidents.set(key, { key, state: 'open', opened: (incident?.opened ?? 0) + 1 })
    } else if (incident && !isTrigger) {
      incident.state = action === 'resolve' ? 'resolved' : 'acknowledged'
    }
    return Response.json({ status: 'success', dedup_key }, { status: 202 })
  }

  const answer = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init)
    const { hostname, pathname } = new URL(request.url)
    const body = (await request.json()) as Record<string, unknown> & { payload?: Record<string, unknown> }
    if (random() < 0.1) return refuse()
    if (hostname === 'slack.com') return Response.json(answerSlack(pathname.split('/').at(-1)!, body))
    if (hostname === 'events.pagerduty.com') return answerPagerDuty(body)
    const id = request.headers.get('webhook-id')!
    hooked.set(id, [...(hooked.get(id) ?? []), JSON.stringify(body)])
    return new Response(null, { status: 204 })
  }
  return { answer: answer as typeof fetch, posted, incidents, hooked, faults }
}

async function tellIncidents(): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  const defer = (end: () => unknown) => cleanup.defer(async () => void (await end()))
  const mailServer = await startMailServer({ defer })
  const random = makeRandom(SEED)
  const receivers = makeReceivers(random)
  const testbed = await openTestbed({ defer, seed: SEED, share: 1, progress: () => {} })
  const { app, system } = testbed.pools.connections
  let ahead = 0
  const settings = {
    ...SETTINGS,
    DATABASE_URL: testbed.url,
    SMTP_URL: mailServer.url,
    SMTP_FROM: 'alerts@slipway.example.com',
    EMAILS_PER_HOUR: '1000000',
  }
  type Guard = Pick<ReturnType<typeof makeLife>, 'guard'>['guard']
  const openServices = (guard: Guard) => {
    const { config, platform, database, traces, logs, shareGroups } = createQuietApp(settings, {
      clock: createClock(() => ahead),
      foreignFetch: guard(receivers.answer) as typeof fetch,
      sendMail: guard(
        createMailSender({
          url: mailServer.url,
          from: { name: '', address: 'alerts@slipway.example.com' },
          perHour: 0,
        }),
      ),
      databaseConnections: { app: guard(app), system: guard(system) },
    })
    return { config, platform, database, traces, logs, shareGroups, sealer: createSealer(config.sealingKeys) }
  }
  const endless = openServices(send => send)

  const writer = createQuietApp(settings, { deliveriesPerRequest: 0, databaseConnections: { app, system } })
  const { api_key, tenant_id } = (await testbed.tenant()) as { api_key: string; tenant_id: string }
  const { send } = makeClient(writer.fetch, api_key)
  const targets = [
    { kind: 'email', address: 'nobody@example.com' },
    { kind: 'slack', bot_token: 'xoxb-trial', slack_channel: 'C024BE91L' },
    { kind: 'pagerduty', routing_key: '0123456789abcdef0123456789abcdef' },
    { kind: 'webhook', url: 'https://hooks.example.com/notices' },
  ]
  const ids: string[] = []
  for (const target of targets) {
    const { body } = await send('POST', '/v2/channels', { name: target.kind, target })
    ids.push((body as { id: string }).id)
  }
  // The owner of the mailbox confirms it.
  await runAsSystem(endless.database, sql`update channels set confirmed_at = clock() where id = ${ids[0]!}::uuid`)

  const enqueue = (number: number, sequence: number) => {
    const phase = sequence === 0 ? 'open' : sequence === 1 ? 'update' : 'close'
    const content = {
      title: `shop ${number}: crash loop`,
      summary: 'The process ended 5 times in 2 minutes.',
      severity: 'critical' as const,
      url: '/ui/w/deployments/d',
      facts: [{ name: 'Deployment', value: `shop ${number}` }],
      lines: ['Error: out of memory'],
      chart: {
        title: 'Restarts',
        unit: '',
        points: [
          [0, 0],
          [60_000, 5],
        ] as [number, number][],
        threshold: 3,
      },
      started_at: '2026-11-30T12:00:00Z',
      ...(phase === 'update' && { acknowledged_by: 'Ada' }),
      ...(phase === 'close' && { ended_at: '2026-11-30T12:30:00Z' }),
    }
    const values = { tenant: tenant_id, channels: ids, thread: `incident ${number}`, phase, sequence, content } as const
    return runAsSystem(endless.database, sql`select ${enqueueNotices(values)}`)
  }

  let killed = 0
  let lives = 0
  let told = 0
  const live = async (life: ReturnType<typeof makeLife>) => {
    await deliverDueNotices(openServices(life.guard), sql`true`).catch(() => {})
    ahead += LIFE_MS
    lives++
  }
  while (killed < KILLS || told < INCIDENTS) {
    for (let i = 0; i < Math.ceil(INCIDENTS / KILLS) && told < INCIDENTS; i++, told++)
      for (const sequence of [0, 1, 2]) await enqueue(told, sequence)
    const life = makeLife(1 + Math.floor(random() * MAX_STEPS), random() < 0.5)
    await live(life)
    if (life.isOver()) killed++
    if (lives > MAX_LIVES) break
  }
  const database = new pg.Client({ connectionString: testbed.url })
  await database.connect()
  defer(() => database.end())
  const countWaiting = async () =>
    Number((await database.query(`select count(*) from notices where state = 'waiting'`)).rows[0].count)
  for (; lives < MAX_LIVES && (await countWaiting()) > 0; ) await live(makeLife(Number.POSITIVE_INFINITY, false))
  // OpenSMTPD delivers after its answer.
  await delay(3000)

  note(`${INCIDENTS} incidents at 4 receivers, ${killed} killed in ${lives} lives; one answer in ten was 500 or 429`)
  check('the wire of Slack and PagerDuty was kept', receivers.faults.length === 0, receivers.faults.slice(0, 3).join())
  const { rows } = await database.query(`select id, channel_id, state, error from notices`)
  const due = (kind: number) => rows.filter(row => row.channel_id === ids[kind] && row.state !== 'dropped')
  const undone = rows.filter(row => !['delivered', 'dropped'].includes(row.state))
  const errors = [...new Set(undone.map(row => `${ids.indexOf(row.channel_id)} ${row.state} ${row.error}`))]
  check('no notice is left or failed', undone.length === 0, `${undone.length}: ${errors.join()}`)

  const mails = mailServer.readIds()
  const distinct = new Set(mails)
  const expected = due(0).map(row => `<${row.id}@slipway.example.com>`)
  check(
    'no e-mail is missing',
    expected.every(id => distinct.has(id)),
    `${expected.length - distinct.size}`,
  )
  note(`${expected.length} e-mails; ${mails.length - distinct.size} twice, each with its own Message-ID again`)

  const threads = receivers.posted.map(({ metadata }) => metadata.event_payload.thread)
  check('Slack has one message for each incident', threads.length === INCIDENTS, `${threads.length}`)
  check('no incident is missing in Slack', new Set(threads).size === INCIDENTS)
  const isClosed = ({ attachments }: Posted) => JSON.stringify(attachments).includes('Resolved: ')
  check('each message of Slack says in the end that it is resolved', receivers.posted.every(isClosed))

  const all = [...receivers.incidents.values()]
  check('PagerDuty has each incident once', all.length === INCIDENTS && all.every(({ opened }) => opened === 1))
  check(
    'PagerDuty has each incident resolved',
    all.every(({ state }) => state === 'resolved'),
  )

  const hooks = due(3).map(row => `notice_${row.id}`)
  check(
    'no webhook is missing',
    hooks.every(id => receivers.hooked.has(id)),
  )
  const bodies = [...receivers.hooked.values()]
  check(
    'a repeated webhook has the same body',
    bodies.every(list => new Set(list).size === 1),
  )
  note(`${hooks.length} webhooks; ${bodies.filter(list => list.length > 1).length} twice, with the same webhook-id`)
}

await runTrial(async () => {
  const missing = findMissing('smtpd')
  if (missing) skipped(`channels: ${missing}`)
  else if (process.getuid?.() !== 0) skipped('channels: smtpd needs root')
  else await tellIncidents()
})
