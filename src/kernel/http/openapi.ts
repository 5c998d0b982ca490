// The OpenAPI 3.1 document, built from the schemas that validate requests.
import * as z from 'zod'
import { OAuthFetch } from '../../protocol/wire.ts'
import { serveStaticPage } from '../pages/static-page.ts'
import { VERSION } from '../version.ts'
import { codesWithStatus, detailOf, listCodes, statusOf } from './codes.ts'
import { oauthStatusOf } from './errors.ts'
import { STREAM_MEDIA_TYPES } from './live-stream.ts'
import { createLinks } from './operation-links.ts'
import { canUseIdempotencyKey, type OpenOperation, type Operation, type ReplyingOperation, slice } from './routes.ts'
import { SESSION_COOKIE } from './session-cookie.ts'

export type OpenApiDocument = {
  openapi: string
  info: Record<string, unknown>
  paths: Record<string, Record<string, unknown>>
} & Record<string, unknown>
type JsonObject = Record<string, unknown>

const INFO = {
  title: 'Slipway',
  version: VERSION,
  description: [
    'An open control plane for hosting applications, at the edge.',
    'Each path is also served below `/api/v1` and `/v1`, and a path that begins with `/v2` below `/api`:',
    '`/api/v1/runs` is `/runs`, `/api/v1/audit-logs` is `/v1/audit-logs`, and `/api/v2/deployments` is',
    '`/v2/deployments`.',
  ].join(' '),
  contact: { name: 'The operator of this installation' },
  license: { name: 'MIT', identifier: 'MIT' },
}

const SECURITY_SCHEMES = {
  apiKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key' },
  bearer: { type: 'http', scheme: 'bearer' },
  session: {
    type: 'apiKey',
    in: 'cookie',
    name: SESSION_COOKIE,
    description:
      'The session of a person in a browser. It counts only for requests that the browser calls same-origin, and ' +
      'opens no other session. On plain http its name is `slipway-` and the port.',
  },
}

export const documentRoutes = (buildDocument: () => Promise<OpenApiDocument>) =>
  slice('Document', 'The description of this API.').get('/openapi.json', {
    id: 'openapi',
    summary: 'Get this document',
    description:
      'Takes no API key. It has an `ETag`, so `If-None-Match` saves the download. `/docs` shows it to people.',
    reply: z.looseObject({}).meta({ id: 'OpenApi' }),
    open: serveStaticPage('application/json', async () => JSON.stringify(await buildDocument())),
  })

const Problem = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string().meta({ description: 'What is wrong and what to do.' }),
    code: z.string().meta({ description: 'One of a closed set of codes.' }),
    request_id: z.string(),
    errors: z
      .array(z.object({ type: z.string(), loc: z.array(z.union([z.string(), z.int()])), msg: z.string() }))
      .optional()
      .meta({ description: 'All faults of the request.' }),
    trace: z
      .array(OAuthFetch)
      .optional()
      .meta({ description: 'The requests to external servers that led to the error.' }),
    error: z
      .object({ message: z.string(), type: z.string(), code: z.string() })
      .optional()
      .meta({ description: 'The same for the SDKs of model providers. Of the model proxy alone.' }),
  })
  .meta({ id: 'Problem' })

const describeHeader = (description: string, type = 'string') => ({ description, schema: { type } })
const HEADERS = {
  ETag: describeHeader('The version of the resource. Send it in `If-Match` to change the resource.'),
  ContentTag: describeHeader('A digest of the reply.'),
  Link: describeHeader('The next page. Missing on the last page.'),
  Location: describeHeader('The path of the new resource.'),
  'Idempotency-Replayed': describeHeader('`true` when this is the stored response to an earlier request.'),
  'Retry-After': describeHeader('Seconds to wait.', 'integer'),
  'Slipway-Warnings': describeHeader(
    'Sentences about members and parameters that are not known and were ignored, and about long texts that a filter ' +
      'compared in part.',
  ),
  Allow: describeHeader('The methods that the path supports.'),
}

