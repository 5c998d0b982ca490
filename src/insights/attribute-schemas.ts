// Attributes that a model reads from each trace: their schemas, and values that match them.
import * as z from 'zod'
import { cleanLine } from './clean-text.ts'

const MAX_ATTRIBUTES = 20
const MAX_ENUM = 50
const MAX_TEXT = 200

const AttributeSchema = z
  .object({
    type: z.enum(['string', 'number', 'boolean']),
    description: z.string().max(1000).nullish(),
    enum: z.array(z.string().min(1).max(MAX_TEXT)).min(1).max(MAX_ENUM).nullish(),
    filter_by: z.boolean().nullish(),
  })
  .check(({ value, issues }) => {
    const refuse = (path: string, message: string) =>
      issues.push({ code: 'custom', input: value, path: [path], message })
    if (value.filter_by && value.type !== 'boolean') refuse('filter_by', 'is allowed for type `boolean` only')
    if (value.enum && value.type !== 'string') refuse('enum', 'is allowed for type `string` only')
  })

export const AttributeSchemas = z
  .record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/, 'has up to 64 letters, digits and _'), AttributeSchema)
  .refine(schemas => Object.keys(schemas).length <= MAX_ATTRIBUTES, `has at most ${MAX_ATTRIBUTES} attributes`)
export type AttributeSchemas = z.output<typeof AttributeSchemas>

export type Attributes = Record<string, string | number | boolean | null>

/** For the answer of a model. Every attribute is required, and null where the trace does not say it. */
export const attributesJsonSchema = (schemas: AttributeSchemas): object => ({
  type: 'object',
  additionalProperties: false,
  required: Object.keys(schemas),
  properties: Object.fromEntries(
    Object.entries(schemas).map(([name, { type, description, enum: texts }]) => [
      name,
      {
        type: [type, 'null'],
        ...(description && { description }),
        ...(texts && { enum: [...texts, null] }),
      },
    ]),
  ),
})

/** A value that does not match its schema is null, because the trace is worth more than one attribute of it. */
export const readAttributes = (schemas: AttributeSchemas, given: Record<string, unknown>): Attributes =>
  Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, readValue(schema, given[name])]))

function readValue({ type, enum: texts }: AttributeSchemas[string], value: unknown): Attributes[string] {
  if (typeof value !== type || (type === 'number' && !Number.isFinite(value))) return null
  if (texts && !texts.includes(value as string)) return null
  return type === 'string' ? cleanLine(value as string, MAX_TEXT) : (value as number | boolean)
}

/** Whether the trace stays in the job. An attribute that is not known to be true drops it. */
export const isKept = (schemas: AttributeSchemas, attributes: Attributes): boolean =>
  Object.entries(schemas).every(([name, { filter_by }]) => !filter_by || attributes[name] === true)
