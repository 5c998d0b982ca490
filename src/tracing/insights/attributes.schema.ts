// Schemas of the attributes that a model reads from each trace.
import * as z from 'zod'
import { arrayOf, boundedText, recordOf } from '../../protocol/wire.ts'

const MAX_ATTRIBUTES = 20
const MAX_ENUM = 50
export const MAX_ATTRIBUTE_TEXT = 200

const AttributeSchema = z
  .object({
    type: z.enum(['string', 'number', 'boolean']),
    description: boundedText(1000).nullish(),
    enum: arrayOf(boundedText(MAX_ATTRIBUTE_TEXT).min(1), MAX_ENUM, 1).nullish(),
    filter_by: z.boolean().nullish().meta({ description: 'Leaves out runs for which it is not true.' }),
  })
  .check(({ value, issues }) => {
    const refuse = (path: string, message: string) =>
      issues.push({ code: 'custom', input: value, path: [path], message })
    if (value.filter_by && value.type !== 'boolean') refuse('filter_by', 'is allowed for type `boolean` only')
    if (value.enum && value.type !== 'string') refuse('enum', 'is allowed for type `string` only')
  })

const AttributeName = boundedText(64).regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: 'has up to 64 letters, digits and _' })

export const AttributeSchemas = recordOf(AttributeName, AttributeSchema, MAX_ATTRIBUTES).meta({
  description: 'What the model reads from each run, by name.',
})
export type AttributeSchemas = z.output<typeof AttributeSchemas>
