// Hostile bodies of runs and spans, compressed or not: never a fault of the server, and nothing stored of one that is
// refused. `npm run fuzz` sends 10,000 of them.
import { constants, gzipSync, zstdCompressSync } from 'node:zlib'
import { sql } from 'drizzle-orm'
import { afterAll, expect, it } from 'vitest'
import type { Storage } from '../../src/platform.ts'
import { type App, newTenant, type Reply, send, startApp, type Tenant } from '../support/app.ts'
import { type HostileBody, hostileMultipart } from '../support/hostile-multipart.ts'
import { hostileSpans } from '../support/hostile-spans.ts'
import { expectSmall } from '../support/memory-cost.ts'
import * as fc from '../support/seeded-fast-check.ts'
import { select } from '../support/traces.ts'

const isDeep = fc.requests >= 10_000
/** Half of them are of runs and half of spans. */
const bodies = isDeep ? fc.requests / 2 : 150
const patience = 60_000 + bodies * 60
const MAX_BYTES = 4 * 1024 * 1024
const LEAK = /neon|postgres|drizzle|sqlstate|\bstack\b|\n\s+at |insert into|violates/i

type Coding = { encoding: string; encode: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer> }
const plain = (bytes: Uint8Array<ArrayBuffer>) => bytes
const gzip = (bytes: Uint8Array) => Uint8Array.from(gzipSync(bytes))
const zstd = (bytes: Uint8Array) => Uint8Array.from(zstdCompressSync(bytes))
const half = (bytes: Uint8Array<ArrayBuffer>) => bytes.slice(0, bytes.length / 2)
/** A few kilobytes that decompress to more than the app reads. */
const zeros = Buffer.alloc(5 * MAX_BYTES)
const gzipBomb = gzip(zeros)
const zstdBomb = zstd(zeros)
const best = { level: constants.Z_BEST_COMPRESSION }
const CODINGS: [weight: number, Coding][] = [
  [60, { encoding: '', encode: plain }],
  [12, { encoding: 'gzip', encode: gzip }],
  [12, { encoding: 'zstd', encode: zstd }],
  [2, { encoding: 'GZIP', encode: bytes => Uint8Array.from(gzipSync(bytes, best)) }],
  [2, { encoding: 'gzip', encode: plain }],
  [2, { encoding: 'zstd', encode: plain }],
  [2, { encoding: 'zstd', encode: gzip }],
  [2, { encoding: 'gzip', encode: bytes => half(gzip(bytes)) }],
  [2, { encoding: 'zstd', encode: bytes => half(zstd(bytes)) }],
  [2, { encoding: 'gzip', encode: bytes => gzip(gzip(bytes)) }],
  [1, { encoding: 'gzip', encode: () => gzipBomb }],
  [1, { encoding: 'zstd', encode: () => zstdBomb }],
  [1, { encoding: 'br', encode: plain }],
  [1, { encoding: 'gzip, gzip', encode: bytes => gzip(gzip(bytes)) }],
]
const coding = fc.oneof(...CODINGS.map(([weight, one]) => ({ weight, arbitrary: fc.constant(one) })))

const answers = new Map<string, number>()
afterAll(() => {
  if (isDeep) console.log(`FUZZ_SEED=${fc.seed}:`, Object.fromEntries([...answers].sort()))
})

function makeStorage() {
  const paths = new Set<string>()
  const storage: Storage = {
    put: async path => void paths.add(path),
    get: async () => null,
    remove: async gone => {
      for (const path of gone) paths.delete(path)
    },
  }
  return { paths, storage }
}

const TABLES = ['runs', 'projects', 'feedbacks', 'waiting_patches', 'otlp_spans', 'trace_objects']
/** Counts the workspace's rows of each table. */
const countRows = async ({ tenant_id }: Tenant) =>
  (
    await select(sql`
      select ${sql.join(
        TABLES.map(name => sql`(select count(*) from ${sql.identifier(name)} where tenant_id = ${tenant_id})`),
        sql`, `,
      )}`)
  )[0]

async function sendAll(name: string, arbitrary: fc.Arbitrary<HostileBody>, path: string, allowed: number[]) {
  const { paths, storage } = makeStorage()
  const rawBodies = { wireBytes: MAX_BYTES, bytes: 4 * MAX_BYTES, heldBytes: 16 * MAX_BYTES }
  const app: App = startApp({ overrides: { storage, rawBodies } })
  const tenant = await newTenant({ app })
  let stored = { rows: await countRows(tenant), objects: 0 }
  const statuses = new Map<number, number>()
  await fc.assert(
    fc.asyncProperty(arbitrary, coding, async ({ bytes, type }, { encoding, encode }) => {
      const headers = { 'X-Api-Key': tenant.key, ...(type && { 'Content-Type': type }) }
      const raw = encode(bytes)
      const sent = { raw, headers: { ...headers, ...(encoding && { 'Content-Encoding': encoding }) }, app }
      let reply!: Reply
      // A bomb is read to the limit.
      const size = raw === gzipBomb || raw === zstdBomb ? 4 * MAX_BYTES : bytes.byteLength
      await expectSmall(name, size, async () => {
        reply = await send('POST', path, sent)
      })
      statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1)
      expect(allowed, reply.text).toContain(reply.status)
      const now = { rows: await countRows(tenant), objects: paths.size }
      if (reply.status >= 400) expect(now, reply.text).toEqual(stored)
      if (reply.status >= 400) expect(reply.body.detail).not.toMatch(LEAK)
      stored = now
    }),
    { numRuns: bodies },
  )
  for (const [status, count] of statuses) answers.set(`${name} ${status}`, count)
  return statuses
}

it(
  'runs',
  async () => {
    const statuses = await sendAll(
      'runs',
      hostileMultipart('hostile'),
      '/runs/multipart',
      [202, 400, 404, 409, 413, 415, 422],
    )
    expect(statuses.get(202)).toBeGreaterThan(bodies / 20)
    expect(statuses.get(422)).toBeGreaterThan(bodies / 5)
  },
  patience,
)

it(
  'spans',
  async () => {
    const statuses = await sendAll('spans', hostileSpans, '/otel/v1/traces', [200, 400, 404, 409, 413, 415, 422])
    expect(statuses.get(200)).toBeGreaterThan(bodies / 10)
    expect(statuses.get(400)).toBeGreaterThan(bodies / 10)
  },
  patience,
)
