// P5: how close a list and a patch come to one query over a distant network, the least that they can cost.

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
  what: `median latency at a ${ROUND_TRIP_MS} ms round trip ÷ that of select 1: list; patch`,
  target: `≤ ${TARGETS.list}; ≤ ${TARGETS.patch}`,
  async run(context: BenchContext) {
    const { bindings, gateway, tenant } = await context.database()
    const { code } = await context.worker()
    const selectOne = await buildWorker(context, 'bench/workers/select-one.ts')
    const distant = bindings(await addLatency(context, gateway, ROUND_TRIP_MS))
    const { urls } = await serveWorkers(context, {
      slipway: { code, bindings: distant },
      selectOne: { code: selectOne.code, bindings: distant },
    })

    const headers = { 'X-Api-Key': tenant.api_key, 'X-Tenant-Id': tenant.tenant_id, 'Content-Type': 'application/json' }
    let patches = 0
    const patch = () => {
      const body = JSON.stringify({ display_name: `Patched ${patches++}` })
      return fetch(urls.slipway + getPatchPath(tenant.tenant_id), { method: 'PATCH', headers, body })
    }
    const candidates = {
      selectOne: () => measureMedianMs(REQUESTS, () => fetch(urls.selectOne)),
      list: () => measureMedianMs(REQUESTS, () => fetch(urls.slipway + LIST_PATH, { headers })),
      patch: () => measureMedianMs(REQUESTS, patch),
    }
    context.progress('warming up')
    for (const candidate of Object.values(candidates)) await candidate()
    const slices = await measureSlices(SLICES, candidates, context.progress)
    const [selectOneMs, list, patched] = [median(slices.selectOne), median(slices.list), median(slices.patch)]
    return {
      measured: `${formatNumber(list / selectOneMs)}; ${formatNumber(patched / selectOneMs)}`,
      met: list / selectOneMs <= TARGETS.list && patched / selectOneMs <= TARGETS.patch,
      notes: [
        `select 1: ${formatNumber(selectOneMs, 1)} ms`,
        `GET ${LIST_PATH}: ${formatNumber(list, 1)} ms; PATCH: ${formatNumber(patched, 1)} ms`,
      ],
      figures: { list: list / selectOneMs, patch: patched / selectOneMs, p50: slices },
    }
  },
} satisfies Bench