const describeParameter = (name: string, location: string, description: string, schema: JsonObject) => ({
  name,
  in: location,
  description,
  required: false,
  schema,
})
const TENANT = describeParameter(
  'X-Tenant-Id',
  'header',
  'The workspace to act in. A workspace key uses its own by default.',
  {
    type: 'string',
    format: 'uuid',
  },
)
const IDEMPOTENCY = describeParameter(
  'Idempotency-Key',
  'header',
  'For 24 hours, a repeated request with the same key has no second effect and returns the stored response.',
  { type: 'string', pattern: '^[!-~]{1,255}$' },
)
const LAST_EVENT_ID = describeParameter(
  'Last-Event-ID',
  'header',
  'Goes on after the item with this id. Replaces `after`. `EventSource` sends it when it reconnects.',
  { type: 'string' },
)
const IF_MATCH = describeParameter('If-Match', 'header', 'The `ETag` that the resource must still have.', {
  type: 'string',
})
const PLAN_DIGEST = describeParameter(
  'Plan-Digest',
  'header',
  'The `plan_digest` of the plan to apply. The request fails if the plan is stale.',
  {
    type: 'string',
  },
)
const IF_NONE_MATCH = describeParameter(
  'If-None-Match',
  'header',
  'A known `ETag`. The response is 304 if the resource has not changed.',
  {
    type: 'string',
  },
)

/** Collects the schemas with an id as components, to which the returned schemas refer. */
type SchemaOf = (schema: z.ZodType, io: 'input' | 'output') => JsonObject
type Describe = {
  schemaOf: SchemaOf
  describeBody: (body: z.ZodType, isClosed: boolean) => JsonObject
  linksOf: (operation: Operation) => JsonObject | undefined
}

export function buildOpenApi(operations: Operation[]): OpenApiDocument {
  const schemas: JsonObject = {}
  const schemaOf: SchemaOf = (schema, io) => {
    const {
      $defs = {},
      $schema: _,
      ...root
    } = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as JsonObject & { $defs?: JsonObject }
    for (const [name, definition] of Object.entries($defs)) {
      const isClosed = (schemas[name] as JsonObject | undefined)?.additionalProperties === false
      schemas[name] = {
        ...(toComponentRefs(definition) as JsonObject),
        ...(isClosed && { additionalProperties: false }),
      }
    }
    return toComponentRefs(root) as JsonObject
  }

  const describeBody: Describe['describeBody'] = (body, isClosed) => {
    const schema = schemaOf(body, 'input')
    const component = String(schema.$ref ?? '').replace('#/components/schemas/', '')
    const described = (component ? schemas[component] : schema) as JsonObject
    if (isClosed && described.type === 'object') described.additionalProperties ??= false
    return schema
  }

  const describe = { schemaOf, describeBody, linksOf: createLinks(operations) }
  const paths: Record<string, JsonObject> = {}
  for (const operation of operations) {
    paths[operation.path] = { ...paths[operation.path], [operation.method]: describeOperation(operation, describe) }
  }
  schemaOf(Problem, 'output')
  const failing = [...new Set(operations.flatMap(errorStatuses))].sort((a, b) => a - b)
  return {
    openapi: '3.1.0',
    info: INFO,
    servers: [{ url: '/' }],
    security: Object.keys(SECURITY_SCHEMES).map(name => ({ [name]: [] })),
    tags: [...new Set(operations.map(operation => operation.tag))],
    paths,
    'x-errors': listCodes(),
    components: {
      schemas,
      responses: Object.fromEntries(failing.map(status => [status, describeErrorStatus(status)])),
      securitySchemes: SECURITY_SCHEMES,
    },
  }
}

const BINARY = { type: 'string', format: 'binary' }

function describeOperation(operation: Operation, { schemaOf, describeBody, linksOf }: Describe): JsonObject {
  const { kind } = operation
  const parameters = describeParameters(operation, schemaOf)
  const requestBody = describeRequestBody(operation, describeBody)
  const isHeaderOnly = kind === 'passThrough' || (kind === 'open' && operation.keyOnly)
  return {
    operationId: operation.id,
    summary: operation.summary,
    ...(operation.description && { description: operation.description }),
    tags: [operation.tag.name],
    ...(operation.kind === 'open'
      ? { security: [] }
      : operation.verb.permission && { 'x-permission': operation.verb.permission }),
    ...(isHeaderOnly && { security: [{ apiKey: [] }, { bearer: [] }] }),
    ...(parameters.length > 0 && { parameters }),
    ...(requestBody && { requestBody }),
    responses: describeResponses(operation, schemaOf, linksOf(operation)),
  }
}

function describeRequestBody(operation: Operation, describeBody: Describe['describeBody']): JsonObject | undefined {
  switch (operation.kind) {
    case 'raw': {
      const medias = Object.entries(operation.rawBody).map(([type, { schema, example }]) => [
        type,
        { schema: schema ? describeBody(schema, false) : BINARY, ...(example && { example: example.text }) },
      ])
      return { required: true, content: Object.fromEntries(medias) }
    }
    case 'passThrough':
      return operation.method === 'get' ? undefined : { content: { '*/*': { schema: BINARY } } }
    case 'json':
    case 'open': {
      const { body, toleratesUnknown } = operation
      const mediaType = operation.kind === 'open' ? operation.bodyMediaType : undefined
      if (!body) return mediaType ? { required: true, content: { [mediaType]: { schema: BINARY } } } : undefined
      const schema = describeBody(body, !toleratesUnknown && !mediaType)
      return { required: !body.safeParse({}).success, content: { [mediaType ?? 'application/json']: { schema } } }
    }
    default:
      return undefined
  }
}

