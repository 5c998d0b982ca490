// P3: the list against what a Node team would write: Fastify and node-postgres, with the same SQL and Postgres.
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { findFreePort } from '../src/postgres/free-port.ts'
import type { Bench, BenchContext } from './support/bench-context.ts'
import { loadTool, measureRps } from './support/load.ts'
import { startProcess } from './support/processes.ts'
import { captureStatements } from './support/seeded-database.ts'
import { formatNumber, measureSlices, median, medianRatio } from './support/statistics.ts'
import { serveWorkers } from './support/workerd.ts'

const SLICES = 5
const SECONDS = 2
const TARGET = 0.8
const BASELINE = fileURLToPath(new URL('baselines/fastify-list.ts', import.meta.url))

export default {
  id: 'P3',
  what: 'requests per second of the same list ÷ Fastify with node-postgres',
  target: `≥ ${TARGET}`,
  async run(context: BenchContext) {
    const seeded = await context.seeded()
    const { code } = await context.worker()
    const { urls } = await serveWorkers(context, { slipway: { code, bindings: seeded.bindings() } })
    const port = await findFreePort()
    const statements = await captureStatements(seeded, '/v2/deployments')
    const { broken } = startProcess(context, process.execPath, [
      BASELINE,
      JSON.stringify({ port, url: seeded.url, statements }),
    ])
    const baseline = `http://127.0.0.1:${port}`
    await Promise.race([waitUntilHealthy(`${baseline}/healthz`), broken])
    const headers = { 'X-Api-Key': seeded.api_key }
    const candidates = {
      slipway: () => measureRps(context, { url: `${urls.slipway}/v2/deployments`, seconds: SECONDS, headers }),
      fastify: () => measureRps(context, { url: `${baseline}/v2/deployments`, seconds: SECONDS }),
    }
    context.progress('warming up')
    for (const candidate of Object.values(candidates)) await candidate()
    const slices = await measureSlices(SLICES, candidates, context.progress)
    const ratio = medianRatio(slices.slipway, slices.fastify)
    const [slipway, fastify] = [median(slices.slipway), median(slices.fastify)]
    return {
      measured: formatNumber(ratio),
      met: ratio >= TARGET,
      notes: [
        `${formatNumber(slipway, 0)} requests per second, Fastify ${formatNumber(fastify, 0)}, load by ${loadTool}`,
      ],
      figures: { ratio, tool: loadTool, rps: slices },
    }
  },
} satisfies Bench

async function waitUntilHealthy(url: string): Promise<void> {
  while (!(await fetch(url).catch(() => undefined))?.ok) await delay(25)
}
