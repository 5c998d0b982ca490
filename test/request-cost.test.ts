// The CPU time that a hostile request may take: 50 ms per 64 KiB of body, and at most 250 ms (R15).
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import * as documents from '../src/connect/oauth/metadata-documents.ts'
import { STAGES } from '../src/connect/oauth/stage-failure.ts'
import * as deliveries from '../src/hosting/pushes/webhook-payloads.ts'
import { parseDelivery } from '../src/hosting/pushes/webhook-payloads.ts'
import { newApiKey } from '../src/kernel/crypto/crypto.ts'
import { Failure } from '../src/kernel/http/errors.ts'
import type { Operation } from '../src/kernel/http/routes.ts'
import { findOperation, guardedOperations, newTenant, send as sendTo, startApp } from './support/app.ts'
import { expectCheap, getCpuBudget, getRawCpuBudget, validateBody } from './support/cpu-cost.ts'
import { makeLargestBodies, makeLargestUnknownBodies } from './support/largest-bodies.ts'
import { type LargestRawBody, makeLargestRawBodies } from './support/largest-raw-bodies.ts'
import { expectSmall } from './support/memory-cost.ts'
import * as fc from './support/seeded-fast-check.ts'

const SMALL = 64 * 1024
const LARGE = 1024 * 1024 - 8 * 1024
const isDeep = fc.requests >= 10_000
const app = startApp()
const key = newApiKey()

/** Sends the request with an unknown key, so that a valid body is answered with 401. */
async function send(method: string, path: string, text: string): Promise<Response> {
  const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json' }
  const reply = await app.fetch(new Request(`http://slipway.test${path}`, { method, headers, body: text }))
  await reply.text()
  return reply
}

const filled = (count: number, one: unknown) => Array(count).fill(one)
const PEM = `-----BEGIN PRIVATE KEY-----${' '.repeat(60_000)}`
const LONG = `${'*'.repeat(8)}${'a'.repeat(50_000)}`
const variables = (count: number) => {
  const sidecars = filled(20, { name: 'a', image: 'a', env: filled(count, {}) })
  return { source_config: { resource_spec: { sidecars } } }
}

const withBody = guardedOperations.filter(one => one.kind === 'json').filter(one => one.body)
const bodies = [...new Map(withBody.toReversed().map(one => [one.body, one])).values()]
const pathOf = (path: string) => path.replace(/\{number\}/g, '1').replace(/\{\w+\}/g, crypto.randomUUID())

describe('CPU time stays within its budget', () => {
  it.each(bodies.map(one => [one.id, one] as const))('for %s with any body', async (_, { method, path, body }) => {
    for (const [i, { name, text }] of makeLargestBodies(body!, SMALL).entries()) {
      const size = Buffer.byteLength(text)
      await expectCheap(name, size, () => validateBody(body!, text))
      // The rest of a request costs the same for all of them: most of its time is that of the database.
      if (!isDeep && (i + fc.seed) % 40 !== 0) continue
      await expectCheap(`a request with ${name}`, size, async () =>
        expect([401, 413, 422]).toContain((await send(method.toUpperCase(), pathOf(path), text)).status),
      )
    }
  })

  it.each(bodies.map(one => [one.id, one] as const))('for the largest bodies of %s', async (_, { body }) => {
    expect(getCpuBudget(LARGE)).toBe(250)
    // Each seed selects other bodies, and FUZZ_REQUESTS=10000 tries all of them.
    const some = makeLargestBodies(body!, LARGE).filter((_, i) => isDeep || (i + fc.seed) % 40 === 0)
    for (const { name, text } of some) await expectCheap(name, Buffer.byteLength(text), () => validateBody(body!, text))
  })

  it.each<[string, string, string, object]>([
    ['a private key with 60 KB of spaces', 'POST', '/v1/integrations/forge/githost', { private_key: PEM }],
    [
      '60,000 containers',
      'POST',
      '/v2/deployments',
      { source_config: { resource_spec: { sidecars: filled(60_000, {}) } } },
    ],
    ['300,000 secrets', 'POST', '/v2/deployments', { secrets: filled(300_000, {}) }],
    ['300,000 environment variables', 'POST', '/v2/deployments', variables(15_000)],
    ['as many environment variables as are accepted', 'POST', '/v2/deployments', variables(450)],
    ['long branches', 'PUT', `/v2/deployments/${crypto.randomUUID()}/preview-policy`, { branches: filled(20, LONG) }],
  ])('for a body with %s', async (name, method, path, body) => {
    const text = JSON.stringify(body)
    const operation = findOperation(method, path)
    if (operation?.kind !== 'json') throw new Error(`${method} ${path} takes no JSON`)
    await expectCheap(name, text.length, () => validateBody(operation.body!, text))
    await expectCheap(name, text.length, async () =>
      expect([401, 422]).toContain((await send(method, path, text)).status),
    )
  })

  it.each(['a&', '&', 'state&', 'state=a&', '+=%&', 'a=%41&'])(
    'for a form that repeats "%s", on a route without a key',
    async unit => {
      const headers = { 'Content-Type': 'application/x-www-form-urlencoded' }
      for (const size of [SMALL, 4 * SMALL, LARGE]) {
        const body = unit.repeat(size / unit.length)
        await expectCheap(unit, size, async () => {
          const request = new Request('http://slipway.test/v2/auth/callback/a', { method: 'POST', headers, body })
          expect([400, 413]).toContain((await app.fetch(request)).status)
        })
      }
    },
  )

  it.each([SMALL, LARGE])('for a body of %i bytes that matches no schema', async size => {
    const { body } = bodies.find(one => one.id === 'createDeployment')!
    for (const { name, text } of makeLargestUnknownBodies(size))
      await expectCheap(name, Buffer.byteLength(text), () => validateBody(body!, text))
  })

  it.each([
    ['push', deliveries.PushPayload],
    ['create', deliveries.RefPayload],
    ['pull_request', deliveries.PullRequestPayload],
    ['installation', deliveries.InstallationPayload],
  ] as const)('for a delivery of the git host event %s with any content', async (event, schema) => {
    for (const { name, text } of makeLargestBodies(schema, 4 * SMALL)) {
      const run = () => {
        try {
          parseDelivery(event, JSON.parse(text))
        } catch (error) {
          expect((error as Error).name).toBe('ZodError')
        }
      }
      await expectCheap(name, Buffer.byteLength(text), run)
    }
  })

  it.each([
    ['resource', documents.ResourceMetadata],
    ['server', documents.ServerMetadata],
  ] as const)('for any metadata document of an OAuth %s', async (_, shape) => {
    for (const { name, text } of makeLargestBodies(shape, SMALL)) {
      const run = () => {
        try {
          documents.parseMetadata(
            shape,
            { document: JSON.parse(text), address: 'https://auth.example.com' },
            STAGES.server,
          )
        } catch (error) {
          expect(error).toBeInstanceOf(Failure)
        }
      }
      await expectCheap(name, Buffer.byteLength(text), run)
    }
  })
})

