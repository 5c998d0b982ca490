// R3: a proxy between the app and the gateway cuts replies after the commit; the client retries with the same
// idempotency key.
import { ROWS_PATH } from '../../../src/kernel/db/gateway.ts'
import { openCuttingProxy } from '../support/cutting-proxy.ts'
import { formatBalance, isBalanced, openLedger } from '../support/ledger.ts'
import { makeClient, runWorkers } from '../support/retrying-client.ts'
import { createQuietApp, openTestbed, SETTINGS, scaleCount, type Trial, type TrialContext } from '../support/testbed.ts'

export default {
  id: 'R3',
  what: 'replies cut after the commit, client retries',
  target: '0 lost, 0 double; of 1,000 cuts at least 300 ambiguous',
  async run(context: TrialContext) {
    const testbed = await openTestbed(context)
    const proxy = await openCuttingProxy(context, (await testbed.gateway.listen()).url)
    const settings = {
      ...SETTINGS,
      PUBLIC_URL: 'http://slipway.test',
      DATABASE_URL: testbed.gateway.connectionString,
      DATABASE_GATEWAY_URL: proxy.url + ROWS_PATH,
    }
    const app = createQuietApp(settings)
    const client = makeClient(app.fetch, (await testbed.tenant()).api_key)
    const ledger = await openLedger(client)

    const cuts = scaleCount(context, 1000)
    proxy.begin(context.seed)
    await runWorkers(8, async () => {
      while (proxy.cuts.answered < cuts) {
        await ledger.patch()
        context.progress(`${proxy.cuts.answered} of ${cuts} replies cut`)
      }
    })
    proxy.end()
    const balance = await ledger.balance(testbed.url)
    const { answered, ambiguous, unsent } = proxy.cuts
    const unexpected = client.tally.listUnexpected(
      '200',
      '201',
      '503 database_unavailable',
      '409 idempotency_in_flight',
    )
    const wasAmbiguousEnough =
      ambiguous >= Math.min(cuts, scaleCount(context, 300)) && client.tally.replayed >= ambiguous
    return {
      measured: `${formatBalance(balance)}; ${ambiguous} of ${answered} cuts ambiguous`,
      met: isBalanced(balance) && unexpected.length === 0 && client.tally.withoutRetryAfter === 0 && wasAmbiguousEnough,
      notes: [`${unsent} more requests were cut before they were sent`, `answers: ${client.tally}`],
      figures: { ...balance, ...proxy.cuts, replayed: client.tally.replayed },
    }
  },
} satisfies Trial
