// P5: how near a list and a patch come to the least that one question over a distant network can cost.

import type { Bench, BenchContext } from './support/bench-context.ts'
import { addLatency } from './support/latency-proxy.ts'
import { formatNumber, measureMedianMs, measureSlices, median } from './support/statistics.ts'
import { buildWorker, serveWorkers } from './support/workerd.ts'

const LIST_PATH = '/workspaces/current/api-keys'
const getPatchPath = (tenant: string) => `/workspaces/${tenant}`
const ROUND_TRIP_MS = 20
const SLICES = 7
const REQUESTS = 25
const TARGETS = { list: 1.15, patch: 1.25 }

export default {
  id: 'P5',
  what: `p50 at a ${ROUND_TRIP_MS} ms round trip ÷ select 1 there: list; patch`,
  target: `≤ ${TARGETS.list}; ≤ ${TARGETS.patch}`,
  async run(lab: BenchContext) {
    const { bindings, gateway, tenant } = await lab.database()
    const { code } = await lab.worker()
    const selectOne = await buildWorker(lab, 'bench/workers/select-one.ts')
    const distant = bindings(await addLatency(lab, gateway, ROUND_TRIP_MS))
    const { urls } = await serveWorkers(lab, {
      slipway: { code, bindings: distant },
      selectOne: { code: selectOne.code, bindings: distant },
    })

    const headers = { 'X-Api-Key': tenant.api_key, 'X-Tenant-Id': tenant.tenant_id, 'Content-Type': 'application/json' }
    let patches = 0
    const patch = () => {
      const body = JSON.stringify({ display_name: `Patched ${patches++}` })
      return fetch(urls.slipway + getPatchPath(tenant.tenant_id), { method: 'PATCH', headers, body })
    }
    const things = {
      wire: () => measureMedianMs(REQUESTS, () => fetch(urls.selectOne)),
      list: () => measureMedianMs(REQUESTS, () => fetch(urls.slipway + LIST_PATH, { headers })),
      patch: () => measureMedianMs(REQUESTS, patch),
    }
    lab.progress('warming up')
    for (const thing of Object.values(things)) await thing()
    const slices = await measureSlices(SLICES, things, lab.progress)
    const [wire, list, patched] = [median(slices.wire), median(slices.list), median(slices.patch)]
    return {
      measured: `${formatNumber(list / wire)}; ${formatNumber(patched / wire)}`,
      met: list / wire <= TARGETS.list && patched / wire <= TARGETS.patch,
      notes: [
        `select 1 takes ${formatNumber(wire, 1)} ms, GET ${LIST_PATH} ${formatNumber(list, 1)} ms, the patch ${formatNumber(patched, 1)} ms`,
      ],
      figures: { list: list / wire, patch: patched / wire, p50: slices },
    }
  },
} satisfies Bench
