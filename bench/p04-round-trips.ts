// P4: database round trips per request, on every route that needs a key. It is a count and does not vary.
import { randomUUID } from 'node:crypto'
import { loadOperations } from '../src/app.ts'
import type { Operation } from '../src/kernel/routes.ts'
import { REGISTRY_SETTINGS } from '../test/support/registry-settings.ts'
import type { Bench, BenchContext } from './support/bench-context.ts'
import { serveWorkers } from './support/workerd.ts'

const operations = await loadOperations()

export default {
  id: 'P4',
  what: 'database round trips per request',
  target: '1 on every route; 2 where a foreign server is asked',
  async run(context: BenchContext) {
    const database = await context.database()
    const { code } = await context.worker()
    const { urls } = await serveWorkers(context, {
      slipway: { code, bindings: { ...database.bindings(), ...REGISTRY_SETTINGS } },
    })
    const { api_key, tenant_id } = database.tenant
    const headers = { 'X-Api-Key': api_key, 'X-Tenant-Id': tenant_id, 'Content-Type': 'application/json' }

    const counted: { route: string; status: number; trips: number; most: number }[] = []
    for (const operation of operations.filter(({ verb }) => verb)) {
      const method = operation.method.toUpperCase()
      const route = `${method} ${operation.path}`
      context.progress(route)
      const before = database.trips()
      const path = operation.path.replace(/\{\w+\}/g, () => randomUUID()) + makeQuery(operation)
      const { status } = await fetch(urls.slipway + path, { method, headers, ...makeBody(operation) })
      counted.push({ route, status, trips: database.trips() - before, most: operation.callsExternalServers ? 2 : 1 })
    }
    const overBudget = counted.filter(({ trips, most }) => trips < 1 || trips > most)
    const twice = counted.filter(({ trips }) => trips === 2).length
    const most = Math.max(...counted.map(({ trips }) => trips))
    return {
      measured:
        overBudget.length === 0
          ? `1 on ${counted.length - twice} of ${counted.length} routes, 2 on ${twice}`
          : `not as expected on ${overBudget.length} routes, up to ${most}`,
      met: overBudget.length === 0,
      notes: overBudget.map(({ route, status, trips }) => `${route}: ${trips} round trips, status ${status}`),
      figures: { routes: counted },
    }
  },
} satisfies Bench

function makeQuery({ query }: Operation): string {
  const { example } = (query?.meta() ?? {}) as { example?: Record<string, string> }
  return example ? `?${new URLSearchParams(example)}` : ''
}

/** A valid body: an invalid one would be refused before it reaches the database. */
function makeBody({ body }: Operation): RequestInit {
  const { example = {} } = (body?.meta() ?? {}) as { example?: unknown }
  return body ? { body: JSON.stringify(example) } : {}
}
