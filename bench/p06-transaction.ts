// P6: a patch in one trip against the same work as an ordinary transaction does it, eight trips, over a network. Both are asked over
// HTTP, each behind its own server; only the way to the database is long.
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { findFreePort } from '../src/postgres/free-port.ts'
import type { Bench, BenchContext } from './support/bench-context.ts'
import { SEALING_KEYS } from './support/database.ts'
import { addLatency } from './support/latency-proxy.ts'
import { startProcess } from './support/processes.ts'
import { type SeededDatabase, withClient } from './support/seeded-database.ts'
import { formatNumber, measureMedianMs, measureSlices, median, medianRatio } from './support/statistics.ts'
import { serveWorkers } from './support/workerd.ts'

const ROUND_TRIP_MS = 5
const SLICES = 9
const REQUESTS = 20
const TARGET = 5
const BASELINE = fileURLToPath(new URL('baselines/fastify-patch.ts', import.meta.url))

export default {
  id: 'P6',
  what: `an 8-trip patch ÷ ours, p50 at a ${ROUND_TRIP_MS} ms round trip`,
  target: `≥ ${TARGET}`,
  async run(lab: BenchContext) {
    const seeded = await lab.seeded()
    const { code } = await lab.worker()
    const distant = seeded.bindings(await addLatency(lab, seeded.gateway, ROUND_TRIP_MS))
    const { urls } = await serveWorkers(lab, { slipway: { code, bindings: distant } })
    const theirs = await startBaseline(lab, seeded)
    const { rows } = await withClient(seeded.url, client =>
      client.query('select id from deployments where tenant_id = $1 and deleting_at is null limit 2', [
        seeded.tenant_id,
      ]),
    )
    const headers = { 'X-Api-Key': seeded.api_key, 'Content-Type': 'application/json' }
    let values = 0
    const patch = (server: string, { id }: { id: string }) => {
      const body = JSON.stringify({ secrets: [{ name: 'TOKEN', value: `value ${values++}` }] })
      return fetch(`${server}/v2/deployments/${id}`, { method: 'PATCH', headers, body })
    }
    const things = {
      slipway: () => measureMedianMs(REQUESTS, () => patch(urls.slipway, rows[0])),
      ordinary: () => measureMedianMs(REQUESTS, () => patch(theirs, rows[1])),
    }
    lab.progress('warming up')
    for (const thing of Object.values(things)) for (let i = 0; i < 3; i++) await thing()
    const slices = await measureSlices(SLICES, things, lab.progress)
    const figure = medianRatio(slices.ordinary, slices.slipway)
    return {
      measured: formatNumber(figure),
      met: figure >= TARGET,
      notes: [
        `ours takes ${formatNumber(median(slices.slipway), 1)} ms, theirs, behind Fastify, ${formatNumber(median(slices.ordinary), 1)} ms`,
      ],
      figures: { ratio: figure, p50: slices },
    }
  },
} satisfies Bench

/** Where the ordinary transaction is served, as far from the database as ours is. */
async function startBaseline(lab: BenchContext, { url }: SeededDatabase): Promise<string> {
  const port = await findFreePort()
  const away = new URL(await addLatency(lab, url, ROUND_TRIP_MS))
  const distant = Object.assign(new URL(url), { port: away.port }).toString()
  const [, sealingKey] = SEALING_KEYS.split(':')
  const { broken } = startProcess(lab, process.execPath, [BASELINE, JSON.stringify({ port, url: distant, sealingKey })])
  const server = `http://127.0.0.1:${port}`
  const up = async () => {
    while (!(await fetch(`${server}/healthz`).catch(() => undefined))?.ok) await delay(25)
  }
  await Promise.race([up(), broken])
  return server
}
