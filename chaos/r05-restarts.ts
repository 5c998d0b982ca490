// R5: Postgres, with its durability on, is ended as by a crash under load and started again on the same folder.
import { setTimeout as delay } from 'node:timers/promises'
import { clientOf, inParallel } from './support/client.ts'
import { counted, type Lab, openScene, type Trial } from './support/lab.ts'
import { even, openLedger, told } from './support/ledger.ts'

export default {
  id: 'R5',
  what: 'immediate restarts of Postgres under load',
  target: '0 acknowledged writes lost in 10; only 2xx or 503 with Retry-After',
  async run(lab: Lab) {
    const scene = await openScene(lab, { durable: true })
    const client = clientOf(scene.app.fetch, (await scene.tenant()).api_key)
    const ledger = await openLedger(client)
    const restarts = counted(lab, 10)
    let over = false
    const load = inParallel(8, async () => {
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
    const odd = client.tally.besides('200', '201', '503 database_unavailable')
    return {
      measured: `${told(balance)}; ${restarts} restarts`,
      met: even(balance) && odd.length === 0 && client.tally.rude === 0,
      notes: [`answers: ${client.tally}`],
      figures: { ...balance, restarts },
    }
  },
} satisfies Trial
