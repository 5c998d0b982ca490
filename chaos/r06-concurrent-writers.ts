// R6: many writers patch one deployment at the same time; each patch makes a revision.
import { makeClient, runWorkers } from './support/client.ts'
import { formatBalance, isBalanced, openLedger } from './support/ledger.ts'
import { openTestbed, scaleCount, type Trial, type TrialContext } from './support/testbed.ts'

export default {
  id: 'R6',
  what: '8 writers × 250 patches on one deployment',
  target: 'numbers dense, 0 errors',
  async run(lab: TrialContext) {
    const scene = await openTestbed(lab)
    const client = makeClient(scene.app.fetch, (await scene.tenant()).api_key)
    const ledger = await openLedger(client, 1)
    const each = scaleCount(lab, 250)
    await runWorkers(8, async () => {
      for (let i = 0; i < each; i++) {
        await ledger.patch()
        lab.progress(`${ledger.acknowledged.size} of ${8 * each}`)
      }
    })
    const balance = await ledger.balance(scene.url)
    const odd = client.tally.listUnexpected('200', '201')
    return {
      measured: `${formatBalance(balance)}; ${balance.gaps ? 'NOT dense' : 'dense'}, ${odd.join(', ') || '0'} errors`,
      met: isBalanced(balance) && odd.length === 0 && balance.acknowledged === 8 * each,
      figures: balance,
    }
  },
} satisfies Trial
