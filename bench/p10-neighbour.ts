// P10: what a small tenant notices of a big one that pages deep.
import { bootstrap } from '../src/access/bootstrap.ts'
import { hosted } from '../src/host/node.ts'
import { SEALING_KEYS } from './support/database.ts'
import { fixed, inTurn, median, p50, ratio } from './support/figures.ts'
import type { Bench, Lab } from './support/lab.ts'
import { rps } from './support/load.ts'
import { serve } from './support/workerd.ts'

const SLICES = 7
const REQUESTS = 60
const TARGET = 1.5

export default {
  id: 'P10',
  what: 'a small tenant’s p50 while a big one pages deep ÷ idle',
  target: `≤ ${TARGET}`,
  async run(lab: Lab) {
    const seeded = await lab.seeded()
    const host = hosted({ SEALING_KEYS, DATABASE_URL: seeded.url }, { log: () => {} })
    const small = await bootstrap(host.app.database, { organization: 'Seed', workspace: 'Seed 900' })
    await host.close()
    const { code } = await lab.worker()
    const { urls } = await serve(lab, { slipway: { code, bindings: seeded.bindings() } })
    const list = `${urls.slipway}/v2/deployments`
    const headers = { 'X-Api-Key': small.api_key }
    const idle = () => p50(REQUESTS, () => fetch(list, { headers }))
    const offset = Math.floor(seeded.counts.largest * 0.9)
    const rates: number[] = []
    const busy = async () => {
      const deep = { url: `${list}?offset=${offset}`, seconds: 1, connections: 1 }
      const load = rps(lab, { ...deep, headers: { 'X-Api-Key': seeded.api_key } })
      return idle().finally(async () => rates.push(await load))
    }
    lab.progress('warming up')
    await busy()
    const slices = await inTurn(SLICES, { idle, busy }, lab.progress)
    const figure = ratio(slices.busy, slices.idle)
    return {
      measured: fixed(figure),
      met: figure <= TARGET,
      notes: [
        `${fixed(median(slices.idle), 1)} ms idle, ${fixed(median(slices.busy), 1)} ms beside one connection at offset ${offset}`,
        `that asks ${fixed(median(rates), 0)} times a second without a pause; the rate limit, off here, admits a key 20 by default`,
      ],
      figures: { ratio: figure, p50: slices },
    }
  },
} satisfies Bench
