// Decides on 300 crash loops and their ends, while the evaluator is killed 100 times at any step and two evaluators
// look at once: each opens one incident, and is told once.
import { sql } from 'drizzle-orm'
import { lookAtAlerts } from '../../../../src/hosting/alerts/sweep.ts'
import { createSealer } from '../../../../src/kernel/crypto/crypto.ts'
import { runAsSystem } from '../../../../src/kernel/db/db.ts'
import { createClock } from '../../../../src/platform.ts'
import { makeRandom } from '../../support/random.ts'
import { createDeployments, makeClient } from '../../support/retrying-client.ts'
import { makeLife } from '../../support/short-life.ts'
import { createQuietApp, openTestbed, SETTINGS } from '../../support/testbed.ts'
import { check, note, optionOf } from '../../support/trial.ts'

const CAUSES = Number(optionOf('causes') ?? 300)
const KILLS = Number(optionOf('kills') ?? 100)
const SEED = Number(optionOf('seed') ?? 1)
const MAX_STEPS = 8
const MINUTE = 60_000

export async function killEvaluators(): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  const defer = (end: () => unknown) => cleanup.defer(async () => void (await end()))
  const random = makeRandom(SEED)
  const testbed = await openTestbed({ defer, seed: SEED, share: 1, progress: () => {} })
  const { app, system } = testbed.pools.connections
  const settings = { ...SETTINGS, DATABASE_URL: testbed.url }
  let ahead = 0
  type Guard = ReturnType<typeof makeLife>['guard']
  const openServices = (guard: Guard) => {
    const { config, platform, database, traces, logs, shareGroups } = createQuietApp(settings, {
      clock: createClock(() => ahead),
      databaseConnections: { app: guard(app), system: guard(system) },
    })
    return { config, platform, database, traces, logs, shareGroups, sealer: createSealer(config.sealingKeys) }
  }
  const endless = openServices(send => send)
  const { api_key, tenant_id } = (await testbed.tenant()) as { api_key: string; tenant_id: string }
  const client = makeClient(createQuietApp(settings, { databaseConnections: { app, system } }).fetch, api_key)
  const ids = await createDeployments(client, CAUSES)
  await runAsSystem(
    endless.database,
    sql`
      insert into channels (organization_id, tenant_id, name, kind, config, credentials, is_default)
      select w.organization_id, w.id, 'trial', 'webhook', '{}', '', true
      from workspaces w
      where w.id = ${tenant_id}::uuid`,
  )
  const signal = (type: string, id: string) =>
    runAsSystem(
      endless.database,
      sql`select set_config('app.clock_offset', ${`${ahead} ms`}, true)`,
      sql`
        select signal_alert_rules(
          ${tenant_id}::uuid, ${type}, ${id}::uuid, '{"message": "It exits with 137."}'::json, clock()
        )`,
    )

  let killed = 0
  const live = async () => {
    const lives = [0, 1].map(() => makeLife(1 + Math.floor(random() * MAX_STEPS), random() < 0.5))
    await Promise.all(lives.map(({ guard }) => lookAtAlerts(openServices(guard)).catch(() => {})))
    killed += lives.filter(life => life.isOver()).length
  }
  const perLife = Math.ceil((CAUSES * 2) / KILLS)
  for (const type of ['deployment.crash_looping', 'deployment.healthy']) {
    for (const [i, id] of ids.entries()) {
      await signal(type, id)
      if (i % perLife === perLife - 1) await live()
    }
    await lookAtAlerts(endless)
    ahead += 2 * MINUTE
    await lookAtAlerts(endless)
  }

  const read = async (query: ReturnType<typeof sql>) =>
    Number(((await runAsSystem(endless.database, query)) as unknown as unknown[][][])[0]![0]![0])
  const opened = await read(sql`select count(*) from incidents where tenant_id = ${tenant_id}::uuid`)
  const resolved = await read(sql`select count(*) from incidents where state = 'resolved' and reopened = 0`)
  const told = (phase: string) => read(sql`select count(*) from notices where phase = ${phase}`)
  const events = (type: string) => read(sql`select count(*) from events where type = ${type}`)
  note(`${CAUSES} crash loops and their ends; ${killed} evaluators killed, two at a time`)
  check('each opens one incident', opened === CAUSES, `${opened}`)
  check('each is resolved', resolved === CAUSES, `${resolved}`)
  check('each is told once, and its end once', (await told('open')) === CAUSES && (await told('close')) === CAUSES)
  check(
    'each has one event, and one of its end',
    (await events('incident.opened')) === CAUSES && (await events('incident.resolved')) === CAUSES,
  )
}
