// Values deep in a specification that pass the schema but can break a database: stored, or refused with a reason.
import { expect, it } from 'vitest'
import { newTenant } from '../support/app.ts'

const body = (resource_spec: unknown) => ({
  name: `app-${crypto.randomUUID()}`,
  source: 'internal_container',
  source_config: { resource_spec },
  source_revision_config: {},
  secrets: [],
})
const volume = (emptyDir: unknown) => ({ volumes: [{ name: 'v', emptyDir }] })
const nested = (depth: number): unknown => (depth === 0 ? {} : { a: nested(depth - 1) })

const specs: [string, unknown][] = [
  ['an integer past int4', { memory_mb: 2 ** 31, max_scale: 2 ** 40 }],
  ['the greatest integer', { memory_mb: Number.MAX_SAFE_INTEGER }],
  ['an integer past it', { memory_mb: 2 ** 53 }],
  ['a huge exponent', volume({ a: 1e300 })],
  ['a tiny number', volume({ a: 5e-324, b: [1e-300, -1e-7] })],
  ['a negative scale', { min_scale: -1 }],
  ['half a scale', { min_scale: 0.5 }],
  ['members named as an object’s own', volume(JSON.parse('{"__proto__":{"a":1},"constructor":1,"toString":null}'))],
  ['quotes and escapes', volume({ "'; drop table deployments; --": '\\u0000 \\ " \' $1 {a} \u2028 \ufeff \u202e' })],
  ['an escaped NUL', volume({ a: 'a\0b' })],
  ['a lone surrogate', volume({ a: '\ud800' })],
  ['deep nesting', volume(nested(40))],
  ['deeper nesting', volume(nested(70))],
  ['many members', volume(Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`k${i}`, i])))],
  ['a long text', volume({ a: 'x'.repeat(500_000) })],
]

it.each(specs)('%s is kept as it came or refused, when made and when patched', async (_, resource_spec) => {
  const tenant = await newTenant()
  const made = await tenant.post('/v2/deployments', body(resource_spec))
  expect([201, 400, 422]).toContain(made.status)
  const plain = await tenant.post('/v2/deployments', body({}))
  const path = `/v2/deployments/${plain.body.id}`
  const patched = await tenant.patch(path, { source_config: { resource_spec } })
  expect(patched.status).toBe(made.status === 201 ? 200 : made.status)
  const planned = await tenant.patch(`${path}?dry_run=true`, { source_config: { resource_spec } })
  expect(planned.status).toBe(patched.status)
  if (made.status !== 201) return
  expect(patched.body.source_config.resource_spec).toEqual(made.body.source_config.resource_spec)
  expect((await tenant.get(path)).body.source_config.resource_spec).toMatchObject(resource_spec as object)
  // Said again it is no news, for the plan as for the database.
  expect(planned.body.creates_revision).toBe(false)
  const again = await tenant.patch(path, { source_config: { resource_spec } })
  expect(again.body.latest_revision_id).toBe(patched.body.latest_revision_id)
})
