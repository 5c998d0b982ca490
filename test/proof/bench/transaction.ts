// P6: a patch in one round trip against the same work as an ordinary transaction of eight, over a network. Both are
// requested over HTTP, each behind its own server; only the way to the database is long.
import { fileURLToPath } from 'node:url'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { SEALING_KEYS } from '../support/database.ts'
import { fetchFirst } from '../support/instance.ts'
import { addLatency } from '../support/latency-proxy.ts'
import { startProcess } from '../support/processes.ts'
import { findIdleDeployments, type SeededDatabase } from '../support/seeded-database.ts'
import { formatNumber, measureMedianMs, measureSlices, median, medianRatio } from '../support/statistics.ts'
import { serveWorkers } from '../support/workerd.ts'

const ROUND_TRIP_MS = 5
const REQUESTS = 20
const WARM_UP_REQUESTS = 100
const TARGET = 4
const BASELINE = fileURLToPath(new URL('baselines/fastify-patch.ts', import.meta.url))

export default {
  id: 'P6',
  what: `median latency of a patch in 8 round trips ÷ Slipway’s, at a ${ROUND_TRIP_MS} ms round trip`,
  target: `≥ ${TARGET}`,
  async run(context: BenchContext) {
    const few = await context.fewDeployments()
    const { modules } = await context.worker()
    const distant = few.bindings(await addLatency(context, few.gateway, ROUND_TRIP_MS))
    const { urls } = await serveWorkers(context, { slipway: { modules, bindings: distant } })
    const baseline = await startBaseline(context, few)
    const [ours, theirs] = await findIdleDeployments(few, 2)
    const headers = { 'X-Api-Key': few.api_key, 'Content-Type': 'application/json' }
    let values = 0
    const patch = (server: string, id = '') => {
      const body = JSON.stringify({ secrets: [{ name: 'TOKEN', value: `value ${values++}` }] })
      return fetch(`${server}/v2/deployments/${id}`, { method: 'PATCH', headers, body })
    }
    const candidates = {
      slipway: () => measureMedianMs(REQUESTS, () => patch(urls.slipway, ours)),
      ordinary: () => measureMedianMs(REQUESTS, () => patch(baseline, theirs)),
    }
    context.progress('warming up')
    await measureMedianMs(WARM_UP_REQUESTS, () => patch(urls.slipway, ours))
    await measureMedianMs(WARM_UP_REQUESTS, () => patch(baseline, theirs))
    const slices = await measureSlices(candidates, context.progress)
    const ratio = medianRatio(slices.ordinary, slices.slipway)
    const [slipway, ordinary] = [median(slices.slipway), median(slices.ordinary)]
    return {
      measured: formatNumber(ratio),
      met: ratio >= TARGET,
      notes: [`Slipway ${formatNumber(slipway, 1)} ms, the transaction behind Fastify ${formatNumber(ordinary, 1)} ms`],
      figures: { ratio, p50: slices },
    }
  },
} satisfies Bench

/** The server of the ordinary transaction, as far from the database as ours. */
async function startBaseline(context: BenchContext, { url }: SeededDatabase): Promise<string> {
  const port = await findFreePort()
  const proxy = new URL(await addLatency(context, url, ROUND_TRIP_MS))
  const distant = Object.assign(new URL(url), { port: proxy.port }).toString()
  const [, sealingKey] = SEALING_KEYS.split(':')
  const { broken } = startProcess(context, process.execPath, [
    BASELINE,
    JSON.stringify({ port, url: distant, sealingKey }),
  ])
  const server = `http://127.0.0.1:${port}`
  await fetchFirst({ url: server, broken }, '/healthz')
  return server
}
