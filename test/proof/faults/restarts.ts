// R5: Postgres, with durability on, crashes under load and restarts on the same data.
import { setTimeout as delay } from 'node:timers/promises'
import { formatBalance, isBalanced, openLedger } from '../support/ledger.ts'
import { makeClient, runWorkers } from '../support/retrying-client.ts'
import { openServerTestbed, scaleCount, type Trial, type TrialContext } from '../support/testbed.ts'

export default {
  id: 'R5',
  what: 'Postgres crashes and restarts under load',
  target: '0 acknowledged writes lost in 10 restarts; only 2xx or 503 with Retry-After',
  async run(context: TrialContext) {
    const testbed = await openServerTestbed(context, { durable: true })
    const client = makeClient(testbed.app.fetch, (await testbed.tenant()).api_key)
    const ledger = await openLedger(client)
    const restarts = scaleCount(context, 10)
    let over = false
    const load = runWorkers(8, async () => {
      while (!over) await ledger.patch()
    })
    try {
      for (let i = 1; i <= restarts; i++) {
        context.progress(`restart ${i} of ${restarts}`)
        await delay(500)
        await testbed.crash(i % 2 ? 'SIGQUIT' : 'SIGKILL')
        await testbed.restart()
      }
      await delay(500)
    } finally {
      over = true
      await load
    }
    const balance = await ledger.balance(testbed.url)
    const unexpected = client.tally.listUnexpected('200', '201', '503 database_unavailable')
    return {
      measured: `${formatBalance(balance)}; ${restarts} restarts`,
      met: isBalanced(balance) && unexpected.length === 0 && client.tally.withoutRetryAfter === 0,
      notes: [`answers: ${client.tally}`],
      figures: { ...balance, restarts },
    }
  },
} satisfies Trial
