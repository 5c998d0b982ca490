// Declared routes: their schemas validate requests, and the OpenAPI document is made from them.
import type { Context, Hono } from 'hono'
import type { z } from 'zod'
import type { Access, User } from '../auth.ts'
import { HttpError } from '../errors.ts'
import type { Server } from '../server.ts'
import type { JsonObject } from '../values.ts'
import { admit } from './access.ts'

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'
export type Group = 'assistants' | 'threads' | 'runs' | 'crons' | 'store' | 'mcp' | 'meta'
export type Call<Params, Query, Body> = {
  server: Server
  params: Params
  query: Query
  body: Body
  request: Request
  /** The caller, if the application has authentication of its own. */
  user: User | null
  /** Filters of the application, which must fit the metadata of all that is read or changed. Searches apply them. */
  filters: JsonObject | null
  /** Aborted when the caller goes. */
  signal: AbortSignal
}
/** Set before the routes: who calls. */
export type Variables = { Variables: { user: User | null } }
export type Route = {
  method: Method
  path: string
  group: Group
  summary: string
  /** The question to the authorization of the application. Null: every caller with a key may do it. */
  access: Access | null
  params?: z.ZodType
  query?: z.ZodType
  body?: z.ZodType
  /** The answer is a stream of events, or text. */
  produces?: string
  // biome-ignore lint/suspicious/noExplicitAny: `route` infers the types from the schemas.
  handle(call: Call<any, any, any>): Promise<unknown> | unknown
}

/** Infers the types of the call from the schemas. */
export function route<
  Params extends z.ZodType = z.ZodUndefined,
  Query extends z.ZodType = z.ZodUndefined,
  Body extends z.ZodType = z.ZodUndefined,
>(
  declared: Omit<Route, 'params' | 'query' | 'body' | 'handle'> & {
    params?: Params
    query?: Query
    body?: Body
    handle(call: Call<z.output<Params>, z.output<Query>, z.output<Body>>): Promise<unknown> | unknown
  },
): Route {
  return declared as Route
}

/** An answer whose body is JSON already. */
export class JsonText {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

export const noContent = (status = 204) => new Response(null, { status })

const describe = (issues: z.core.$ZodIssue[], where: string) =>
  issues.map(issue => `${[where, ...issue.path].join('.')}: ${issue.message}.`)

function parse<Schema extends z.ZodType>(
  schema: Schema | undefined,
  value: unknown,
  where: string,
  faults: string[],
): z.output<Schema> | undefined {
  if (!schema) return undefined
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  faults.push(...describe(parsed.error.issues, where))
  return undefined
}

/** The executors of both languages read and write JSON by recursion, and one that fails ends all runs that it has. */
const DEEPEST_JSON = 200

function isTooDeep(text: string): boolean {
  let depth = 0
  let isText = false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (isText) {
      if (code === BACKSLASH) i++
      else isText = code !== QUOTE
    } else if (code === QUOTE) isText = true
    else if (code === BRACE || code === BRACKET) {
      if (++depth > DEEPEST_JSON) return true
    } else if (code === BRACE + 2 || code === BRACKET + 2) depth--
  }
  return false
}
const [QUOTE, BACKSLASH, BRACKET, BRACE] = [34, 92, 91, 123]

async function readBody(request: Request): Promise<unknown> {
  const text = await request.text()
  if (text === '') return {}
  if (isTooDeep(text)) throw new HttpError(422, `The body is nested more than ${DEEPEST_JSON} levels deep.`)
  try {
    return JSON.parse(text)
  } catch {
    throw new HttpError(422, 'The body is not JSON.')
  }
}

/** Repeated parameters are a list. The SDK of Python sends an empty text for a parameter that is left out. */
function readQuery(url: string): Record<string, string | string[]> {
  const given = Map.groupBy(new URL(url).searchParams, ([name]) => name)
  const read = [...given].map(([name, pairs]) => [name, pairs.map(([, value]) => value).filter(Boolean)] as const)
  return Object.fromEntries(
    read
      .filter(([, values]) => values.length > 0)
      .map(([name, values]) => [name, values.length > 1 ? values : values[0]!]),
  )
}

async function serve(route: Route, server: Server, context: Context<Variables>): Promise<Response> {
  const request = context.req.raw
  const faults: string[] = []
  const params = parse(route.params, context.req.param(), 'path', faults)
  const query = parse(route.query, readQuery(request.url), 'query', faults)
  const body = route.body ? parse(route.body, await readBody(request), 'body', faults) : undefined
  if (faults.length > 0) throw new HttpError(422, faults.join(' '))
  const user = context.get('user') ?? null
  const given = { params: params as JsonObject | undefined, query: query as JsonObject | undefined, body }
  const admitted = server.auth ? await admit({ server, user }, route.access, given) : { ...given, filters: null }
  const result = await route.handle({ server, ...admitted, request, user, signal: request.signal } as Call<
    unknown,
    unknown,
    unknown
  >)
  if (result instanceof Response) return result
  const text = result instanceof JsonText ? result.text : JSON.stringify(result)
  return new Response(text, { headers: { 'Content-Type': 'application/json' } })
}

export function mount(app: Hono<Variables>, server: Server, routes: Route[]): void {
  for (const one of routes) {
    // Hono writes parameters with a colon; OpenAPI with braces.
    const path = one.path.replaceAll('{', ':').replaceAll('}', '')
    app.on(one.method.toUpperCase(), path, context => serve(one, server, context))
  }
}
