// Reads an OpenAPI 3.1 document: resolves its references and groups its operations by tag.

export interface Schema {
  $ref?: string
  type?: string | string[]
  title?: string
  description?: string
  format?: string
  pattern?: string
  contentEncoding?: string
  enum?: unknown[]
  const?: unknown
  default?: unknown
  example?: unknown
  examples?: unknown
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
  exclusiveMaximum?: number
  multipleOf?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  uniqueItems?: boolean
  properties?: Record<string, Schema | boolean>
  required?: string[]
  additionalProperties?: Schema | boolean
  items?: Schema | boolean
  prefixItems?: Schema[]
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
  readOnly?: boolean
  writeOnly?: boolean
  deprecated?: boolean
}

// Loose types, so that the document type of any generator fits without a cast.
export interface OpenApiDocument {
  openapi: string
  info: object
  tags?: unknown
  paths?: unknown
  components?: unknown
  security?: unknown
  'x-errors'?: unknown
}

interface Media {
  type: string
  schema: Schema
  example?: unknown
}

export interface Parameter {
  name: string
  in: string
  required: boolean
  description: string
  schema: Schema
  repeats: boolean
}

export interface ApiResponse {
  status: string
  description: string
  /** The page lists the codes of this status once, in its section on errors. */
  isListed: boolean
  media: Media | undefined
  headers: { name: string; description: string }[]
}

export interface Operation {
  id: string
  method: string
  path: string
  tag: string
  summary: string
  description: string
  permission: string | undefined
  open: boolean
  deprecated: boolean
  parameters: Parameter[]
  body: (Media & { required: boolean; description: string }) | undefined
  responses: ApiResponse[]
}

const METHODS = ['get', 'post', 'put', 'patch', 'delete', 'head', 'options', 'trace']

type Node = Record<string, unknown>

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && !Array.isArray(value)
const asNode = (value: unknown): Node => (isNode(value) ? value : {})
const asList = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])
const asText = (value: unknown): string => (typeof value === 'string' ? value : '')

const resolvePointer = (document: OpenApiDocument, ref: string): unknown => {
  if (!ref.startsWith('#/')) return undefined
  let node: unknown = document
  for (const part of ref.slice(2).split('/')) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~')
    if (!isNode(node) || !Object.hasOwn(node, key)) return undefined
    node = node[key]
  }
  return node
}

/** Follows `$ref`. Empty if the reference leads nowhere or is circular. */
export const resolveReference = (document: OpenApiDocument, value: unknown): Node => {
  let node = value
  for (let hops = 0; hops < 16; hops++) {
    if (!isNode(node)) return {}
    if (typeof node.$ref !== 'string') return node
    node = resolvePointer(document, node.$ref)
  }
  return {}
}

export const refName = (ref: string) => ref.slice(ref.lastIndexOf('/') + 1)
export const slug = (name: string) => name.replace(/[^\w.-]+/g, '-')

const firstExample = (examples: unknown) => {
  const first = Object.values(asNode(examples))[0]
  return isNode(first) && 'value' in first ? first.value : undefined
}

const mediaOf = (content: unknown): Media | undefined => {
  const entries = Object.entries(asNode(content))
  const [type, value] = entries.find(([name]) => name.includes('json')) ?? entries[0] ?? []
  if (!type || !isNode(value)) return undefined
  return { type, schema: asNode(value.schema), example: value.example ?? firstExample(value.examples) }
}

const parameterOf = (value: Node): Parameter => ({
  name: asText(value.name),
  in: asText(value.in),
  required: value.required === true,
  description: asText(value.description),
  schema: { ...asNode(value.schema), ...('example' in value && { example: value.example }) },
  repeats: asNode(value.schema).type === 'array' && value.explode !== false,
})

const responseOf = (document: OpenApiDocument, status: string, reference: unknown): ApiResponse => {
  const value = resolveReference(document, reference)
  const isListed =
    '$ref' in asNode(reference) && listErrorCodes(document).some(error => String(error.status) === status)
  const headers = Object.entries(asNode(value.headers)).map(([name, header]) => {
    const { description } = resolveReference(document, header)
    return { name, description: asText(description) }
  })
  return { status, description: asText(value.description), isListed, media: mediaOf(value.content), headers }
}

const operationOf = (document: OpenApiDocument, path: string, method: string, shared: unknown[], value: Node) => {
  // An operation's own parameter replaces the path's parameter of the same place and name.
  const parameters = new Map<string, Parameter>()
  for (const reference of [...shared, ...asList(value.parameters)]) {
    const parameter = parameterOf(resolveReference(document, reference))
    if (parameter.name) parameters.set(`${parameter.in} ${parameter.name}`, parameter)
  }
  const body = resolveReference(document, value.requestBody)
  const media = mediaOf(body.content)
  const id = asText(value.operationId) || `${method}${path}`
  return {
    id: slug(id),
    method: method.toUpperCase(),
    path,
    tag: asText(asList(value.tags)[0]) || 'Other',
    summary: asText(value.summary) || id,
    description: asText(value.description),
    permission: asText(value['x-permission']) || undefined,
    open: asList(value.security ?? document.security).length === 0,
    deprecated: value.deprecated === true,
    parameters: [...parameters.values()],
    body: media && { ...media, required: body.required === true, description: asText(body.description) },
    responses: Object.entries(asNode(value.responses)).map(([status, response]) =>
      responseOf(document, status, response),
    ),
  } satisfies Operation
}

export const documentInfo = (document: OpenApiDocument) => {
  const { title, version, description } = asNode(document.info)
  return { title: asText(title), version: asText(version), description: asText(description) }
}

export interface Group {
  name: string
  description: string
  operations: Operation[]
}

/** Declared tags first, in their order, then undeclared ones in order of appearance. */
export const groupOperations = (document: OpenApiDocument): Group[] => {
  const byTag = new Map<string, Group>()
  for (const tag of asList(document.tags).map(asNode)) {
    const name = asText(tag.name)
    byTag.set(name, { name, description: asText(tag.description), operations: [] })
  }
  for (const [path, reference] of Object.entries(asNode(document.paths))) {
    const item = resolveReference(document, reference)
    for (const method of METHODS) {
      if (!isNode(item[method])) continue
      const operation = operationOf(document, path, method, asList(item.parameters), item[method])
      const group = byTag.get(operation.tag) ?? { name: operation.tag, description: '', operations: [] }
      byTag.set(operation.tag, group)
      group.operations.push(operation)
    }
  }
  return [...byTag.values()].filter(group => group.operations.length > 0)
}

/** The header that carries the key, and what precedes the key in it. */
export const keyHeader = (document: OpenApiDocument) => {
  const schemes = Object.values(asNode(asNode(document.components).securitySchemes)).map(scheme =>
    resolveReference(document, scheme),
  )
  const apiKey = schemes.find(scheme => scheme.type === 'apiKey' && scheme.in === 'header')
  const name = asText(apiKey?.name)
  return /^[\w-]+$/.test(name) ? { name, prefix: '' } : { name: 'Authorization', prefix: 'Bearer ' }
}

export const listSchemas = (document: OpenApiDocument): { name: string; schema: Schema }[] =>
  Object.entries(asNode(asNode(document.components).schemas)).map(([name, schema]) => ({
    name,
    schema: asNode(schema),
  }))

/** All error codes, if the document lists them. */
export const listErrorCodes = (document: OpenApiDocument) =>
  (document['x-errors'] ?? []) as { code: string; status: number; detail: string }[]
