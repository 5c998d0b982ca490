// R3: the reply is cut after the commit, by a proxy between the app and the gateway; the client says it again with the same key.
import { createApp } from '../src/app.ts'
import { readConfig } from '../src/env.ts'
import { makeClient, runWorkers } from './support/client.ts'
import { openCuttingProxy } from './support/cutting-proxy.ts'
import { formatBalance, isBalanced, openLedger } from './support/ledger.ts'
import { openTestbed, SETTINGS, SILENT_LOG, scaleCount, type Trial, type TrialContext } from './support/testbed.ts'

export default {
  id: 'R3',
  what: 'replies cut after the commit',
  target: '0 lost, 0 double, of 1,000 at least 300 ambiguous',
  async run(lab: TrialContext) {
    const scene = await openTestbed(lab)
    const cutter = await openCuttingProxy(lab, (await scene.gateway.listen()).url)
    const settings = {
      ...SETTINGS,
      PUBLIC_URL: 'http://slipway.test',
      DATABASE_URL: scene.gateway.connectionString,
      DATABASE_GATEWAY_URL: cutter.url,
    }
    const app = createApp(readConfig(settings, SILENT_LOG))
    const client = makeClient(app.fetch, (await scene.tenant()).api_key)
    const ledger = await openLedger(client)

    const cuts = scaleCount(lab, 1000)
    cutter.begin(lab.seed)
    await runWorkers(8, async () => {
      while (cutter.cuts.answered < cuts) {
        await ledger.patch()
        lab.progress(`${cutter.cuts.answered} of ${cuts} cut`)
      }
    })
    cutter.end()
    const balance = await ledger.balance(scene.url)
    const { answered, ambiguous, unsent } = cutter.cuts
    const odd = client.tally.listUnexpected('200', '201', '503 database_unavailable', '409 idempotency_in_flight')
    const enough = ambiguous >= Math.min(cuts, scaleCount(lab, 300)) && client.tally.replayed >= ambiguous
    return {
      measured: `${formatBalance(balance)}; ${ambiguous} of ${answered} cuts ambiguous`,
      met: isBalanced(balance) && odd.length === 0 && client.tally.withoutRetryAfter === 0 && enough,
      notes: [`${unsent} more were cut before they were sent; answers: ${client.tally}`],
      figures: { ...balance, ...cutter.cuts, replayed: client.tally.replayed },
    }
  },
} satisfies Trial
