// P14: the CPU time that a list costs in the Worker, without the time that it waits.
import { readdirSync, readFileSync } from 'node:fs'
import type { Bench, BenchContext } from './support/bench-context.ts'
import { measureRps } from './support/load.ts'
import { formatNumber, measureSlices, median } from './support/statistics.ts'
import { serveWorkers } from './support/workerd.ts'

const SLICES = 5
const SECONDS = 2
/** USER_HZ is 100 on every current Linux. */
const TICK_MS = 10
const TARGETS = { 20: 0.6, 100: 2.5 }

export default {
  id: 'P14',
  what: 'CPU time of workerd per request: list 20; list 100',
  target: `≤ ${TARGETS[20]} ms; ≤ ${TARGETS[100]} ms`,
  async run(context: BenchContext) {
    if (process.platform !== 'linux')
      return { measured: 'skipped', met: false, skipped: true, notes: ['it reads /proc, which only Linux has'] }
    const seeded = await context.seeded()
    const { code } = await context.worker()
    const { urls, pid } = await serveWorkers(context, { slipway: { code, bindings: seeded.bindings() } })
    const headers = { 'X-Api-Key': seeded.api_key }
    const list = (limit: number) => async () => {
      const before = readCpuMs(pid)
      const url = `${urls.slipway}/v2/deployments?limit=${limit}`
      const rate = await measureRps(context, { url, seconds: SECONDS, connections: 4, headers })
      return (readCpuMs(pid) - before) / (rate * SECONDS)
    }
    const candidates = { twenty: list(20), hundred: list(100) }
    context.progress('warming up')
    for (const candidate of Object.values(candidates)) await candidate()
    const slices = await measureSlices(SLICES, candidates, context.progress)
    const [twenty, hundred] = [median(slices.twenty), median(slices.hundred)]
    return {
      measured: `${formatNumber(twenty)} ms; ${formatNumber(hundred)} ms`,
      met: twenty <= TARGETS[20] && hundred <= TARGETS[100],
      figures: { twenty, hundred, ms: slices },
    }
  },
} satisfies Bench

/** The CPU time of all processes of a group. */
function readCpuMs(group: number): number {
  const ticks = readdirSync('/proc').map(name => {
    try {
      // The second field is the program's name in parentheses, which may contain spaces.
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
