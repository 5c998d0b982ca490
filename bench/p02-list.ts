// P2: the list through workerd and the gateway, against what the database alone makes of the same statements.

import type { Bench, BenchContext } from './support/bench-context.ts'
import { loadTool, measureRps } from './support/load.ts'
import { hasPgbench, PGBENCH_MISSING, preparePgbench } from './support/pgbench.ts'
import { captureStatements, inlineParameters } from './support/seeded-database.ts'
import { formatNumber, measureSlices, median, medianRatio } from './support/statistics.ts'
import { serveWorkers } from './support/workerd.ts'

const SLICES = 5
const SECONDS = 2
const TARGET = 0.3

export default {
  id: 'P2',
  what: 'GET /v2/deployments, 20 of 100,000, rps ÷ pgbench of the same SQL',
  target: `≥ ${TARGET}`,
  async run(lab: BenchContext) {
    if (!hasPgbench) return PGBENCH_MISSING
    const seeded = await lab.seeded()
    const statements = (await captureStatements(seeded, '/v2/deployments')).map(one => `${inlineParameters(one)};\n`)
    const alone = await preparePgbench(lab, seeded.url, `begin;\n${statements.join('')}commit;\n`)
    const { code } = await lab.worker()
    const { urls } = await serveWorkers(lab, { slipway: { code, bindings: seeded.bindings() } })
    const headers = { 'X-Api-Key': seeded.api_key }
    const things = {
      slipway: () => measureRps(lab, { url: `${urls.slipway}/v2/deployments`, seconds: SECONDS, headers }),
      database: () => alone(SECONDS),
    }
    lab.progress('warming up')
    for (const thing of Object.values(things)) await thing()
    const slices = await measureSlices(SLICES, things, lab.progress)
    const figure = medianRatio(slices.slipway, slices.database)
    return {
      measured: formatNumber(figure),
      met: figure >= TARGET,
      notes: [
        `${formatNumber(median(slices.slipway), 0)} requests a second by ${loadTool}, ${formatNumber(median(slices.database), 0)} by pgbench; 8 connections each`,
      ],
      figures: { ratio: figure, tool: loadTool, rps: slices },
    }
  },
} satisfies Bench
