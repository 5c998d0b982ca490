// P2: the list through workerd and the gateway, against pgbench running the same statements.

import type { Bench, BenchContext } from '../support/bench-context.ts'
import { readChildCpuMs, readCpuMs } from '../support/cpu.ts'
import { describeCpu, loadTool, measureLoad, rpsOf } from '../support/load.ts'
import { hasPgbench, PGBENCH_MISSING, preparePgbench } from '../support/pgbench.ts'
import { captureStatements, inlineParameters } from '../support/seeded-database.ts'
import { formatNumber, measureSlices, median, medianRatio } from '../support/statistics.ts'
import { serveWorkers } from '../support/workerd.ts'

const SECONDS = 1
const TARGET = 0.33

export default {
  id: 'P2',
  what: 'requests per second of GET /v2/deployments (20 of 100,000) ÷ pgbench of the same SQL',
  target: `≥ ${TARGET}`,
  async run(context: BenchContext) {
    if (!hasPgbench) return PGBENCH_MISSING
    const large = await context.deployments()
    const statements = (await captureStatements(large, '/v2/deployments')).map(one => `${inlineParameters(one)};\n`)
    const runPgbench = await preparePgbench(context, large.url, `begin;\n${statements.join('')}commit;\n`)
    const { modules } = await context.worker()
    const { urls, pid } = await serveWorkers(context, { slipway: { modules, bindings: large.bindings() } })
    const load = {
      url: `${urls.slipway}/v2/deployments`,
      seconds: SECONDS,
      headers: { 'X-Api-Key': large.api_key },
    }
    const programs = {
      workerd: () => readCpuMs(pid),
      gateway: () => readCpuMs(process.pid),
      Postgres: () => readChildCpuMs(large.pid),
    }
    const ofPgbench = (protocol: 'simple' | 'prepared') => async () => ({
      rps: await runPgbench(SECONDS, { protocol }),
      cpu: { workerd: 0, gateway: 0, Postgres: 0 },
    })
    const candidates = {
      slipway: () => measureLoad(context, load, programs),
      database: ofPgbench('simple'),
      prepared: ofPgbench('prepared'),
    }
    context.progress('warming up')
    for (const candidate of Object.values(candidates)) await candidate()
    const slices = await measureSlices(candidates, context.progress)
    const ratio = medianRatio(rpsOf(slices.slipway), rpsOf(slices.database))
    const toPrepared = medianRatio(rpsOf(slices.slipway), rpsOf(slices.prepared))
    const rate = (name: keyof typeof slices) => formatNumber(median(rpsOf(slices[name])), 0)
    return {
      measured: formatNumber(ratio),
      met: ratio >= TARGET,
      notes: [
        `${rate('slipway')} requests per second, load by ${loadTool}, 8 connections: ${describeCpu(slices.slipway)}`,
        `${rate('database')} transactions per second by pgbench, 8 connections`,
        `${rate('prepared')} with prepared statements, of which ours are ${formatNumber(toPrepared)}`,
      ],
      figures: { ratio, to_prepared: toPrepared, tool: loadTool, slices },
    }
  },
} satisfies Bench
