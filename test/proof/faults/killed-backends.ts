// R4: a second connection kills database backends in the middle of their transactions.
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { formatBalance, isBalanced, openLedger } from '../support/ledger.ts'
import { makeClient, runWorkers } from '../support/retrying-client.ts'
import { openTestbed, scaleCount, type Trial, type TrialContext } from '../support/testbed.ts'

/**
 * A backend that executes the statement of a patch. Postgres shows only the first 1024 bytes of a statement, so the
 * pattern has to be at its beginning.
 */
const KILL_BACKEND = `
  select pid, pg_terminate_backend(pid) as killed
  from pg_stat_activity
  where backend_type = 'client backend' and pid <> pg_backend_pid() and datname = current_database()
    and state = 'active'
    and query ~ 'from patch_deployment\\('
  limit 1`

export default {
  id: 'R4',
  what: 'database backends killed during a patch',
  target: '0 lost, 0 double with 1,000 killed',
  async run(context: TrialContext) {
    const testbed = await openTestbed(context)
    const client = makeClient(testbed.app.fetch, (await testbed.tenant()).api_key)
    const ledger = await openLedger(client)
    const killer = new pg.Client({ connectionString: testbed.url })
    killer.on('error', () => {})
    await killer.connect()
    context.defer(() => killer.end())

    const kills = scaleCount(context, 1000)
    // A set, because a backend may be listed once more after it was killed.
    const killed = new Set<number>()
    let over = false
    const kill = async () => {
      try {
        while (killed.size < kills) {
          const { rows } = await killer.query(KILL_BACKEND)
          for (const { pid } of rows.filter(row => row.killed)) killed.add(pid)
          context.progress(`${killed.size} of ${kills} backends killed`)
          await delay(5)
        }
      } finally {
        over = true
      }
    }
    const write = runWorkers(8, async () => {
      while (!over) await ledger.patch()
    })
    await Promise.all([kill(), write])
    const balance = await ledger.balance(testbed.url)
    const unexpected = client.tally.listUnexpected(
      '200',
      '201',
      '503 database_unavailable',
      '409 idempotency_in_flight',
    )
    return {
      measured: `${formatBalance(balance)}; ${killed.size} backends killed`,
      met: isBalanced(balance) && unexpected.length === 0 && client.tally.withoutRetryAfter === 0,
      notes: [`answers: ${client.tally}`],
      figures: { ...balance, killed: killed.size },
    }
  },
} satisfies Trial
