// P10: what a small tenant notices of a big one that pages deep: as often as the rate limit admits, and, for
// comparison, without a pause.
import { setTimeout as delay } from 'node:timers/promises'
import { readConfig } from '../../../src/env.ts'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { formatNumber, measureMedianMs, measureSlices, median, medianRatio } from '../support/statistics.ts'
import { serveWorkers } from '../support/workerd.ts'

const REQUESTS = 200
const TARGET = 1.5

export default {
  id: 'P10',
  what: 'median latency of a small tenant while a big one pages deep ÷ while that is idle',
  target: `≤ ${TARGET}`,
  async run(context: BenchContext) {
    const seeded = await context.deployments()
    const { RATE_LIMIT_PER_MINUTE: _, ...settings } = seeded.bindings()
    const admitted = readConfig(settings).rateLimits.key / 60
    const { modules } = await context.worker()
    const { urls } = await serveWorkers(context, { slipway: { modules, bindings: seeded.bindings() } })
    const list = `${urls.slipway}/v2/deployments`
    const offset = Math.floor(seeded.counts.largest * 0.9)
    const get = (url: string, key: string) => fetch(url, { headers: { 'X-Api-Key': key } })
    const idle = () => measureMedianMs(REQUESTS, () => get(list, seeded.small_tenant_key))
    const deep = () => measureMedianMs(1, () => get(`${list}?offset=${offset}`, seeded.api_key))
    const besideLoad = (perSecond: number) => async () => {
      let over = false
      const paging = async () => {
        while (!over) await Promise.all([deep(), delay(1000 / perSecond)])
      }
      const load = paging()
      return idle().finally(() => {
        over = true
        return load
      })
    }
    const candidates = { idle, busy: besideLoad(admitted), unbounded: besideLoad(Infinity) }
    context.progress('warming up')
    for (const candidate of Object.values(candidates)) await candidate()
    const slices = await measureSlices(candidates, context.progress)
    const ratio = medianRatio(slices.busy, slices.idle)
    return {
      measured: formatNumber(ratio),
      met: ratio <= TARGET,
      notes: [
        `idle ${formatNumber(median(slices.idle), 1)} ms, busy ${formatNumber(median(slices.busy), 1)} ms`,
        `the load: offset ${offset}, ${formatNumber(admitted, 0)} times per second, all that the rate limit admits`,
        `beside one connection that never pauses: ${formatNumber(medianRatio(slices.unbounded, slices.idle))}`,
      ],
      figures: { ratio, p50: slices },
    }
  },
} satisfies Bench
