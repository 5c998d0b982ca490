// R18: runs are ingested while database backends are killed and replies are cut after the commit. Post and patch of a
// run travel in different requests, in any order, and each request is retried until it is answered. The app sends them
// with Neon's driver, R3 without.
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { createSealer } from '../../../src/kernel/crypto/crypto.ts'
import { type Ctx, createKeylessCaller } from '../../../src/kernel/http/context.ts'
import { isDatabaseUnavailable } from '../../../src/kernel/http/errors.ts'
import type { RunOperation } from '../../../src/tracing/store/store.ts'
import { newRoot, patch, post } from '../../support/trace-operations.ts'
import { openCuttingProxy } from '../support/cutting-proxy.ts'
import { makePicker, makeRandom } from '../support/random.ts'
import { runWorkers } from '../support/retrying-client.ts'
import { createQuietApp, openTestbed, SETTINGS, scaleCount, type Trial, type TrialContext } from '../support/testbed.ts'

const WORKERS = 8
const RUNS_PER_BATCH = 10
/** A backend that stores runs. Postgres shows only the beginning of a statement. */
const KILL_BACKEND = `
  select pid, pg_terminate_backend(pid) as killed
  from pg_stat_activity
  where backend_type = 'client backend' and pid <> pg_backend_pid() and datname = current_database()
    and state = 'active'
    and query ~ '^\\s*with given as'
  limit 1`
/** Counts the runs of a workspace: rows, different ids, runs with everything that was sent, and counted runs. */
const BALANCE = `
  select
    count(*)::int as rows,
    count(distinct id)::int as runs,
    count(*) filter (where status = 'error' and name = 'step' and outputs = inputs)::int as complete,
    (select sum(runs)::int from session_minutes where tenant_id = $1) as counted,
    (select sum(errors)::int from session_minutes where tenant_id = $1) as counted_errors
  from runs
  where tenant_id = $1`

export default {
  id: 'R18',
  what: 'runs ingested while backends are killed and replies cut',
  target: '0 lost, 0 double with 500 killed and 500 cut',
  async run(context: TrialContext) {
    const testbed = await openTestbed(context)
    const proxy = await openCuttingProxy(context, (await testbed.gateway.listen()).url)
    const settings = {
      ...SETTINGS,
      DATABASE_URL: testbed.gateway.connectionString,
      DATABASE_SYSTEM_URL: testbed.gateway.systemConnectionString,
      DATABASE_GATEWAY_URL: proxy.url,
    }
    const { config, platform, database, traces, logs, shareGroups } = createQuietApp(settings)
    const { organization_id, tenant_id } = await testbed.tenant()
    const actor = { kind: 'cron', id: null, organization: organization_id, tenant: tenant_id } as const
    const services = { config, platform, database, sealer: createSealer(config.sealingKeys), traces, logs, shareGroups }
    const ctx: Ctx = { ...createKeylessCaller(services, actor, 'r18', SETTINGS.PUBLIC_URL), permission: 'runs:create' }

    let retries = 0
    async function appendUntilStored(operations: RunOperation[]): Promise<void> {
      for (;;) {
        try {
          return await traces.append(ctx, operations)
        } catch (error) {
          if (!isDatabaseUnavailable(error)) throw error
          retries++
          await delay(5)
        }
      }
    }

    const killer = new pg.Client({ connectionString: testbed.url })
    killer.on('error', () => {})
    await killer.connect()
    context.defer(() => killer.end())
    const [kills, cuts] = [scaleCount(context, 500), scaleCount(context, 500)]
    const killed = new Set<number>()
    let isOver = false
    const kill = async () => {
      try {
        while (killed.size < kills || proxy.cuts.ambiguous < cuts) {
          if (killed.size < kills) {
            const { rows } = await killer.query(KILL_BACKEND)
            for (const { pid } of rows.filter(row => row.killed)) killed.add(pid)
          }
          context.progress(`${killed.size} of ${kills} killed, ${proxy.cuts.ambiguous} of ${cuts} cut`)
          await delay(20)
        }
      } finally {
        isOver = true
      }
    }

    let sent = 0
    proxy.begin(context.seed)
    const ingest = runWorkers(WORKERS, async worker => {
      const random = makeRandom(context.seed + worker)
      const pick = makePicker(random)
      while (!isOver) {
        const places = Array.from({ length: RUNS_PER_BATCH }, () => newRoot(new Date().toISOString()))
        const project = () => ({ session_name: pick(['one', 'two']) })
        const batches = places.map(place => ({ place, session: project(), mark: `{"mark":"${place.id}"}` }))
        const posts = batches.map(({ place, session, mark }) =>
          post({ ...place, ...session, inputs: mark, outputs: '0' }),
        )
        const patches = batches.map(({ place, session, mark }) =>
          patch({ ...place, ...(random() < 0.5 ? session : {}), outputs: mark, error: 'boom' }),
        )
        const requests = [posts, patches]
        if (random() < 0.5) requests.reverse()
        if (random() < 0.5) await Promise.all(requests.map(appendUntilStored))
        else for (const request of requests) await appendUntilStored(request)
        sent += RUNS_PER_BATCH
      }
    })
    await Promise.all([kill(), ingest])
    proxy.end()
    // A request that was cut may leave patches waiting.
    await killer.query(`update waiting_patches set created_at = created_at - interval '2 minutes'`)
    await traces.expire(services)
    const { rows } = await killer.query(BALANCE, [tenant_id])
    const [balance] = rows as [Record<'rows' | 'runs' | 'complete' | 'counted' | 'counted_errors', number>]
    const lost = sent - balance.complete
    const double = balance.rows - balance.runs
    const isCounted = balance.counted === sent && balance.counted_errors === sent
    return {
      measured: `${sent} runs: ${lost} lost, ${double} double, ${isCounted ? 'all' : balance.counted} counted`,
      met: sent > 0 && lost === 0 && double === 0 && balance.rows === sent && isCounted,
      notes: [
        `${killed.size} backends killed, ${proxy.cuts.ambiguous} replies cut after the commit, ${retries} retries`,
      ],
      figures: { ...balance, sent, killed: killed.size, ...proxy.cuts, retries },
    }
  },
} satisfies Trial