// A valid key sends them, because no body over 64 KiB is read for another one.
describe('CPU time and memory of a body that a verb gets as bytes stay within their budgets', () => {
  const raw = guardedOperations.filter(one => one.kind === 'raw')
  const MIB = 1024 * 1024

  async function expectBounded(operation: Operation, { name, type, bytes }: LargestRawBody, { key }: { key: string }) {
    const headers = { 'X-Api-Key': key, 'Content-Type': type, 'Content-Encoding': 'gzip' }
    const zipped = Uint8Array.from(gzipSync(bytes))
    const size = bytes.byteLength
    const request = async () => {
      const { status } = await sendTo(operation.method.toUpperCase(), pathOf(operation.path), { raw: zipped, headers })
      expect(status, name).toBeLessThan(500)
    }
    await expectSmall(name, size, () => expectCheap(name, size, request, getRawCpuBudget(size)))
  }

  /** The seed selects some of them, and FUZZ_REQUESTS=10000 tries all. */
  it.each(raw.map(one => [one.id, one] as const))('for %s, compressed', async (_, operation) => {
    const tenant = await newTenant()
    const size = isDeep ? LARGE : 4 * SMALL
    const schemas = Object.values(operation.rawBody).flatMap(({ schema }) =>
      schema ? makeLargestBodies(schema, size).filter((_, i) => (i + fc.seed) % (isDeep ? 4 : 100) === 0) : [],
    )
    const all = makeLargestRawBodies(operation, size, schemas)
    const some = all.filter((_, i) => isDeep || (i + fc.seed) % 8 === 0)
    for (const body of some) await expectBounded(operation, body, tenant)
  })

  it.each([
    ['exportSpans', 'application/json: whole of []'],
    ['exportSpans', 'application/json: resourceSpans of {}'],
    ['exportSpans', 'application/json: JSON in input.value of {}'],
    ['exportSpans', 'application/json: a resource with many spans of ""'],
    ['exportSpans', 'application/x-protobuf: empty events'],
    ['createExample', 'application/json: a member that is not known of {}'],
    ['uploadCsvDataset', 'multipart/form-data: a row of cells'],
    ['uploadCsvDataset', 'multipart/form-data: a long name of a column'],
    ['createRuns', 'application/json: inputs in a batch of {}'],
    ['createRunsFromParts', 'multipart/form-data: many headers'],
  ])('for %s with 16 MiB in a few: %s', async (id, what) => {
    const operation = raw.find(one => one.id === id)!
    const body = makeLargestRawBodies(operation, 16 * MIB, []).find(({ name }) => name === `${id}, ${what}`)!
    await expectBounded(operation, body, await newTenant())
  })
})
