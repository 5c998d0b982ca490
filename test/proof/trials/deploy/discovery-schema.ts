// Checks documents against the published schema of a Google API: its discovery document.
export type DiscoverySchema = {
  $ref?: string
  type?: string
  format?: string
  enum?: string[]
  properties?: Record<string, DiscoverySchema>
  additionalProperties?: DiscoverySchema
  items?: DiscoverySchema
  description?: string
}
type Schemas = Record<string, DiscoverySchema>

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** All faults, each with its path. Members that the schema does not have are faults. */
export function findFaults(schemas: Schemas, schema: DiscoverySchema, value: unknown, path = ''): string[] {
  const { $ref, type, format, properties, additionalProperties, items } = schema
  if ($ref) return findFaults(schemas, schemas[$ref]!, value, path)
  const wrong = [`${path} must be ${type}`]
  if (type === 'object') {
    if (!isRecord(value)) return wrong
    return Object.entries(value).flatMap(([name, member]) => {
      const found = properties?.[name] ?? additionalProperties
      return found ? findFaults(schemas, found, member, `${path}.${name}`) : [`${path}.${name} does not exist`]
    })
  }
  if (type === 'array')
    return Array.isArray(value) ? value.flatMap((item, i) => findFaults(schemas, items!, item, `${path}[${i}]`)) : wrong
  if (type === 'integer') return Number.isInteger(value) ? [] : wrong
  if (type === 'number' || type === 'boolean') return typeof value === type ? [] : wrong
  // Numbers of 64 bits are strings in JSON, and may be numbers in YAML.
  if (type === 'string')
    return typeof value === 'string' || (format === 'int64' && Number.isInteger(value)) ? [] : wrong
  return []
}
