// Values that the schema accepts deep in a specification, but that a database may not be able to store.
import { expect, it } from 'vitest'
import { newTenant } from '../../support/app.ts'

const makeBody = (resource_spec: unknown) => ({
  name: `app-${crypto.randomUUID()}`,
  source: 'internal_container',
  source_config: { resource_spec },
  source_revision_config: {},
  secrets: [],
})
const withVolume = (emptyDir: unknown) => ({ volumes: [{ name: 'v', emptyDir }] })
const nestObjects = (depth: number): unknown => (depth === 0 ? {} : { a: nestObjects(depth - 1) })

const specs: [string, unknown][] = [
  ['an integer over 32 bits', { memory_mb: 2 ** 31, max_scale: 2 ** 40 }],
  ['the largest safe integer', { memory_mb: Number.MAX_SAFE_INTEGER }],
  ['an integer over the largest safe integer', { memory_mb: 2 ** 53 }],
  ['a huge exponent', withVolume({ a: 1e300 })],
  ['a tiny number', withVolume({ a: 5e-324, b: [1e-300, -1e-7] })],
  ['a negative scale', { min_scale: -1 }],
  ['a fractional scale', { min_scale: 0.5 }],
  [
    'members named like properties of every object',
    withVolume(JSON.parse('{"__proto__":{"a":1},"constructor":1,"toString":null}')),
  ],
  [
    'quotes and escapes',
    withVolume({ "'; drop table deployments; --": '\\u0000 \\ " \' $1 {a} \u2028 \ufeff \u202e' }),
  ],
  ['an escaped NUL', withVolume({ a: 'a\0b' })],
  ['a lone surrogate', withVolume({ a: '\ud800' })],
  ['deep nesting', withVolume(nestObjects(40))],
  ['deeper nesting', withVolume(nestObjects(70))],
  ['many members', withVolume(Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`k${i}`, i])))],
  ['a long text', withVolume({ a: 'x'.repeat(500_000) })],
]

it.each(specs)(
  'a specification with %s is stored unchanged or refused, alike in a new and in a patched deployment',
  async (_, resource_spec) => {
    const tenant = await newTenant()
    const created = await tenant.post('/v2/deployments', makeBody(resource_spec))
    expect([201, 400, 422]).toContain(created.status)
    const plain = await tenant.post('/v2/deployments', makeBody({}))
    const path = `/v2/deployments/${plain.body.id}`
    const patched = await tenant.patch(path, { source_config: { resource_spec } })
    expect(patched.status).toBe(created.status === 201 ? 200 : created.status)
    const planned = await tenant.patch(`${path}?dry_run=true`, { source_config: { resource_spec } })
    expect(planned.status).toBe(patched.status)
    if (created.status !== 201) return
    expect(patched.body.source_config.resource_spec).toEqual(created.body.source_config.resource_spec)
    expect((await tenant.get(path)).body.source_config.resource_spec).toMatchObject(resource_spec as object)
    // The same specification again is no change, neither for the plan nor for the database.
    expect(planned.body.creates_revision).toBe(false)
    const repeated = await tenant.patch(path, { source_config: { resource_spec } })
    expect(repeated.body.latest_revision_id).toBe(patched.body.latest_revision_id)
  },
)
