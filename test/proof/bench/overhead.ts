// P1: the CPU time of everything around a request, on a route that does nothing.

import type { Bench, BenchContext } from '../support/bench-context.ts'
import { CPU_TIMES_MISSING, hasCpuTimes, readCpuMs } from '../support/cpu.ts'
import { SETTINGS } from '../support/database.ts'
import { cpuOf, describeCpu, loadTool, measureLoad, rpsOf } from '../support/load.ts'
import { formatNumber, measureSlices, median, medianRatio } from '../support/statistics.ts'
import { buildWorker, serveWorkers, type WorkerDefinition } from '../support/workerd.ts'

const SECONDS = 1
const TARGET = 1.2
/** `/healthz` does not use the database. */
const bindings = { ...SETTINGS, DATABASE_URL: 'postgresql://nobody@localhost/none' }

export default {
  id: 'P1',
  what: 'CPU of /healthz ÷ of a hand-written Worker with the same headers and log line',
  target: `≤ ${TARGET}`,
  async run(context: BenchContext) {
    if (!hasCpuTimes) return CPU_TIMES_MISSING
    const slipway = await serve(context, { modules: (await context.worker()).modules, bindings })
    const response = await fetch(slipway.url)
    const copied = { HEADERS: JSON.stringify(Object.fromEntries(response.headers)), BODY: await response.text() }
    const { modules } = await buildWorker(context, 'test/proof/bench/workers/by-hand.ts')
    const byHand = await serve(context, { modules, bindings: copied })
    const candidates = { slipway: slipway.load, byHand: byHand.load }
    context.progress('warming up')
    for (const candidate of Object.values(candidates)) await candidate()
    const slices = await measureSlices(candidates, context.progress)
    const ratio = medianRatio(cpuOf(slices.slipway, 'workerd'), cpuOf(slices.byHand, 'workerd'))
    const rates = [slices.slipway, slices.byHand].map(one => formatNumber(median(rpsOf(one)), 0))
    return {
      measured: formatNumber(ratio),
      met: ratio <= TARGET,
      notes: [
        `Slipway ${describeCpu(slices.slipway)}, by hand ${describeCpu(slices.byHand)}`,
        `${rates.join(' and ')} requests per second, load by ${loadTool}`,
      ],
      figures: { ratio, tool: loadTool, slices },
    }
  },
} satisfies Bench

/** In a process of its own. */
async function serve(context: BenchContext, worker: WorkerDefinition) {
  const { urls, pid } = await serveWorkers(context, { worker })
  const url = `${urls.worker}/healthz`
  return { url, load: () => measureLoad(context, { url, seconds: SECONDS }, { workerd: () => readCpuMs(pid) }) }
}
