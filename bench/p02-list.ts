// P2: the list through workerd and the gateway, against pgbench running the same statements.

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
  what: 'requests per second of GET /v2/deployments (20 of 100,000) ÷ pgbench of the same SQL',
  target: `≥ ${TARGET}`,
  async run(context: BenchContext) {
    if (!hasPgbench) return PGBENCH_MISSING
    const seeded = await context.seeded()
    const statements = (await captureStatements(seeded, '/v2/deployments')).map(one => `${inlineParameters(one)};\n`)
    const runPgbench = await preparePgbench(context, seeded.url, `begin;\n${statements.join('')}commit;\n`)
    const { code } = await context.worker()
    const { urls } = await serveWorkers(context, { slipway: { code, bindings: seeded.bindings() } })
    const headers = { 'X-Api-Key': seeded.api_key }
    const candidates = {
      slipway: () => measureRps(context, { url: `${urls.slipway}/v2/deployments`, seconds: SECONDS, headers }),
      database: () => runPgbench(SECONDS),
    }
    context.progress('warming up')
    for (const candidate of Object.values(candidates)) await candidate()
    const slices = await measureSlices(SLICES, candidates, context.progress)
    const ratio = medianRatio(slices.slipway, slices.database)
    const [requests, transactions] = [median(slices.slipway), median(slices.database)]
    return {
      measured: formatNumber(ratio),
      met: ratio >= TARGET,
      notes: [
        `${formatNumber(requests, 0)} requests per second, load by ${loadTool}, 8 connections`,
        `${formatNumber(transactions, 0)} transactions per second by pgbench, 8 connections`,
      ],
      figures: { ratio, tool: loadTool, rps: slices },
    }
  },
} satisfies Bench
