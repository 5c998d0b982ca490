// Declarations of routes: path, schemas and verb. The handler and the OpenAPI entry both come from one declaration.
import type { Context } from 'hono'
import type * as z from 'zod'
import type { Watches } from '../db/watch.ts'
import type { CallerLimits } from '../limits/caller-limits.ts'
import type { HeldBytes } from '../limits/held-bytes.ts'
import type { Code } from './codes.ts'
import type { Caller, CallerServices, RequestInfo, Verb } from './context.ts'
import type { LiveStream } from './live-stream.ts'
import type { RawBody } from './raw-body.ts'

export type AppEnv = {
  Variables: {
    requestId: string
    requestInfo: RequestInfo
    limits: CallerLimits
    watches: Watches
    heldBytes: HeldBytes
  }
}
export type Services = CallerServices & {
  /** Called after each batch of rows that a sweep has deleted. */
  onSweep?: (batch: { table: string; rows: number; ms: number }) => void
}
type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'

/** The member of a reply that holds the version of a single resource; it becomes the ETag. */
export const etagVersion = Symbol('version')
/** The text of what changes in a reply without its version: the ETag has its hash, and `If-Match` ignores it. */
export const etagState = Symbol('state')

type Tag = { name: string; description: string }

/** The media types that a route takes as bytes. The first one has an example, for tests of all routes. */
type RawMedia = Record<string, { schema?: z.ZodType; example?: { contentType: string; text: string } }>

type OperationBase = {
  method: Method
  path: string
  tag: Tag
  id: string
  summary: string
  description?: string
  params?: z.ZodObject
  query?: z.ZodObject
  /** Query parameters that may be repeated. The schema gets their values joined by commas. */
  repeatable?: string[]
  /** Query parameters that may be repeated. The schema gets an array of their values, which may contain commas. */
  lists?: string[]
  /** A POST that changes nothing of an organization: it writes no event and takes no idempotency key. */
  isReadOnly?: boolean
  /** A repeat has no further effect, so it takes no idempotency key. */
  idempotent?: boolean
  /** A WebSocket: the platform takes over the connection, so the answer without a body is never sent. */
  isSocket?: boolean
  errors?: Code[]
}

type StrictOperation = OperationBase & {
  /**
   * Published clients of the contract and agents of other versions send members that we do not know. They are ignored
   * and named in `Slipway-Warnings`. Every other route refuses them.
   */
  toleratesUnknown?: boolean
}

/** Every kind is assignable to it: some have none of its members. */
export type ReplyingOperation = StrictOperation & { status?: number; reply?: z.ZodType }

type ErasedVerb = Verb<never, unknown>

/** The verb takes members of path, query and JSON body, and returns the reply. */
export type JsonOperation = ReplyingOperation & {
  kind: 'json'
  body?: z.ZodType
  /** Published clients send JSON without saying that it is JSON. */
  untypedBody?: boolean
  versioned?: boolean
  /** The ETag of a resource that no route changes: a digest of the reply. */
  hasContentTag?: boolean
  location?: (reply: never) => string
  partial?: (reply: never) => boolean
  /** A read that the audit log records. */
  isAudited?: boolean
  /** Calls external servers between a first and a second database trip. */
  callsExternalServers?: boolean
  /** Runs where the body has faults, before they are told: it may refuse what counts for more. It gets the body. */
  beforeFaults?: Verb<{ text: string }, void>
  /** When this query parameter is true, another verb answers, under its own permission. */
  variant?: { on: string; reply: z.ZodType; verb: ErasedVerb }
  verb: ErasedVerb
}

/** The verb returns bytes. Failures are still problems in JSON. */
type StreamOperation = StrictOperation & {
  kind: 'stream'
  streamMediaType: string | string[]
  /** A read that the audit log records. */
  isAudited?: boolean
  verb: ErasedVerb
}

/** The verb returns a stream, which goes on until the client disconnects or has to come back. */
export type LiveStreamOperation = StrictOperation & { kind: 'liveStream'; verb: ErasedVerb }

/** The verb gets the body as bytes, decompressed, within `platform.rawBodies`. The key is verified first. */
export type RawOperation = ReplyingOperation & {
  kind: 'raw'
  rawBody: RawMedia
  /** Headers that the verb gets, under their names in lower case. */
  headers?: z.ZodObject
  /** Set for a route that answers with bytes. */
  streamMediaType?: string | string[]
  verb: ErasedVerb
}

