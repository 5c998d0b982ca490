// P4: how often one request goes to the database, on every route that asks for a key; a count, which does not vary.
import { randomUUID } from 'node:crypto'
import { operations } from '../src/app.ts'
import type { Operation } from '../src/kernel/routes.ts'
import { REGISTRY_SETTINGS } from '../test/support/registry-settings.ts'
import type { Bench, BenchContext } from './support/bench-context.ts'
import { serveWorkers } from './support/workerd.ts'

export default {
  id: 'P4',
  what: 'round trips to the database per request',
  target: '1 on every route; 2 where foreign servers are asked',
  async run(lab: BenchContext) {
    const database = await lab.database()
    const { code } = await lab.worker()
    const { urls } = await serveWorkers(lab, {
      slipway: { code, bindings: { ...database.bindings(), ...REGISTRY_SETTINGS } },
    })
    const { api_key, tenant_id } = database.tenant
    const headers = { 'X-Api-Key': api_key, 'X-Tenant-Id': tenant_id, 'Content-Type': 'application/json' }

    const counted: { route: string; status: number; trips: number; most: number }[] = []
    for (const operation of operations.filter(({ verb }) => verb)) {
      const method = operation.method.toUpperCase()
      const route = `${method} ${operation.path}`
      lab.progress(route)
      const before = database.trips()
      const path = operation.path.replace(/\{\w+\}/g, () => randomUUID()) + makeQuery(operation)
      const { status } = await fetch(urls.slipway + path, { method, headers, ...makeBody(operation) })
      counted.push({ route, status, trips: database.trips() - before, most: operation.callsExternalServers ? 2 : 1 })
    }
    const odd = counted.filter(({ trips, most }) => trips < 1 || trips > most)
    const twice = counted.filter(({ trips }) => trips === 2).length
    const most = Math.max(...counted.map(({ trips }) => trips))
    return {
      measured:
        odd.length === 0
          ? `1 on ${counted.length - twice} of ${counted.length}, 2 on ${twice} that ask others`
          : `up to ${most}, too many on ${odd.length}`,
      met: odd.length === 0,
      notes: odd.map(({ route, status, trips }) => `${route} made ${trips} and answered ${status}`),
      figures: { routes: counted },
    }
  },
} satisfies Bench

/** What a query needs to say, by its example. */
function makeQuery({ query }: Operation): string {
  const { example } = (query?.meta() ?? {}) as { example?: Record<string, string> }
  return example ? `?${new URLSearchParams(example)}` : ''
}

/** The example of the document, which reaches the database. */
function makeBody({ body }: Operation): RequestInit {
  const { example = {} } = (body?.meta() ?? {}) as { example?: unknown }
  return body ? { body: JSON.stringify(example) } : {}
}
