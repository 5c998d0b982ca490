// Describes a JSON Schema for the page: fields with a type and limits, and an example value. Pure.
import { type OpenApiDocument, refName, resolveReference, type Schema } from './openapi-document.ts'

export interface Field {
  name: string
  type: string
  required: boolean
  nullable: boolean
  deprecated: boolean
  description: string
  limits: string[]
  /** The schema to link to, where the tree stops because it is recursive or too deep. */
  schemaName: string | undefined
  fields: Field[]
}

const MAX_DEPTH = 5

const toJson = (value: unknown) => JSON.stringify(value) ?? ''
const isNull = (schema: Schema) => schema.type === 'null' || schema.const === null

/** Resolves the reference, merges `allOf` and separates "or null". */
const flattenSchema = (document: OpenApiDocument, input: Schema | boolean | undefined) => {
  const outer: Schema = typeof input === 'object' ? input : {}
  let schema: Schema = outer.$ref ? { ...resolveReference(document, outer), ...outer } : outer
  const refs = outer.$ref ? [outer.$ref] : []
  for (const part of schema.allOf ?? []) {
    if (part.$ref) refs.push(part.$ref)
    const other = resolveReference(document, part) as Schema
    schema = {
      ...other,
      ...schema,
      properties: { ...schema.properties, ...other.properties },
      required: [...(schema.required ?? []), ...(other.required ?? [])],
    }
  }
  const types = [schema.type ?? []].flat()
  const choices = schema.anyOf ?? schema.oneOf ?? []
  const nonNull = choices.filter(choice => !isNull(choice))
  const nullable = types.includes('null') || nonNull.length < choices.length
  return { schema, refs, choices: nonNull, types: types.filter(type => type !== 'null'), nullable }
}

const rangeText = (low: unknown, high: unknown, unit: string) => {
  if (low === undefined && high === undefined) return []
  if (low === high) return [`exactly ${low}${unit}`]
  if (high === undefined) return [`at least ${low}${unit}`]
  return low === undefined ? [`at most ${high}${unit}`] : [`${low} to ${high}${unit}`]
}

// Generators give every integer the safe range as its limits.
const meaningfulLimit = (limit: number | undefined) =>
  limit !== undefined && Math.abs(limit) < Number.MAX_SAFE_INTEGER ? limit : undefined

const limitsOf = (schema: Schema): string[] => [
  ...(schema.enum ? [`one of ${schema.enum.map(toJson).join(', ')}`] : []),
  ...(schema.const === undefined ? [] : [`always ${toJson(schema.const)}`]),
  ...(schema.exclusiveMinimum === undefined ? [] : [`more than ${schema.exclusiveMinimum}`]),
  ...rangeText(meaningfulLimit(schema.minimum), meaningfulLimit(schema.maximum), ''),
  ...(schema.exclusiveMaximum === undefined ? [] : [`less than ${schema.exclusiveMaximum}`]),
  ...(schema.multipleOf === undefined ? [] : [`multiple of ${schema.multipleOf}`]),
  ...rangeText(schema.minLength, schema.maxLength, ' characters'),
  ...rangeText(schema.minItems, schema.maxItems, ' items'),
  ...(schema.uniqueItems ? ['no duplicates'] : []),
  // The format describes the pattern.
  ...(schema.pattern && !schema.format ? [`matches ${schema.pattern}`] : []),
  ...(schema.default === undefined ? [] : [`default ${toJson(schema.default)}`]),
  ...(schema.readOnly ? ['read only'] : []),
  ...(schema.writeOnly ? ['write only'] : []),
]

const PLURALS: Record<string, string> = {
  any: 'anything',
  string: 'strings',
  integer: 'integers',
  number: 'numbers',
  boolean: 'booleans',
  object: 'objects',
  'one of these': 'these',
}

