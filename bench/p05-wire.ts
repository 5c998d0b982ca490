// P5: how near a list and a patch come to the least that one question over a distant network can cost.
import { fixed, inTurn, median, p50 } from './support/figures.ts'
import type { Bench, Lab } from './support/lab.ts'
import { farther } from './support/latency.ts'
import { build, serve } from './support/workerd.ts'

const LIST = '/workspaces/current/api-keys'
const PATCH = (tenant: string) => `/workspaces/${tenant}`
const ROUND_TRIP = 20
const SLICES = 7
const REQUESTS = 25
const TARGETS = { list: 1.15, patch: 1.25 }

export default {
  id: 'P5',
  what: `p50 at a ${ROUND_TRIP} ms round trip ÷ select 1 there: list; patch`,
  target: `≤ ${TARGETS.list}; ≤ ${TARGETS.patch}`,
  async run(lab: Lab) {
    const { bindings, gateway, tenant } = await lab.database()
    const { code } = await lab.worker()
    const selectOne = await build(lab, 'bench/workers/select-one.ts')
    const distant = bindings(await farther(lab, gateway, ROUND_TRIP))
    const { urls } = await serve(lab, {
      slipway: { code, bindings: distant },
      selectOne: { code: selectOne.code, bindings: distant },
    })

    const headers = { 'X-Api-Key': tenant.api_key, 'X-Tenant-Id': tenant.tenant_id, 'Content-Type': 'application/json' }
    let patches = 0
    const patch = () => {
      const body = JSON.stringify({ display_name: `Patched ${patches++}` })
      return fetch(urls.slipway + PATCH(tenant.tenant_id), { method: 'PATCH', headers, body })
    }
    const things = {
      wire: () => p50(REQUESTS, () => fetch(urls.selectOne)),
      list: () => p50(REQUESTS, () => fetch(urls.slipway + LIST, { headers })),
      patch: () => p50(REQUESTS, patch),
    }
    lab.progress('warming up')
    for (const thing of Object.values(things)) await thing()
    const slices = await inTurn(SLICES, things, lab.progress)
    const [wire, list, patched] = [median(slices.wire), median(slices.list), median(slices.patch)]
    return {
      measured: `${fixed(list / wire)}; ${fixed(patched / wire)}`,
      met: list / wire <= TARGETS.list && patched / wire <= TARGETS.patch,
      notes: [
        `select 1 takes ${fixed(wire, 1)} ms, GET ${LIST} ${fixed(list, 1)} ms, the patch ${fixed(patched, 1)} ms`,
      ],
      figures: { list: list / wire, patch: patched / wire, p50: slices },
    }
  },
} satisfies Bench
