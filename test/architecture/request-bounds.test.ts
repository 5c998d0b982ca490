// Every schema for input from outside refuses it after reading a bounded part of it.
import { describe, expect, it } from 'vitest'
import * as z from 'zod'
import { RuntimeConfiguration } from '../../src/agent/builds/runtime.schema.ts'
import { KubernetesSettings } from '../../src/agent/engines/kubernetes/settings.ts'
import { operations } from '../../src/app.ts'
import * as hosts from '../../src/integrations/host-responses.ts'
import * as documents from '../../src/oauth/metadata-documents.ts'
import { arrayOf, boundedText, recordOf, Uuid } from '../../src/protocol/wire.ts'
import * as deliveries from '../../src/pushes/webhook-payloads.ts'
import { explainSlowness } from '../support/regular-expressions.ts'
import { findUnbounded, listPatterns } from '../support/schema-bounds.ts'

const schemasIn = (exported: object) =>
  Object.entries(exported).filter((entry): entry is [string, z.ZodType] => entry[1] instanceof z.ZodType)

describe('a request', () => {
  const schemas = operations.flatMap(({ id, params, query, body }) =>
    Object.entries({ params, query, body }).flatMap(([place, schema]) =>
      schema ? [[`${id} ${place}`, schema as z.ZodType] as const] : [],
    ),
  )
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

describe('an unbounded schema is found', () => {
  const A = /^a+$/
  it.each<[string, z.ZodType, number]>([
    ['a pattern', z.string().regex(A), 1],
    ['a pattern before the bound', z.string().regex(A).max(9, { abort: true }), 1],
    ['a pattern after a bound that does not end it', z.string().max(9).regex(A), 1],
    ['a refinement', z.object({ a: z.string().refine(Boolean) }), 1],
    ['a format', z.email().nullish(), 1],
    ['a format within a check', z.string().check(z.iso.datetime()), 1],
    ['a transformation', z.string().transform(Number), 1],
    ['a preparation', z.preprocess(String, boundedText(9)), 1],
    ['a list', z.object({ a: z.array(Uuid) }), 1],
    ['a list in a list', arrayOf(z.object({ a: z.array(Uuid) }), 9), 1],
    ['a record', z.record(boundedText(9), Uuid).optional(), 1],
    ['a slow pattern', boundedText(99).regex(/^\s+[a\s]+\s+$/), 1],
    [
      'nothing',
      z.object({
        a: boundedText(9).regex(A),
        b: arrayOf(Uuid, 9),
        c: recordOf(boundedText(9), Uuid, 9),
        d: z.string(),
      }),
      0,
    ],
  ])('%s', (_, schema, faults) => expect(findUnbounded(schema)).toHaveLength(faults))
})
