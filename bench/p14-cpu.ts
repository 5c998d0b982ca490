// P14: the processor time that a list costs in the Worker, whatever waits besides.
import { readdirSync, readFileSync } from 'node:fs'
import type { Bench, BenchContext } from './support/bench-context.ts'
import { measureRps } from './support/load.ts'
import { formatNumber, measureSlices, median } from './support/statistics.ts'
import { serveWorkers } from './support/workerd.ts'

const SLICES = 5
const SECONDS = 2
/** Of the kernel's clock, on every Linux of today. */
const TICK_MS = 10
const TARGETS = { 20: 0.6, 100: 2.5 }

export default {
  id: 'P14',
  what: 'processor time per request of workerd: list 20; list 100',
  target: `≤ ${TARGETS[20]} ms; ≤ ${TARGETS[100]} ms`,
  async run(lab: BenchContext) {
    if (process.platform !== 'linux')
      return { measured: 'skipped', met: false, skipped: true, notes: ['needs /proc, which only Linux has'] }
    const seeded = await lab.seeded()
    const { code } = await lab.worker()
    const { urls, pid } = await serveWorkers(lab, { slipway: { code, bindings: seeded.bindings() } })
    const headers = { 'X-Api-Key': seeded.api_key }
    const list = (limit: number) => async () => {
      const before = readCpuMs(pid)
      const url = `${urls.slipway}/v2/deployments?limit=${limit}`
      const rate = await measureRps(lab, { url, seconds: SECONDS, connections: 4, headers })
      return (readCpuMs(pid) - before) / (rate * SECONDS)
    }
    const things = { twenty: list(20), hundred: list(100) }
    lab.progress('warming up')
    for (const thing of Object.values(things)) await thing()
    const slices = await measureSlices(SLICES, things, lab.progress)
    const [twenty, hundred] = [median(slices.twenty), median(slices.hundred)]
    return {
      measured: `${formatNumber(twenty)} ms; ${formatNumber(hundred)} ms`,
      met: twenty <= TARGETS[20] && hundred <= TARGETS[100],
      figures: { twenty, hundred, ms: slices },
    }
  },
} satisfies Bench

/** Milliseconds of all processes of a group. */
function readCpuMs(group: number): number {
  const ticks = readdirSync('/proc').map(name => {
    try {
      // The name in parentheses may hold anything.
      const fields = readFileSync(`/proc/${Number(name)}/stat`, 'utf8')
        .split(') ')
        .at(-1)!
        .split(' ')
      return Number(fields[2]) === group ? Number(fields[11]) + Number(fields[12]) : 0
    } catch {
      return 0
    }
  })
  return ticks.reduce((sum, one) => sum + one, 0) * TICK_MS
}
