// P3: the list against what a Node team would write: Fastify and node-postgres, the same SQL, the same Postgres.
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
  what: 'the same list, rps ÷ Fastify and node-postgres',
  target: `≥ ${TARGET}`,
  async run(lab: BenchContext) {
    const seeded = await lab.seeded()
    const { code } = await lab.worker()
    const { urls } = await serveWorkers(lab, { slipway: { code, bindings: seeded.bindings() } })
    const port = await findFreePort()
    const statements = await captureStatements(seeded, '/v2/deployments')
    const { broken } = startProcess(lab, process.execPath, [
      BASELINE,
      JSON.stringify({ port, url: seeded.url, statements }),
    ])
    const theirs = `http://127.0.0.1:${port}`
    await Promise.race([waitUntilHealthy(`${theirs}/healthz`), broken])
    const headers = { 'X-Api-Key': seeded.api_key }
    const things = {
      slipway: () => measureRps(lab, { url: `${urls.slipway}/v2/deployments`, seconds: SECONDS, headers }),
      fastify: () => measureRps(lab, { url: `${theirs}/v2/deployments`, seconds: SECONDS }),
    }
    lab.progress('warming up')
    for (const thing of Object.values(things)) await thing()
    const slices = await measureSlices(SLICES, things, lab.progress)
    const figure = medianRatio(slices.slipway, slices.fastify)
    return {
      measured: formatNumber(figure),
      met: figure >= TARGET,
      notes: [
        `${formatNumber(median(slices.slipway), 0)} requests a second, theirs ${formatNumber(median(slices.fastify), 0)}, by ${loadTool}`,
      ],
      figures: { ratio: figure, tool: loadTool, rps: slices },
    }
  },
} satisfies Bench

async function waitUntilHealthy(url: string): Promise<void> {
  while (!(await fetch(url).catch(() => undefined))?.ok) await delay(25)
}
