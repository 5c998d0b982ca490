// R12: the deliverer of webhooks is killed again and again, at any step: before it asks the database or the receiver,
// or before it has the answer. From then on, none of its requests arrives.
import pg from 'pg'
import { sweepWebhooks } from '../../../src/connect/webhooks/sweep.ts'
import { createPinnedFetch } from '../../../src/host/pinned-fetch.ts'
import { createSealer } from '../../../src/kernel/crypto/crypto.ts'
import { createClock } from '../../../src/platform.ts'
import { startReceiver } from '../../support/webhook-receiver.ts'
import { makeRandom } from '../support/random.ts'
import { makeClient } from '../support/retrying-client.ts'
import { makeLife } from '../support/short-life.ts'
import { createQuietApp, openTestbed, SETTINGS, scaleCount, type Trial, type TrialContext } from '../support/testbed.ts'

const EVENTS_PER_LIFE = 5
/** Trips and requests of a life that is not cut short: two trips to begin, three for each event. */
const MAX_STEPS = 2 + 3 * EVENTS_PER_LIFE
/** Longer than a lease. */
const LIFE_MS = 3 * 60_000
const MAX_LAST_LIVES = 200

export default {
  id: 'R12',
  what: 'the deliverer of webhooks is killed at any step',
  target: '0 events missing with 100 killed; a repeat carries the same id and body',
  async run(context: TrialContext) {
    const testbed = await openTestbed(context)
    const random = makeRandom(context.seed)
    const receiver = await startReceiver()
    context.defer(receiver.close)
    const accepted = new Map<string, Set<string>>()
    receiver.answer = (response, { id, body }) => {
      if (random() < 0.1) return response.writeHead(500).end()
      accepted.set(id, (accepted.get(id) ?? new Set()).add(body))
      response.writeHead(204).end()
    }

    let ahead = 0
    const { app, system } = testbed.pools.connections
    const pinnedFetch = createPinnedFetch({ allowLoopback: true })
    const settings = {
      ...SETTINGS,
      ALLOW_LOOPBACK: 'true',
      DATABASE_URL: testbed.url,
    }
    const openApp = ({ guard }: Pick<ReturnType<typeof makeLife>, 'guard'>) =>
      createQuietApp(settings, {
        clock: createClock(() => ahead),
        foreignFetch: guard(pinnedFetch) as typeof fetch,
        databaseConnections: { app: guard(app), system: guard(system) },
      })
    const sweep = async (life: Pick<ReturnType<typeof makeLife>, 'guard'>) => {
      const { config, platform, database, traces, logs, shareGroups } = openApp(life)
      const sealer = createSealer(config.sealingKeys)
      await sweepWebhooks({ config, platform, database, traces, logs, sealer, shareGroups }).catch(() => {})
      ahead += LIFE_MS
    }

    // Writes without what sends: the app of the testbed would send its events itself.
    const writer = createQuietApp(settings, {
      clock: createClock(() => ahead),
      deliveriesPerRequest: 0,
      databaseConnections: { app, system },
    })
    const { send } = makeClient(writer.fetch, (await testbed.tenant()).api_key)
    const { id } = (await send('POST', '/v2/tag-keys', { key: 'key' })).body
    const webhook = await send('POST', '/v2/webhooks', { url: receiver.url, event_types: ['tag_key.renamed'] })

    const kills = scaleCount(context, 100)
    let killed = 0
    for (let number = 0; killed < kills; number++) {
      for (let i = 0; i < EVENTS_PER_LIFE; i++) await send('PATCH', `/v2/tag-keys/${id}`, { key: `key-${number}-${i}` })
      const life = makeLife(1 + Math.floor(random() * MAX_STEPS), random() < 0.5)
      await sweep(life)
      if (life.isOver()) killed++
      context.progress(`${killed} of ${kills} killed`)
    }
    const database = new pg.Client({ connectionString: testbed.url })
    await database.connect()
    context.defer(() => database.end())
    const count = async (statement: string) => Number((await database.query(statement)).rows[0].count)
    const countWaiting = () => count(`select count(*) from webhook_deliveries where state = 'waiting'`)
    for (let life = 0; life < MAX_LAST_LIVES && (life === 0 || (await countWaiting()) > 0); life++)
      await sweep(makeLife(Number.POSITIVE_INFINITY, false))

    const { rows } = await database.query(
      `select 'evt_' || scope_id || '_' || seq as id from events where type = 'tag_key.renamed'`,
    )
    const missing = rows.filter(row => !accepted.has(row.id)).length
    const strange = [...accepted.keys()].filter(key => !rows.some(row => row.id === key)).length
    const changed = [...accepted.values()].filter(bodies => bodies.size > 1).length
    const repeats = receiver.messages.length - accepted.size
    return {
      measured: `${missing} of ${rows.length} events missing; ${repeats} repeats, ${changed} with another body`,
      met: webhook.status === 201 && rows.length > 0 && missing === 0 && strange === 0 && changed === 0,
      notes: [`${killed} killed; one answer in ten was 500`],
      figures: { events: rows.length, missing, repeats, killed },
    }
  },
} satisfies Trial
