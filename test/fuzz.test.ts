// Hostile requests to every route that takes a key: each is refused as documented at a bounded cost, and a refused
// request changes nothing. A thousand in total, ten thousand in `npm run fuzz`.
import { sql } from 'drizzle-orm'
import { afterAll, describe, expect, it } from 'vitest'
import { runAsSystem, textArray } from '../src/kernel/db.ts'
import type { Operation } from '../src/kernel/routes.ts'
import { getApp, guardedOperations, newTenant, send, type Tenant } from './support/app.ts'
import { expectCheap, validateBody } from './support/cpu-cost.ts'
import { arbitraryRequest, type HostileRequest, streamBytes, toBytes } from './support/hostile-requests.ts'
import { newIntegration } from './support/integrations.ts'
import * as fc from './support/seeded-fast-check.ts'

const requests = Math.ceil(fc.requests / guardedOperations.length)
const HUNG_MS = 10_000
const patience = 120_000 + requests * guardedOperations.length * 20
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

/** One of everything that its example alone can make, and the ids of all there is. */
async function furnish(tenant: Tenant): Promise<string[]> {
  const { owner, tenant_id } = tenant
  const inside = { 'X-Tenant-Id': tenant_id }
  const whole = guardedOperations.filter(operation => !operation.path.includes('{'))
  for (const { method, path, body } of whole) {
    if (method === 'post') await owner.post(path, body?.meta()?.example, inside)
  }
  const lists = await Promise.all(
    whole.filter(one => one.method === 'get' && one.query).map(one => owner.get(one.path, inside)),
  )
  const listed: { id: string; latest_revision_id?: string }[] = lists.flatMap(({ body }) => body.resources)
  const providers: { provider_id: string }[] = (await owner.get('/v2/auth/providers', inside)).body
  const ids = listed.flatMap(one => [one.id, one.latest_revision_id ?? one.id])
  return [...new Set([...ids, ...providers.map(one => one.provider_id), await newIntegration(tenant)])]
}

/** Those of the requests that left something in the journal. */
async function journaled({ organization_id }: Tenant, requestIds: string[]): Promise<string[]> {
  const query = sql`select distinct request_id from events
    where organization_id = ${organization_id}::uuid and request_id = any(${textArray(requestIds)})`
  const [rows] = (await runAsSystem(getApp().database, query)) as [[string][]]
  return rows.map(([id]) => id)
}

/** Foreign servers may fail, and are nowhere to be found here. */
const UPSTREAM = [502, 504]

async function attempt(
  { method, path, headers, body }: HostileRequest,
  key: string,
  { id, callsExternalServers, body: schema }: Operation,
) {
  if (schema && body) await expectCheap(id, body.text.length, () => validateBody(schema, body.text))
  const bytes = body && method !== 'HEAD' ? toBytes(body) : undefined
  const raw = bytes && { raw: body?.streamed ? streamBytes(bytes) : bytes }
  const reply = await send(method, path, { headers: { 'X-Api-Key': key, ...headers }, ...raw })
  if (!(callsExternalServers && UPSTREAM.includes(reply.status))) expect(reply.status).toBeLessThan(500)
  if (reply.status >= 400) expect(reply.text).not.toMatch(LEAK)
  expect(reply.text.length).toBeLessThan(200_000)
  return reply
}

describe.concurrent('bad requests', () => {
  it.each(guardedOperations.map((one, i) => [one.id, one, fc.seed + i] as const))(
    '%s: never a 5xx, nothing undocumented, no trace of a refused one',
    async (_, operation, seed) => {
      const tenant = await newTenant()
      const ids = await furnish(tenant)
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
      await fc.assert(harmless, { seed, numRuns: requests, timeout: HUNG_MS })
      // A few requests say nothing about a majority.
      if (requests >= 50 && operation.method !== 'get' && !operation.isReadOnly && !operation.partial)
        expect(refused.size).toBeGreaterThan(answered.size)
      // Some of them name themselves, and may do so twice.
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
