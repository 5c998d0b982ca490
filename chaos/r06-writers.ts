// R6: many writers patch one deployment at the same time; each patch makes a revision.
import { clientOf, inParallel } from './support/client.ts'
import { counted, type Lab, openScene, type Trial } from './support/lab.ts'
import { even, openLedger, told } from './support/ledger.ts'

export default {
  id: 'R6',
  what: '8 writers × 250 patches on one deployment',
  target: 'numbers dense, 0 errors',
  async run(lab: Lab) {
    const scene = await openScene(lab)
    const client = clientOf(scene.app.fetch, (await scene.tenant()).api_key)
    const ledger = await openLedger(client, 1)
    const each = counted(lab, 250)
    await inParallel(8, async () => {
      for (let i = 0; i < each; i++) {
        await ledger.patch()
        lab.progress(`${ledger.acknowledged.size} of ${8 * each}`)
      }
    })
    const balance = await ledger.balance(scene.url)
    const odd = client.tally.besides('200', '201')
    return {
      measured: `${told(balance)}; ${balance.gaps ? 'NOT dense' : 'dense'}, ${odd.join(', ') || '0'} errors`,
      met: even(balance) && odd.length === 0 && balance.acknowledged === 8 * each,
      figures: balance,
    }
  },
} satisfies Trial
