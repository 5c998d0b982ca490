// P3: the list against what a Node team would write: Fastify and node-postgres, the same SQL, the same Postgres.
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { freePort } from '../src/host/ports.ts'
import { fixed, inTurn, median, ratio } from './support/figures.ts'
import type { Bench, Lab } from './support/lab.ts'
import { rps, tool } from './support/load.ts'
import { start } from './support/processes.ts'
import { statementsOf } from './support/seeded.ts'
import { serve } from './support/workerd.ts'

const SLICES = 5
const SECONDS = 2
const TARGET = 0.8
const BASELINE = fileURLToPath(new URL('baselines/fastify.ts', import.meta.url))

export default {
  id: 'P3',
  what: 'the same list, rps ÷ Fastify and node-postgres',
  target: `≥ ${TARGET}`,
  async run(lab: Lab) {
    const seeded = await lab.seeded()
    const { code } = await lab.worker()
    const { urls } = await serve(lab, { slipway: { code, bindings: seeded.bindings() } })
    const port = await freePort()
    const statements = await statementsOf(seeded, '/v2/deployments')
    const { broken } = start(lab, process.execPath, [BASELINE, JSON.stringify({ port, url: seeded.url, statements })])
    const theirs = `http://127.0.0.1:${port}`
    await Promise.race([answers(`${theirs}/healthz`), broken])
    const headers = { 'X-Api-Key': seeded.api_key }
    const things = {
      slipway: () => rps(lab, { url: `${urls.slipway}/v2/deployments`, seconds: SECONDS, headers }),
      fastify: () => rps(lab, { url: `${theirs}/v2/deployments`, seconds: SECONDS }),
    }
    lab.progress('warming up')
    for (const thing of Object.values(things)) await thing()
    const slices = await inTurn(SLICES, things, lab.progress)
    const figure = ratio(slices.slipway, slices.fastify)
    return {
      measured: fixed(figure),
      met: figure >= TARGET,
      notes: [
        `${fixed(median(slices.slipway), 0)} requests a second, theirs ${fixed(median(slices.fastify), 0)}, by ${tool}`,
      ],
      figures: { ratio: figure, tool, rps: slices },
    }
  },
} satisfies Bench

async function answers(url: string): Promise<void> {
  while (!(await fetch(url).catch(() => undefined))?.ok) await delay(25)
}
