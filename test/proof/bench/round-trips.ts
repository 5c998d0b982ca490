// P4: database round trips of a request, on every route that needs a key. It is a count and does not vary.
import { randomUUID } from 'node:crypto'
import type * as z from 'zod'
import { loadOperations } from '../../../src/app.ts'
import type { Operation } from '../../../src/kernel/http/routes.ts'
import { REGISTRY_SETTINGS } from '../../support/registry-settings.ts'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { GITHUB_SETTINGS } from '../support/github-settings.ts'
import { serveWorkers } from '../support/workerd.ts'

/** A request that is refused before it reaches the database would count none. */
const REACHED = [200, 201, 202, 204, 207, 404, 409]

export default {
  id: 'P4',
  what: 'database round trips per request, on every route that needs a key',
  target: '1; ≤ 2 where a foreign server is asked',
  isCount: true,
  async run(context: BenchContext) {
    const database = await context.database()
    const { modules } = await context.worker()
    const { urls } = await serveWorkers(context, {
      slipway: { modules, bindings: { ...database.bindings(), ...REGISTRY_SETTINGS, ...GITHUB_SETTINGS } },
    })
    const { api_key, tenant_id } = database.tenant
    const who = { 'X-Api-Key': api_key, 'X-Tenant-Id': tenant_id }
    const counted: { route: string; status: number; trips: number; most: number; isReached: boolean }[] = []
    for (const operation of (await loadOperations()).filter(one => 'verb' in one)) {
      const method = operation.method.toUpperCase()
      const route = `${method} ${operation.path}`
      context.progress(route)
      const requestId = `trip-${randomUUID()}`
      const path = operation.path.replace('{index}', '0').replace(/\{\w+\}/g, () => randomUUID())
      const { body, type } = makeBody(operation)
      const headers = { ...who, 'X-Request-Id': requestId, ...(type && { 'Content-Type': type }) }
      const init = { method, headers, ...(body !== undefined && { body }) }
      const response = await fetch(urls.slipway + path + makeQuery(operation), init)
      await response.body?.cancel()
      const most = 'callsExternalServers' in operation && operation.callsExternalServers ? 2 : 1
      const { status } = response
      const isRefused = status === 403 && (operation.errors ?? []).includes('member_required')
      const isReached = REACHED.includes(status) || isRefused || (most === 2 && status === 502)
      counted.push({ route, status, trips: database.tripsOf(requestId), most, isReached })
    }
    const bad = counted.filter(({ trips, most, isReached }) => !isReached || trips < 1 || trips > most)
    const twice = counted.filter(({ trips }) => trips === 2).length
    return {
      measured: bad.length > 0 ? `not so on ${bad.length} routes` : `1 on ${counted.length - twice}, 2 on ${twice}`,
      met: bad.length === 0,
      notes: bad.map(({ route, status, trips }) => `${route}: ${trips} round trips, status ${status}`),
      figures: { routes: counted },
    }
  },
} satisfies Bench

const exampleOf = (schema: z.ZodType | undefined) => (schema?.meta() as { example?: object } | undefined)?.example

function makeQuery({ query }: Operation): string {
  const example = exampleOf(query)
  return example ? `?${new URLSearchParams(example as Record<string, string>)}` : ''
}

function makeBody(operation: Operation): { body?: string; type?: string } {
  const [media] = Object.entries('rawBody' in operation ? operation.rawBody : {})
  const body = 'body' in operation ? operation.body : undefined
  if (media) {
    const [type, { schema, example }] = media
    if (example) return { body: example.text, type: example.contentType }
    return { body: JSON.stringify(exampleOf(schema) ?? {}), type }
  }
  return body ? { body: JSON.stringify(exampleOf(body) ?? {}), type: 'application/json' } : {}
}