function describeParameters(operation: Operation, schemaOf: SchemaOf): unknown[] {
  const { kind, method } = operation
  const parametersOf = (schema: z.ZodObject | undefined, location: 'path' | 'query' | 'header') =>
    Object.entries(schema?.shape ?? {}).map(([name, member]) => {
      const { description, ...json } = schemaOf(member as z.ZodType, 'output')
      const required = location === 'path' || !(member as z.ZodType).safeParse(undefined).success
      return { name, in: location, required, ...(description ? { description } : {}), schema: json }
    })

  const parameters: unknown[] = [...parametersOf(operation.params, 'path'), ...parametersOf(operation.query, 'query')]
  if (operation.kind === 'raw') parameters.push(...parametersOf(operation.headers, 'header'))
  if (kind !== 'open') parameters.push(TENANT)
  if (canUseIdempotencyKey(operation)) parameters.push(IDEMPOTENCY)
  if (kind === 'liveStream') parameters.push(LAST_EVENT_ID)
  if (operation.kind !== 'json') return parameters
  if (operation.hasContentTag) parameters.push(IF_NONE_MATCH)
  if (operation.versioned) parameters.push(method === 'get' ? IF_NONE_MATCH : IF_MATCH)
  if (operation.variant?.on === 'dry_run') parameters.push(PLAN_DIGEST)
  return parameters
}

/** Lists the media types of an answer that has no schema. */
function listMediaTypes(operation: Operation): string[] {
  switch (operation.kind) {
    case 'liveStream':
      return Object.values(STREAM_MEDIA_TYPES)
    case 'passThrough':
      return ['*/*']
    case 'json':
      return []
    case 'open':
      return [operation.pageMediaType ?? operation.streamMediaType ?? []].flat()
    default:
      return [operation.streamMediaType ?? []].flat()
  }
}

function describeResponses(operation: Operation, schemaOf: SchemaOf, links: JsonObject | undefined): JsonObject {
  const { method, query, toleratesUnknown, reply, status: ownStatus }: ReplyingOperation = operation
  const json = operation.kind === 'json' ? operation : undefined
  const medias = listMediaTypes(operation)
  const text = { content: Object.fromEntries(medias.map(media => [media, { schema: { type: 'string' } }])) }
  const status = operation.isSocket ? 101 : (ownStatus ?? (reply || medias.length > 0 ? 200 : 204))
  const headers = {
    ...(json?.versioned && { ETag: HEADERS.ETag }),
    ...(json?.hasContentTag && { ETag: HEADERS.ContentTag }),
    ...(query && 'offset' in query.shape && { Link: HEADERS.Link }),
    ...(json?.location && { Location: HEADERS.Location }),
    ...(canUseIdempotencyKey(operation) && { 'Idempotency-Replayed': HEADERS['Idempotency-Replayed'] }),
    ...(toleratesUnknown && operation.kind !== 'open' && { 'Slipway-Warnings': HEADERS['Slipway-Warnings'] }),
  }
  const replyType = (operation.kind === 'open' && operation.replyMediaType) || 'application/json'
  const content = (...schemas: z.ZodType[]) => {
    const [schema, ...others] = schemas.map(listed => schemaOf(listed, 'output'))
    return { content: { [replyType]: { schema: others.length > 0 ? { oneOf: [schema, ...others] } : schema } } }
  }
  const variant = json?.variant?.reply === reply ? undefined : json?.variant
  return {
    [status]: {
      description:
        operation.kind === 'passThrough'
          ? 'The answer of the other server, also with another status.'
          : operation.isSocket
            ? 'The connection is a WebSocket from now on.'
            : 'Success.',
      ...(Object.keys(headers).length > 0 && { headers }),
      ...(reply && content(reply, ...(variant && status === 200 ? [variant.reply] : []))),
      ...(medias.length > 0 && text),
      ...(links && { links }),
    },
    ...(variant && status !== 200 && { 200: { description: `With \`${variant.on}\`.`, ...content(variant.reply) } }),
    ...(json?.partial && { 207: { description: 'A part of the request failed.', ...content(reply!) } }),
    ...((json?.versioned ? method === 'get' : json?.hasContentTag) && {
      304: { description: 'The resource has not changed.' },
    }),
    ...Object.fromEntries(
      Object.entries((operation.kind === 'open' && operation.protocolStatuses) || {}).map(([own, description]) => {
        if (Number(own) < 300) return [own, { description }]
        const isProblem = errorStatuses(operation).includes(Number(own))
        return [own, { description, content: { ...content(reply!).content, ...(isProblem && PROBLEM_CONTENT) } }]
      }),
    ),
    ...Object.fromEntries(
      errorStatuses(operation)
        .filter(failure => !isOfProtocol(operation, failure))
        .map(failure => [
          failure,
          operation.kind === 'open' && operation.pageMediaType
            ? { description: 'A page that describes the error.', content: { ...text.content, ...PROBLEM_CONTENT } }
            : operation.kind === 'open' && operation.oauthErrors
              ? describeOAuthError(operation, failure, schemaOf)
              : { $ref: `#/components/responses/${failure}` },
        ]),
    ),
  }
}

