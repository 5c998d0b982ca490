// Every schema for input from outside reads only a bounded part of it before it accepts or refuses it.
import { describe, expect, it } from 'vitest'
import * as z from 'zod'
import { KubernetesSettings } from '../../src/agent/engines/kubernetes/settings.ts'
import { loadOperations } from '../../src/app.ts'
import { RuntimeConfiguration } from '../../src/build-plan/runtime.schema.ts'
import * as documents from '../../src/connect/oauth/metadata-documents.ts'
import * as hosts from '../../src/hosting/git-hosts/host-responses.ts'
import * as deliveries from '../../src/hosting/pushes/webhook-payloads.ts'
import { arrayOf, boundedText, recordOf, Uuid } from '../../src/protocol/wire.ts'
import { explainSlowness } from '../support/regular-expressions.ts'
import { findUnbounded, listPatterns } from '../support/schema-bounds.ts'

const operations = await loadOperations()

const schemasIn = (exported: object) =>
  Object.entries(exported).filter((entry): entry is [string, z.ZodType] => entry[1] instanceof z.ZodType)

describe('a request', () => {
  const schemas = operations.flatMap(operation => {
    const { id, params, query } = operation
    const body = operation.kind === 'json' || operation.kind === 'open' ? operation.body : undefined
    const rawBody = operation.kind === 'raw' ? operation.rawBody : {}
    return [
      ...Object.entries({ params, query, body }).flatMap(([place, schema]) =>
        schema ? [[`${id} ${place}`, schema as z.ZodType] as const] : [],
      ),
      ...Object.entries(rawBody).flatMap(([type, { schema }]) => (schema ? [[`${id} ${type}`, schema] as const] : [])),
    ]
  })
  it.each(schemas)('%s is bounded', (_, schema) => expect(findUnbounded(schema)).toEqual([]), 120_000)
})

it.each([
  ...schemasIn(deliveries),
  ...schemasIn(hosts),
  ...schemasIn(documents),
  ['RuntimeConfiguration', RuntimeConfiguration] as const,
])('%s, from a git host, an OAuth server or a repository, is bounded', (_, schema) => {
  // These schemas truncate long texts before they check them.
  expect(findUnbounded(schema).filter(fault => !fault.includes('transforms a text'))).toEqual([])
})

it('the settings of a cluster match in linear time', () => {
  const slow = listPatterns(KubernetesSettings).filter(({ source, flags }) =>
    explainSlowness({ pattern: source, flags }),
  )
  expect(slow).toEqual([])
}, 120_000)

describe('the check of schemas', () => {
  const A = /^a+$/
  it.each<[string, z.ZodType]>([
    ['a pattern without a bound', z.string().regex(A)],
    ['a pattern before its bound', z.string().regex(A).max(9, { abort: true })],
    ['a pattern after a bound that does not end the validation', z.string().max(9).regex(A)],
    ['a refinement without a bound', z.object({ a: z.string().refine(Boolean) })],
    ['a format without a bound', z.email().nullish()],
    ['a format within a check, without a bound', z.string().check(z.iso.datetime())],
    ['a transformation without a bound', z.string().transform(Number)],
    ['a preprocessing step before the bound', z.preprocess(String, boundedText(9))],
    ['a list without a bound', z.object({ a: z.array(Uuid) })],
    ['a list without a bound in a bounded list', arrayOf(z.object({ a: z.array(Uuid) }), 9)],
    ['a record without a bound', z.record(boundedText(9), Uuid).optional()],
    ['a slow pattern', boundedText(99).regex(/^\s+[a\s]+\s+$/)],
  ])('reports %s', (_, schema) => expect(findUnbounded(schema)).toHaveLength(1))

  it('reports nothing if every pattern, list and record is bounded', () => {
    const schema = z.object({
      a: boundedText(9).regex(A),
      b: arrayOf(Uuid, 9),
      c: recordOf(boundedText(9), Uuid, 9),
      d: z.string(),
    })
    expect(findUnbounded(schema)).toEqual([])
  })
})
