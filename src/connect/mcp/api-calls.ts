// The requests that a tool sends to the API, in process, as the caller of /mcp.
import { withStop } from '../../kernel/http/caller.ts'
import type { Fault } from '../../kernel/http/errors.ts'
import { readExecution } from '../../kernel/http/execution.ts'
import type { OpenOperation, Services } from '../../kernel/http/routes.ts'
import { VERSION } from '../../kernel/version.ts'
import type { Execution } from '../../platform.ts'

export type Visitor = Parameters<OpenOperation['open']>[0]

declare module '../../kernel/http/context.ts' {
  interface Ports {
    /** Answers a request like one that came from outside. */
    answerInProcess?: (request: Request, env: unknown, execution: Execution | undefined) => Response | Promise<Response>
  }
}

type Problem = { status: number; code: string; detail: string; request_id?: string; errors?: Fault[] }

/** The API refused a request. */
export class ApiFailure extends Error {
  readonly problem: Problem
  readonly response: Response
  constructor(problem: Problem, response: Response) {
    super(problem.code)
    this.problem = problem
    this.response = response
  }
}

export type ApiRequest = {
  path?: Record<string, string | number> | undefined
  query?: Record<string, string | number | boolean | undefined> | undefined
  body?: unknown
  headers?: Record<string, string> | undefined
}
/** Sends to a route such as `GET /v2/deployments/{deployment_id}`, and returns the body of its answer. */
// biome-ignore lint/suspicious/noExplicitAny: the API answers by its schemas
export type ApiCall = (route: string, request?: ApiRequest) => Promise<any>

/** Headers that identify the caller and its address. Cookies are not among them, so no browser session counts. */
const CALLER_HEADERS = ['Authorization', 'X-Api-Key', 'X-Forwarded-For', 'CF-Connecting-IP']
/** Requests of a tool call have the id of that call and a number. An id has at most 128 characters. */
const MAX_OUTER_ID = 120
/** The journal keeps 512 characters of the program, among them that it came by a tool. */
const MAX_PROGRAM = 400

export function createApiCalls(c: Visitor, { platform, answerInProcess }: Services): ApiCall {
  const { origin } = new URL(c.req.url)
  const common: Record<string, string> = {
    'User-Agent': `${c.req.header('User-Agent')?.slice(0, MAX_PROGRAM) ?? ''} slipway-mcp/${VERSION}`.trim(),
  }
  for (const name of CALLER_HEADERS) {
    const value = c.req.header(name)
    if (value !== undefined) common[name] = value
  }
  const signal = withStop(platform, c.req.raw.signal)
  const execution = readExecution(c)
  let sent = 0

  return async (route, { path = {}, query = {}, body, headers = {} } = {}) => {
    const [method, template] = route.split(' ') as [string, string]
    const url = new URL(
      template.replace(/\{(\w+)\}/g, (_, name) => toSegment(String(path[name]))),
      origin,
    )
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) url.searchParams.set(name, String(value))
    const request = new Request(url, {
      method,
      signal,
      headers: {
        ...common,
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
        'X-Request-Id': `${c.get('requestId').slice(0, MAX_OUTER_ID)}.${++sent}`,
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const response = await answerInProcess!(request, c.env, execution)
    const text = await response.text()
    const json: unknown = text === '' ? undefined : JSON.parse(text)
    if (response.ok) return json
    throw new ApiFailure(json as Problem, new Response(text, response))
  }
}

/** URLs resolve segments of dots, so that the request would reach another route. No id or name is one. */
const toSegment = (value: string): string => (/^\.{0,2}$/.test(value) ? '-' : encodeURIComponent(value.toWellFormed()))