const isOfProtocol = (operation: Operation, status: number): boolean =>
  operation.kind === 'open' && Object.hasOwn(operation.protocolStatuses ?? {}, status)

export function errorStatuses(operation: Operation): number[] {
  const { method, query, params, errors = [] } = operation
  const statuses = [431, 500, ...errors.map(statusOf)]
  if (operation.kind === 'open') {
    // An open route that reaches the database is limited by address.
    if (!operation.isProbe && errors.includes('database_unavailable')) statuses.push(429)
    if (query || params || operation.body) statuses.push(422)
  } else {
    statuses.push(401, 403, 422, 429, 503)
    if (method !== 'get') statuses.push(400, 408, 413, 415)
  }
  if (canUseIdempotencyKey(operation)) statuses.push(409)
  if (operation.kind === 'json' && operation.versioned && method !== 'get') statuses.push(412, 428)
  // A request that is refused before its route is known gets a problem, so 431 stays.
  const isOAuth = operation.kind === 'open' && operation.oauthErrors
  const answered = isOAuth ? statuses.map(status => (status === 431 ? status : oauthStatusOf(status))) : statuses
  return [...new Set(answered)].sort((a, b) => a - b)
}

const OAuthError = z
  .object({ error: z.string(), error_description: z.string(), request_id: z.string() })
  .meta({ id: 'OAuthError' })

function describeOAuthError({ errors = [] }: OpenOperation, status: number, schemaOf: SchemaOf): JsonObject {
  if (status === 431) return { $ref: '#/components/responses/431' }
  const list = errors
    .filter(code => oauthStatusOf(statusOf(code)) === status)
    .map(code => `- \`${code}\`: ${detailOf(code)}`)
  return {
    description: list.join('\n') || 'A fault of the server.',
    content: { 'application/json': { schema: schemaOf(OAuthError, 'output') } },
  }
}

function describeErrorStatus(status: number): JsonObject {
  const names = codesWithStatus(status).map(({ code }) => `\`${code}\``)
  const waits = status === 429 || status === 503
  return {
    // Generators copy it to every operation, so it has no sentences: these are in `x-errors`.
    description: `\`code\` is ${names.length > 1 ? 'one of ' : ''}${names.join(', ')}.`,
    ...(waits && { headers: { 'Retry-After': HEADERS['Retry-After'] } }),
    content: PROBLEM_CONTENT,
  }
}

const PROBLEM_CONTENT = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } }

function toComponentRefs(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(toComponentRefs)
  if (typeof schema !== 'object' || schema === null) return schema
  return Object.fromEntries(
    Object.entries(splitTypes(schema as JsonObject))
      // zod repeats a component's name as `id`. A property with that name is an object and stays.
      .filter(([key, value]) => key !== 'id' || typeof value !== 'string')
      // Responses get new members over time, and clients must ignore unknown ones.
      .filter(([key, value]) => key !== 'additionalProperties' || value !== false)
      // A tuple has `maxItems` too. Linters and generators of clients expect a schema here, and no `false`.
      .map(([key, value]) => (key === 'items' && value === false ? [key, {}] : [key, value]))
      .map(([key, value]) => [
        key,
        key === '$ref'
          ? String(value).replace('#/$defs/', '#/components/schemas/')
          : key === 'example'
            ? value
            : toComponentRefs(value),
      ]),
  )
}

/** Generators of clients know a type and `null`, and no other lists of types. */
function splitTypes(schema: JsonObject): JsonObject {
  const { type, ...rest } = schema
  const isChoice = Array.isArray(type) && type.filter(one => one !== 'null').length > 1
  return isChoice ? { ...rest, anyOf: type.map(one => ({ type: one })) } : schema
}
