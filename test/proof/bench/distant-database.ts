// P5: how close a list and a patch of deployments come to one query over a distant network, the least that they can
// cost.

import type { Bench, BenchContext } from '../support/bench-context.ts'
import { addLatency } from '../support/latency-proxy.ts'
import { findIdleDeployments } from '../support/seeded-database.ts'
import { formatNumber, measureMedianMs, measureSlices, median } from '../support/statistics.ts'
import { buildWorker, serveWorkers } from '../support/workerd.ts'

const ROUND_TRIP_MS = 20
const REQUESTS = 20
const WARM_UP_REQUESTS = 100
const TARGETS = { list: 1.1, patch: 1.15 }

export default {
  id: 'P5',
  what: `median latency at a ${ROUND_TRIP_MS} ms round trip ÷ that of select 1: list 20; patch`,
  target: `≤ ${formatNumber(TARGETS.list)}; ≤ ${formatNumber(TARGETS.patch)}`,
  async run(context: BenchContext) {
    const few = await context.fewDeployments()
    const { modules } = await context.worker()
    const selectOne = await buildWorker(context, 'test/proof/bench/workers/select-one.ts')
    const gateway = await addLatency(context, few.gateway, ROUND_TRIP_MS)
    const distant = few.bindings(gateway)
    const { urls } = await serveWorkers(context, {
      slipway: { modules, bindings: distant },
      near: { modules, bindings: few.bindings() },
      selectOne: { modules: selectOne.modules, bindings: { ...distant, DATABASE_GATEWAY_URL: gateway } },
    })
    const [deployment] = await findIdleDeployments(few, 1)
    const headers = { 'X-Api-Key': few.api_key, 'Content-Type': 'application/json' }
    let values = 0
    const list = (server: string) => () => fetch(`${server}/v2/deployments`, { headers })
    const patch = (server: string) => () => {
      const body = JSON.stringify({ secrets: [{ name: 'TOKEN', value: `value ${values++}` }] })
      return fetch(`${server}/v2/deployments/${deployment}`, { method: 'PATCH', headers, body })
    }
    const patchWorkspace = () => {
      const body = JSON.stringify({ display_name: `Patched ${values++}` })
      return fetch(`${urls.slipway}/workspaces/${few.tenant_id}`, { method: 'PATCH', headers, body })
    }
    context.progress('warming up')
    // Postgres and the isolate get warm sooner without the distance.
    for (const request of [list(urls.near), patch(urls.near)]) await measureMedianMs(WARM_UP_REQUESTS, request)
    const candidates = {
      selectOne: () => measureMedianMs(REQUESTS, () => fetch(urls.selectOne)),
      list: () => measureMedianMs(REQUESTS, list(urls.slipway)),
      patch: () => measureMedianMs(REQUESTS, patch(urls.slipway)),
      workspace: () => measureMedianMs(REQUESTS, patchWorkspace),
    }
    for (const candidate of Object.values(candidates)) await candidate()
    const slices = await measureSlices(candidates, context.progress)
    const ms = (name: keyof typeof slices) => median(slices[name])
    const ratio = (name: keyof typeof slices) => ms(name) / ms('selectOne')
    return {
      measured: `${formatNumber(ratio('list'))}; ${formatNumber(ratio('patch'))}`,
      met: ratio('list') <= TARGETS.list && ratio('patch') <= TARGETS.patch,
      notes: [
        `select 1: ${formatNumber(ms('selectOne'), 1)} ms, list ${formatNumber(ms('list'), 1)} ms, ` +
          `patch of a secret ${formatNumber(ms('patch'), 1)} ms`,
        `patch of a workspace’s name: ${formatNumber(ratio('workspace'))}`,
      ],
      figures: { list: ratio('list'), patch: ratio('patch'), workspace: ratio('workspace'), p50: slices },
    }
  },
} satisfies Bench
