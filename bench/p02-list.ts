// P2: the list through workerd and the gateway, against what the database alone makes of the same statements.
import { fixed, inTurn, median, ratio } from './support/figures.ts'
import type { Bench, Lab } from './support/lab.ts'
import { rps, tool } from './support/load.ts'
import { installed, pgbench, withoutPgbench } from './support/pgbench.ts'
import { literal, statementsOf } from './support/seeded.ts'
import { serve } from './support/workerd.ts'

const SLICES = 5
const SECONDS = 2
const TARGET = 0.3

export default {
  id: 'P2',
  what: 'GET /v2/deployments, 20 of 100,000, rps ÷ pgbench of the same SQL',
  target: `≥ ${TARGET}`,
  async run(lab: Lab) {
    if (!installed) return withoutPgbench
    const seeded = await lab.seeded()
    const statements = (await statementsOf(seeded, '/v2/deployments')).map(one => `${literal(one)};\n`)
    const alone = await pgbench(lab, seeded.url, `begin;\n${statements.join('')}commit;\n`)
    const { code } = await lab.worker()
    const { urls } = await serve(lab, { slipway: { code, bindings: seeded.bindings() } })
    const headers = { 'X-Api-Key': seeded.api_key }
    const things = {
      slipway: () => rps(lab, { url: `${urls.slipway}/v2/deployments`, seconds: SECONDS, headers }),
      database: () => alone(SECONDS),
    }
    lab.progress('warming up')
    for (const thing of Object.values(things)) await thing()
    const slices = await inTurn(SLICES, things, lab.progress)
    const figure = ratio(slices.slipway, slices.database)
    return {
      measured: fixed(figure),
      met: figure >= TARGET,
      notes: [
        `${fixed(median(slices.slipway), 0)} requests a second by ${tool}, ${fixed(median(slices.database), 0)} by pgbench; 8 connections each`,
      ],
      figures: { ratio: figure, tool, rps: slices },
    }
  },
} satisfies Bench
