// R5: Postgres, with its durability on, is ended as by a crash under load and started again on the same folder.
import { setTimeout as delay } from 'node:timers/promises'
import { makeClient, runWorkers } from './support/client.ts'
import { formatBalance, isBalanced, openLedger } from './support/ledger.ts'
import { openTestbed, scaleCount, type Trial, type TrialContext } from './support/testbed.ts'

export default {
  id: 'R5',
  what: 'immediate restarts of Postgres under load',
  target: '0 acknowledged writes lost in 10; only 2xx or 503 with Retry-After',
  async run(lab: TrialContext) {
    const scene = await openTestbed(lab, { durable: true })
    const client = makeClient(scene.app.fetch, (await scene.tenant()).api_key)
    const ledger = await openLedger(client)
    const restarts = scaleCount(lab, 10)
    let over = false
    const load = runWorkers(8, async () => {
      while (!over) await ledger.patch()
    })
    try {
      for (let i = 1; i <= restarts; i++) {
        lab.progress(`restart ${i} of ${restarts}`)
        await delay(500)
        await scene.crash(i % 2 ? 'SIGQUIT' : 'SIGKILL')
        await scene.restart()
      }
      await delay(500)
    } finally {
      over = true
      await load
    }
    const balance = await ledger.balance(scene.url)
    const odd = client.tally.listUnexpected('200', '201', '503 database_unavailable')
    return {
      measured: `${formatBalance(balance)}; ${restarts} restarts`,
      met: isBalanced(balance) && odd.length === 0 && client.tally.withoutRetryAfter === 0,
      notes: [`answers: ${client.tally}`],
      figures: { ...balance, restarts },
    }
  },
} satisfies Trial