/** Describes a schema as one field. `parents` holds the enclosing references, so that a cycle ends in a link. */
export const describeField = (
  document: OpenApiDocument,
  input: Schema | boolean | undefined,
  name = '',
  required = false,
  parents: readonly string[] = [],
): Field => {
  const { schema, refs, choices, types, nullable } = flattenSchema(document, input)
  const field: Field = {
    name,
    type: types.join(' or ') || (schema.properties ? 'object' : ''),
    required,
    nullable,
    deprecated: schema.deprecated === true,
    description: schema.description ?? '',
    limits: limitsOf(schema),
    schemaName: undefined,
    fields: [],
  }
  if (schema.format) field.type += `${field.type && ' · '}${schema.format}`
  const ref = refs[0]
  if (ref && (refs.some(name => parents.includes(name)) || parents.length >= MAX_DEPTH))
    return { ...field, type: refName(ref), schemaName: refName(ref) }

  const path = [...parents, ...refs]
  const child = (label: string, part: Schema | boolean | undefined, isRequired = false) =>
    describeField(document, part, label, isRequired, path)

  if (choices.length === 1) return mergeFields(field, child(name, choices[0], required), nullable)
  if (choices.length > 1) {
    field.fields = choices.map((choice, index) => child(choiceName(document, choice, index), choice))
    const isPlain = field.fields.every(
      ({ fields, limits, schemaName }) => fields.length === 0 && limits.length === 0 && !schemaName,
    )
    field.type = isPlain ? [...new Set(field.fields.map(({ type }) => type))].join(' or ') : 'one of these'
    if (isPlain) field.fields = []
  } else if (types.includes('array') || schema.items || schema.prefixItems) {
    if (schema.prefixItems) field.fields = schema.prefixItems.map((part, index) => child(String(index), part))
    const item = typeof schema.items === 'object' ? child('', schema.items) : undefined
    if (item) {
      field.type = `array of ${PLURALS[item.type] ?? item.type}`
      field.limits.push(...item.limits.map(limit => `each ${limit}`))
      field.fields = item.fields
      field.schemaName = item.schemaName
    }
  } else {
    const requiredNames = new Set(schema.required)
    field.fields = Object.entries(schema.properties ?? {}).map(([key, part]) =>
      child(key, part, requiredNames.has(key)),
    )
    const rest = schema.additionalProperties
    if (typeof rest === 'object' && Object.keys(rest).length > 0) field.fields.push(child('any name', rest))
  }
  field.type ||= 'any'
  return field
}

const mergeFields = (outer: Field, inner: Field, nullable: boolean): Field => ({
  ...inner,
  nullable: nullable || inner.nullable,
  deprecated: outer.deprecated || inner.deprecated,
  description: outer.description || inner.description,
  limits: [...inner.limits, ...outer.limits],
})

const choiceName = (document: OpenApiDocument, choice: Schema, index: number): string => {
  if (choice.title || choice.$ref) return choice.title ?? refName(choice.$ref ?? '')
  const constants = Object.entries((resolveReference(document, choice) as Schema).properties ?? {})
    .filter(([, part]) => typeof part === 'object' && part.const !== undefined)
    .map(([key, part]) => `${key} = ${toJson((part as Schema).const)}`)
  return constants[0] ?? `choice ${index + 1}`
}

const FORMATS: Record<string, string> = {
  uuid: '018f3c1e-7a2b-7c3d-8e4f-5a6b7c8d9e0f',
  'date-time': '2026-01-31T09:30:00Z',
  date: '2026-01-31',
  email: 'ada@example.com',
  uri: 'https://example.com',
  ipv4: '192.0.2.1',
}

/** An example value. `whole`: all members, for a response. Otherwise the required ones, or all if none is required. */
export const buildExample = (
  document: OpenApiDocument,
  input: Schema | boolean | undefined,
  whole: boolean,
  parents: readonly string[] = [],
): unknown => {
  const { schema, refs, choices, types, nullable } = flattenSchema(document, input)
  if (schema.example !== undefined) return schema.example
  if (Array.isArray(schema.examples) && schema.examples.length > 0) return schema.examples[0]
  if (schema.default !== undefined) return schema.default
  if (schema.const !== undefined) return schema.const
  if (schema.enum) return schema.enum[0]
  const path = [...parents, ...refs]
  const stop = refs.some(name => parents.includes(name)) || path.length > MAX_DEPTH
  if (choices.length > 0) return stop ? null : buildExample(document, choices[0], whole, path)
  if (schema.properties || types.includes('object')) {
    if (stop) return nullable ? null : {}
    const requiredNames = new Set(schema.required)
    const members = Object.entries(schema.properties ?? {}).filter(
      ([key, part]) =>
        (whole || requiredNames.size === 0 || requiredNames.has(key)) && (whole || !(part as Schema).readOnly),
    )
    return Object.fromEntries(members.map(([key, part]) => [key, buildExample(document, part, whole, path)]))
  }
  if (types.includes('array') || schema.prefixItems) {
    if (stop) return []
    const parts = schema.prefixItems ?? (typeof schema.items === 'object' ? [schema.items] : [])
    return parts.map(part => buildExample(document, part, whole, path))
  }
  const type = types[0]
  if (type === 'integer' || type === 'number')
    return meaningfulLimit(schema.minimum) ?? (schema.exclusiveMinimum ?? -1) + 1
  if (type === 'boolean') return false
  return type === 'string' ? (FORMATS[schema.format ?? ''] ?? 'string') : null
}