/**
 * The verb gets the request as it came, and its response is passed on with any status: both bodies are streams.
 * The last parameter of the path is all that is left of it. A session does not count: what another server says must
 * never meet one.
 */
export type PassThroughOperation = OperationBase & {
  kind: 'passThrough'
  /** The body may take minutes to arrive, so the host limits its pauses and not its duration. */
  longBody?: boolean
  verb: ErasedVerb
}

/** The route takes no API key, or reads one itself. */
export type OpenOperation = ReplyingOperation & {
  kind: 'open'
  body?: z.ZodType
  /** Set for a body that is not JSON. The route reads it itself, a form by the schema in `body`. */
  bodyMediaType?: string
  /** The body may take minutes to arrive, so the host limits its pauses and not its duration. */
  longBody?: boolean
  /** Set for a route that answers with a page, on success and on failure. */
  pageMediaType?: string
  /** Set for a reply in JSON with a media type of its own. */
  replyMediaType?: string
  /** Set for a route that answers with bytes. Failures are still problems in JSON. */
  streamMediaType?: string
  /** Statuses whose bodies have the form of the reply, with what they say: failures of another protocol. */
  protocolStatuses?: Record<number, string>
  /** Failures are JSON by RFC 6749, section 5.2, and not problems. */
  oauthErrors?: boolean
  /** A health check: it needs neither limits of callers nor streams, so neither is loaded for it. */
  isProbe?: boolean
  /** An open route that reads a key itself. A session does not count. */
  keyOnly?: boolean
  /** Set for an open route with limits of its own: the limit of open routes by address does not apply. */
  hasOwnLimit?: boolean
  /** The database of its services is limited by the address of the visitor. */
  open: (c: Context<AppEnv>, services: Services, operation: OpenOperation) => Response | Promise<Response>
}

export type KeyedOperation = JsonOperation | StreamOperation | LiveStreamOperation | RawOperation | PassThroughOperation
export type Operation = KeyedOperation | OpenOperation

/** Slices declare an operation without what `slice` adds. `Typed` has the members whose types depend on each other. */
type Declared<Kind extends Operation, Typed = object> = Omit<Kind, 'kind' | 'method' | 'path' | 'tag' | keyof Typed> &
  Typed

export type EmptySchema = z.ZodObject<Record<never, never>>
type JsonDeclaration<
  P extends z.ZodObject,
  Q extends z.ZodObject,
  B extends z.ZodType,
  R extends z.ZodType,
  D extends z.ZodType,
> = Declared<
  JsonOperation,
  {
    params?: P
    query?: Q
    body?: B
    reply?: R
    location?: (reply: z.output<R>) => string
    partial?: (reply: z.output<R>) => boolean
    variant?: {
      on: keyof z.output<Q> & string
      reply: D
      verb: Verb<z.output<Q> & z.output<B> & z.output<P>, z.output<D>>
    }
    verb: Verb<z.output<Q> & z.output<B> & z.output<P>, z.output<R>>
  }
>

type StreamDeclaration<P extends z.ZodObject, Q extends z.ZodObject> =
  | Declared<StreamOperation, { params?: P; query?: Q; verb: Verb<z.output<Q> & z.output<P>, StreamReply> }>
  | Declared<
      LiveStreamOperation,
      { kind: 'liveStream'; params?: P; query?: Q; verb: Verb<z.output<Q> & z.output<P>, LiveStream> }
    >

type RawDeclaration<
  P extends z.ZodObject,
  Q extends z.ZodObject,
  H extends z.ZodObject,
  R extends z.ZodType,
> = Declared<
  RawOperation,
  {
    params?: P
    query?: Q
    headers?: H
    reply?: R
    verb: Verb<z.output<Q> & z.output<P> & z.output<H> & { raw: RawBody }, z.output<R> | StreamReply>
  }
>

/** A request that is passed on. `rest` is what its URL has after the fixed part, as it was sent, with the query. */
export type PassedRequest = { request: Request; rest: string }

type PassThroughDeclaration<P extends z.ZodObject> = Declared<
  PassThroughOperation,
  { kind: 'passThrough'; params?: P; verb: Verb<z.output<P> & { passed: PassedRequest }, Response> }
>

