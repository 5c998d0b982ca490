// Hostile requests to every route that requires a key. `npm run fuzz` sends ten times as many.
import { sql } from 'drizzle-orm'
import { afterAll, describe, expect, it } from 'vitest'
import { runAsSystem, textArray } from '../src/kernel/db/db.ts'
import type { Operation } from '../src/kernel/http/routes.ts'
import { getApp, guardedOperations, newTenant, send, type Tenant } from './support/app.ts'
import { expectCheap, validateBody } from './support/cpu-cost.ts'
import { arbitraryRequest, type HostileRequest, streamBytes, toBytes } from './support/hostile-requests.ts'
import { newIntegration } from './support/integrations.ts'
import { expectSmall } from './support/memory-cost.ts'
import * as fc from './support/seeded-fast-check.ts'

const requests = Math.ceil(fc.requests / guardedOperations.length)
const HUNG_MS = 10_000
const patience = 120_000 + requests * guardedOperations.length * 20
/** A value of the API. */
const STORE = '`postgres`'
const LEAK =
  /neon|postgres|drizzle|sqlstate|\bstack\b|\n\s+at |\bat \S+:\d+|insert into|select .* from|violates|syntax/i

console.log(`FUZZ_SEED=${fc.seed}: ${requests} requests to each of ${guardedOperations.length} routes`)

const answers = new Map<number, number>()
afterAll(() =>
  console.log(
    [...answers]
      .sort()
      .map(([status, count]) => `${count} × ${status}`)
      .join(', '),
  ),
)

/** Creates every resource whose route has no path parameter, and returns the ids of all resources of the tenant. */
async function furnish(tenant: Tenant): Promise<string[]> {
  const { owner, tenant_id } = tenant
  const inside = { 'X-Tenant-Id': tenant_id }
  const whole = guardedOperations.filter(operation => !operation.path.includes('{'))
  for (const one of whole) {
    const body = one.kind === 'json' ? one.body : undefined
    if (one.method === 'post') await owner.post(one.path, body?.meta()?.example, inside)
  }
  const lists = await Promise.all(
    whole.filter(one => one.method === 'get' && one.query).map(one => owner.get(one.path, inside)),
  )
  const listed: { id?: string; latest_revision_id?: string }[] = lists.flatMap(({ body }) => body?.resources ?? [])
  const providers: { provider_id: string }[] = (await owner.get('/v2/auth/providers', inside)).body
  const ids = listed.flatMap(one => [one.id, one.latest_revision_id].filter(id => id !== undefined))
  return [...new Set([...ids, ...providers.map(one => one.provider_id), await newIntegration(tenant)])]
}

const newFurnishedTenant = async () => {
  const tenant = await newTenant()
  return { tenant, ids: await furnish(tenant) }
}
/** Furnishing takes more requests than an operation gets in a short run, so there operations share these tenants. */
const SHARED_TENANTS = 8
const isDeep = fc.requests >= 10_000
const shared: ReturnType<typeof newFurnishedTenant>[] = []
/** A tenant of its own for each write of a deep run. Operations that only read share one. */
function getFurnishedTenant({ method, isReadOnly }: Operation, index: number) {
  const changes = method !== 'get' && !isReadOnly
  if (changes && isDeep) return newFurnishedTenant()
  const slot = changes ? 1 + (index % SHARED_TENANTS) : 0
  shared[slot] ??= newFurnishedTenant()
  return shared[slot]
}

/** The ids among `requestIds` that have an event in the journal. */
async function journaled({ organization_id }: Tenant, requestIds: string[]): Promise<string[]> {
  const query = sql`select distinct request_id from events
    where organization_id = ${organization_id}::uuid and request_id = any(${textArray(requestIds)})`
  const [rows] = (await runAsSystem(getApp().database, query)) as [[string][]]
  return rows.map(([id]) => id)
}

/** Routes that call foreign servers may answer with these, because no foreign server runs in this test. */
const UPSTREAM = [502, 504]

async function attempt({ method, path, headers, body }: HostileRequest, key: string, operation: Operation) {
  const schema = operation.kind === 'json' ? operation.body : undefined
  const callsExternalServers =
    operation.path.startsWith('/v1/model-proxy/') || (operation.kind === 'json' && operation.callsExternalServers)
  if (schema && body) {
    const validate = () => validateBody(schema, body.text)
    await expectCheap(operation.id, body.text.length, validate)
    // It is synchronous, so that the memory of other requests does not count.
    await expectSmall(operation.id, body.text.length, validate)
  }
  const bytes = body && method !== 'HEAD' ? toBytes(body) : undefined
  const raw = bytes && { raw: body?.streamed ? streamBytes(bytes) : bytes }
  const reply = await send(method, path, { headers: { 'X-Api-Key': key, ...headers }, ...raw })
  if (!(callsExternalServers && UPSTREAM.includes(reply.status))) expect(reply.status).toBeLessThan(500)
  if (reply.status >= 400) expect(reply.text.replaceAll(STORE, '')).not.toMatch(LEAK)
  expect(reply.text.length).toBeLessThan(200_000)
  return reply
}

describe.concurrent('bad requests', () => {
  it.each(guardedOperations.map((one, i) => [one.id, one, i] as const))(
    'to %s are answered as documented, without a 5xx, and a refused one writes no event',
    async (_, operation, index) => {
      const { tenant, ids } = await getFurnishedTenant(operation, index)
      const answered = new Set<string>()
      const refused = new Set<string>()
      const harmless = fc.asyncProperty(
        arbitraryRequest(operation, { ids, tenant_id: tenant.tenant_id }),
        async request => {
          const { status, headers } = await attempt(request, tenant.owner.key, operation)
          answers.set(status, (answers.get(status) ?? 0) + 1)
          const of = status >= 400 ? refused : answered
          of.add(headers.get('X-Request-Id')!)
        },
      )
      await fc.assert(harmless, { seed: fc.seed + index, numRuns: requests, timeout: HUNG_MS })
      // With few requests, chance decides which outcome is the more frequent one.
      const isPartial = operation.kind === 'json' && operation.partial !== undefined
      if (requests >= 50 && operation.method !== 'get' && !operation.isReadOnly && !isPartial)
        expect(refused.size).toBeGreaterThan(answered.size)
      // Some requests choose their X-Request-Id, so an answered and a refused one can have the same.
      expect(
        await journaled(
          tenant,
          [...refused].filter(id => !answered.has(id)),
        ),
      ).toEqual([])
    },
    patience,
  )
})
