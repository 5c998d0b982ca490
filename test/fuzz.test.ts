// Ten thousand bad requests over every route that takes a key: each is refused as documented, and what is refused changes nothing.
import { sql } from 'drizzle-orm'
import * as fc from 'fast-check'
import { afterAll, describe, expect, inject, it } from 'vitest'
import { operations } from '../src/app.ts'
import { runAsSystem } from '../src/kernel/db.ts'
import type { Operation } from '../src/kernel/routes.ts'
import { newTenant, send, type Tenant, theApp } from './support/app.ts'
import { bytesOf, type Hostile, hostile, streamOf } from './support/hostile.ts'

const { seed, requests } = inject('fuzz')
const HUNG_MS = 10_000
const LEAK =
  /neon|postgres|drizzle|sqlstate|\bstack\b|\n\s+at |\bat \S+:\d+|insert into|select .* from|violates|syntax/i

const guarded = operations.filter(operation => operation.verb)
console.log(`FUZZ_SEED=${seed}: ${requests} requests over ${guarded.length} routes`)

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
async function furnish({ owner, tenant_id }: Tenant): Promise<string[]> {
  const inside = { 'X-Tenant-Id': tenant_id }
  const whole = guarded.filter(operation => !operation.path.includes('{'))
  for (const { method, path, body } of whole) {
    if (method === 'post') await owner.post(path, body?.meta()?.example, inside)
  }
  const lists = await Promise.all(
    whole.filter(one => one.method === 'get' && one.query).map(one => owner.get(one.path, inside)),
  )
  const ids = lists.flatMap(({ body }) => body.resources.map(({ id }: { id: string }) => id))
  const providers = (await owner.get('/v2/auth/providers', inside)).body
  return [...new Set([...ids, ...providers.map((one: { provider_id: string }) => one.provider_id)])] as string[]
}

async function events({ organization_id }: Tenant): Promise<number> {
  const count = sql`select count(*) from events where organization_id = ${organization_id}`
  const [[row]] = (await runAsSystem(theApp().database, count)) as [[[string]]]
  return Number(row[0])
}

/** Foreign servers may fail, and are nowhere to be found here. */
const UPSTREAM = [502, 504]

async function attempt({ method, path, headers, body }: Hostile, key: string, { asks }: Operation) {
  const bytes = body && method !== 'HEAD' ? bytesOf(body) : undefined
  const raw = bytes && { raw: body?.streamed ? streamOf(bytes) : bytes }
  const reply = await send(method, path, { headers: { 'X-Api-Key': key, ...headers }, ...raw })
  if (!(asks && UPSTREAM.includes(reply.status))) expect(reply.status).toBeLessThan(500)
  if (reply.status >= 400) expect(reply.text).not.toMatch(LEAK)
  expect(reply.text.length).toBeLessThan(200_000)
  return reply
}

describe.concurrent('bad requests', () => {
  it.each(guarded.map((one, i) => [one.id, one, seed + i] as const))(
    '%s: never a 5xx, nothing undocumented, no trace of a refused one',
    async (_, operation, seed) => {
      const tenant = await newTenant()
      const ids = await furnish(tenant)
      const before = await events(tenant)
      let changes = 0
      let refused = 0
      const harmless = fc.asyncProperty(hostile(operation, { ids, tenant_id: tenant.tenant_id }), async request => {
        const { status, headers } = await attempt(request, tenant.owner.key, operation)
        answers.set(status, (answers.get(status) ?? 0) + 1)
        if (status >= 400) refused++
        else if (
          !operation.reads &&
          !/^(get|head|options)$/i.test(request.method) &&
          !headers.has('Idempotency-Replayed')
        )
          changes++
      })
      await fc.assert(harmless, { seed, numRuns: Math.ceil(requests / guarded.length), timeout: HUNG_MS })
      expect(refused).toBeGreaterThan(changes)
      expect(await events(tenant)).toBe(before + changes)
    },
    120_000,
  )
})
