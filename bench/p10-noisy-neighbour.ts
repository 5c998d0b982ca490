// P10: what a small tenant notices of a big one that pages deep: as often as the rate limit lets it, and, beside it, without a pause.
import { setTimeout as delay } from 'node:timers/promises'
import { bootstrap } from '../src/access/bootstrap.ts'
import { createHost } from '../src/host/node.ts'
import type { Bench, BenchContext } from './support/bench-context.ts'
import { SEALING_KEYS } from './support/database.ts'
import { formatNumber, measureMedianMs, measureSlices, median, medianRatio } from './support/statistics.ts'
import { serveWorkers } from './support/workerd.ts'

const SLICES = 7
const REQUESTS = 200
const TARGET = 1.5

export default {
  id: 'P10',
  what: 'a small tenant’s p50 while a big one pages deep ÷ idle',
  target: `≤ ${TARGET}`,
  async run(lab: BenchContext) {
    const seeded = await lab.seeded()
    const host = createHost(
      { PUBLIC_URL: 'http://slipway.test', SEALING_KEYS, DATABASE_URL: seeded.url },
      { log: () => {} },
    )
    const small = await bootstrap(host.app.database, { organization: 'Seed', workspace: 'Seed 900' })
    const admitted = host.config.rateLimit / 60
    await host.close()
    const { code } = await lab.worker()
    // The limit itself is off: it would count the small tenant's requests, too, which come faster here than anybody's.
    const { urls } = await serveWorkers(lab, { slipway: { code, bindings: seeded.bindings() } })
    const list = `${urls.slipway}/v2/deployments`
    const offset = Math.floor(seeded.counts.largest * 0.9)
    const get = (url: string, key: string) => fetch(url, { headers: { 'X-Api-Key': key } })
    const idle = () => measureMedianMs(REQUESTS, () => get(list, small.api_key))
    const deep = () => measureMedianMs(1, () => get(`${list}?offset=${offset}`, seeded.api_key))
    const beside = (most: number) => async () => {
      let over = false
      const paging = async () => {
        while (!over) await Promise.all([deep(), delay(1000 / most)])
      }
      const load = paging()
      return idle().finally(() => {
        over = true
        return load
      })
    }
    const things = { idle, busy: beside(admitted), unbounded: beside(Infinity) }
    lab.progress('warming up')
    for (const thing of Object.values(things)) await thing()
    const slices = await measureSlices(SLICES, things, lab.progress)
    const figure = medianRatio(slices.busy, slices.idle)
    return {
      measured: formatNumber(figure),
      met: figure <= TARGET,
      notes: [
        `${formatNumber(median(slices.idle), 1)} ms idle, ${formatNumber(median(slices.busy), 1)} ms beside offset ${offset} asked for ${formatNumber(admitted, 0)} times a second, all that the rate limit admits`,
        `${formatNumber(medianRatio(slices.unbounded, slices.idle))} beside one connection that never pauses`,
      ],
      figures: { ratio: figure, p50: slices },
    }
  },
} satisfies Bench
