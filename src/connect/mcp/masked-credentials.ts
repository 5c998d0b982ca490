// Credentials in the replies of the API, which no model needs: members that their schema marks with `CREDENTIAL`.
import * as z from 'zod'
import { MASK } from './answers.ts'

type JsonSchema = {
  $ref?: string
  $defs?: Record<string, JsonSchema>
  anyOf?: JsonSchema[]
  oneOf?: JsonSchema[]
  allOf?: JsonSchema[]
  items?: JsonSchema
  properties?: Record<string, JsonSchema>
  additionalProperties?: JsonSchema | boolean
  'x-credential'?: boolean
}

const described = new WeakMap<z.ZodType, JsonSchema>()

function describe(reply: z.ZodType): JsonSchema {
  const known = described.get(reply)
  if (known) return known
  const schema = z.toJSONSchema(reply, { io: 'output', unrepresentable: 'any' }) as JsonSchema
  described.set(reply, schema)
  return schema
}

export function maskCredentials(reply: z.ZodType, body: unknown): unknown {
  const root = describe(reply)
  const mask = (schema: JsonSchema, value: unknown): unknown => {
    if (value === null || value === undefined) return value
    if (schema['x-credential']) return MASK
    const place = schema.$ref?.replace('#/$defs/', '')
    const parts = [
      ...(place === undefined ? [] : [place === '#' ? root : root.$defs![place]!]),
      ...[schema.anyOf, schema.oneOf, schema.allOf].flatMap(list => list ?? []),
    ]
    const masked = parts.reduce<unknown>((before, part) => mask(part, before), value)
    if (Array.isArray(masked)) return schema.items ? masked.map(item => mask(schema.items!, item)) : masked
    if (typeof masked !== 'object' || masked === null) return masked
    const { properties = {}, additionalProperties: others } = schema
    const member = (name: string, one: unknown): unknown => {
      if (Object.hasOwn(properties, name)) return mask(properties[name]!, one)
      return typeof others === 'object' ? mask(others, one) : one
    }
    return Object.fromEntries(Object.entries(masked).map(([name, one]) => [name, member(name, one)]))
  }
  return mask(root, body)
}