export type RouteSchemas<P, Q, B, R, D> = { params: P; query: Q; body: B; reply: R; variant: D }
declare const declaredRoutes: unique symbol
/** `Routes` holds the schemas of each route that takes a key, by method and path. It exists in types only. */
type Slice<Routes> = {
  readonly [declaredRoutes]?: Routes
  operations: Operation[]
  get: Declare<'GET', Routes>
  post: Declare<'POST', Routes>
  put: Declare<'PUT', Routes>
  patch: Declare<'PATCH', Routes>
  delete: Declare<'DELETE', Routes>
}
type Declare<M extends string, Routes> = {
  (path: string, declared: Declared<OpenOperation>): Slice<Routes>
  <const Path extends string, P extends z.ZodObject>(
    path: Path,
    declared: PassThroughDeclaration<P>,
  ): Slice<Routes & Record<`${M} ${Path}`, RouteSchemas<P, EmptySchema, EmptySchema, z.ZodVoid, z.ZodVoid>>>
  <const Path extends string, P extends z.ZodObject = EmptySchema, Q extends z.ZodObject = EmptySchema>(
    path: Path,
    declared: StreamDeclaration<P, Q>,
  ): Slice<Routes & Record<`${M} ${Path}`, RouteSchemas<P, Q, EmptySchema, z.ZodVoid, z.ZodVoid>>>
  <
    const Path extends string,
    P extends z.ZodObject = EmptySchema,
    Q extends z.ZodObject = EmptySchema,
    H extends z.ZodObject = EmptySchema,
    R extends z.ZodType = z.ZodVoid,
  >(
    path: Path,
    declared: RawDeclaration<P, Q, H, R>,
  ): Slice<Routes & Record<`${M} ${Path}`, RouteSchemas<P, Q, EmptySchema, R, z.ZodVoid>>>
  <
    const Path extends string,
    P extends z.ZodObject = EmptySchema,
    Q extends z.ZodObject = EmptySchema,
    B extends z.ZodType = EmptySchema,
    R extends z.ZodType = z.ZodVoid,
    D extends z.ZodType = z.ZodVoid,
  >(
    path: Path,
    declared: JsonDeclaration<P, Q, B, R, D>,
  ): Slice<Routes & Record<`${M} ${Path}`, RouteSchemas<P, Q, B, R, D>>>
}

export type RoutesOf<S> = S extends { readonly [declaredRoutes]?: infer Routes } ? NonNullable<Routes> : never

/** Live streams and requests that are passed on have no member of their own, so their routes declare the kind. */
function kindOf(declared: object): Operation['kind'] {
  if ('open' in declared) return 'open'
  if ('rawBody' in declared) return 'raw'
  return 'streamMediaType' in declared ? 'stream' : 'json'
}

export function slice(name: string, description: string): Slice<unknown> {
  const tag = { name, description }
  const operations: Operation[] = []
  const declare = (method: Method) => (path: string, declared: object) => {
    operations.push({ kind: kindOf(declared), ...declared, method, path, tag } as Operation)
    return routes
  }
  const routes = {
    operations,
    get: declare('get'),
    post: declare('post'),
    put: declare('put'),
    patch: declare('patch'),
    delete: declare('delete'),
  } as unknown as Slice<unknown>
  return routes
}

/** A file of routes exports slices only. */
export const listOperations = (file: object): Operation[] =>
  Object.values(file as Record<string, Slice<unknown>>).flatMap(({ operations }) => operations)

export const canUseIdempotencyKey = ({ kind, method, isReadOnly, idempotent }: Operation): boolean =>
  kind !== 'open' && !isReadOnly && !idempotent && (method === 'post' || method === 'patch')

export function listBodyTypes(operation: Operation): string[] {
  if (operation.kind === 'raw') return Object.keys(operation.rawBody)
  return [(operation.kind === 'open' && operation.bodyMediaType) || 'application/json']
}

export function successStatus(operation: Operation): number {
  switch (operation.kind) {
    case 'passThrough':
    case 'stream':
      return 200
    case 'liveStream':
      return 204
    case 'json':
      return operation.status ?? (operation.reply ? 200 : 204)
    default:
      return operation.status ?? (operation.reply || operation.streamMediaType ? 200 : 204)
  }
}

/** Returned by the verb of a route with `streamMediaType`. */
export type StreamReply = { stream: ReadableStream<Uint8Array>; headers: Record<string, string> }

/** The end of a request with a key or session token of the right format. */
export type Outcome = {
  operation: KeyedOperation
  caller: Caller
  credentialHash: string
  status: number
  code: Code | null
}
