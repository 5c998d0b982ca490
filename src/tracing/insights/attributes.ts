// Values of attributes that a model reads from each trace, as their schemas say.
import { type AttributeSchemas, MAX_ATTRIBUTE_TEXT } from './attributes.schema.ts'
import { cleanLine } from './clean-text.ts'

export type Attributes = Record<string, string | number | boolean | null>

/** Describes the answer of a model. Every attribute is required, and null where the trace does not say it. */
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
  return type === 'string' ? cleanLine(value as string, MAX_ATTRIBUTE_TEXT) : (value as number | boolean)
}

/** Keeps a trace in the job. An attribute that is not known to be true drops it. */
export const isKept = (schemas: AttributeSchemas, attributes: Attributes): boolean =>
  Object.entries(schemas).every(([name, { filter_by }]) => !filter_by || attributes[name] === true)
