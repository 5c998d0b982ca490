// R6: many writers patch one deployment at the same time; each patch creates a revision.

import { formatBalance, isBalanced, openLedger } from '../support/ledger.ts'
import { makeClient, runWorkers } from '../support/retrying-client.ts'
import { openTestbed, scaleCount, type Trial, type TrialContext } from '../support/testbed.ts'

export default {
  id: 'R6',
  what: '8 writers × 250 patches on one deployment',
  target: 'revision numbers without gaps, 0 errors',
  async run(context: TrialContext) {
    const testbed = await openTestbed(context)
    const client = makeClient(testbed.app.fetch, (await testbed.tenant()).api_key)
    const ledger = await openLedger(client, 1)
    const each = scaleCount(context, 250)
    await runWorkers(8, async () => {
      for (let i = 0; i < each; i++) {
        await ledger.patch()
        context.progress(`${ledger.acknowledged.size} of ${8 * each}`)
      }
    })
    const balance = await ledger.balance(testbed.url)
    const unexpected = client.tally.listUnexpected('200', '201')
    return {
      measured: [
        formatBalance(balance),
        `${balance.gaps ? 'gaps' : 'no gaps'}, ${unexpected.join(', ') || '0'} errors`,
      ].join('; '),
      met: isBalanced(balance) && unexpected.length === 0 && balance.acknowledged === 8 * each,
      figures: balance,
    }
  },
} satisfies Trial
