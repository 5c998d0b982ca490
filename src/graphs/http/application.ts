// The routes of the application itself: `http.app`. Its executor serves them on a socket, and callers come by here.
import * as http from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { User } from '../auth.ts'
import { HttpError } from '../errors.ts'
import type { Route } from './route.ts'

/** Tells the executor who calls. Only this server sets it. */
const USER_HEADER = 'x-graphs-user'
/** Headers of one connection. */
const OF_CONNECTION = ['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade']
const KEPT_BACK = [...OF_CONNECTION, 'expect', USER_HEADER]
const WITHOUT_BODY = [204, 205, 304]

type Options = { path: string; user: User | null }

export function passOn(socketPath: string, request: Request, { path, user }: Options): Promise<Response> {
  const { method, body, signal } = request
  const headers: http.OutgoingHttpHeaders = {}
  for (const [name, value] of request.headers) if (!KEPT_BACK.includes(name)) headers[name] = value
  if (body && headers['content-length'] === undefined) headers['transfer-encoding'] = 'chunked'
  // An executor that closes after its answer would cut it off: the end of the request is written, if only as nothing.
  headers.connection = 'keep-alive'
  if (user) headers[USER_HEADER] = encodeURIComponent(JSON.stringify(user))
  const { promise, resolve, reject } = Promise.withResolvers<Response>()
  // A connection that is kept may end just before it is used again.
  const out = http.request({ socketPath, method, path, headers, signal, agent: false })
  const fail = (error: NodeJS.ErrnoException) => reject(toFailure(error))
  out.once('response', answer => {
    try {
      resolve(toResponse(answer, method))
    } catch (error) {
      // Thrown here, it would end the server with all its runs.
      answer.destroy()
      fail(error as Error)
    }
  })
  out.once('upgrade', (_, socket) => {
    socket.destroy()
    fail(new Error('it switched to another protocol'))
  })
  out.on('error', fail)
  if (body) pipeline(Readable.fromWeb(body as never), out).catch(fail)
  else out.end()
  return promise
}

function toResponse(answer: http.IncomingMessage, method: string): Response {
  const { statusCode: status = 502, rawHeaders } = answer
  if (status > 599) throw new Error(`its status is ${status}`)
  const headers = new Headers()
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (!OF_CONNECTION.includes(rawHeaders[i]!.toLowerCase())) headers.append(rawHeaders[i]!, rawHeaders[i + 1]!)
  // The reader of the body gets its error. One without a listener would end the server.
  answer.on('error', () => {})
  if (method !== 'HEAD' && !WITHOUT_BODY.includes(status))
    return new Response(Readable.toWeb(answer) as never, { status, headers })
  answer.resume()
  return new Response(null, { status, headers })
}

function toFailure({ code, message }: NodeJS.ErrnoException): HttpError {
  const isStarting = code === 'ECONNREFUSED' || code === 'ENOENT'
  return isStarting
    ? new HttpError(503, 'The routes of the application are starting. Try again.', { retryAfter: 1 })
    : new HttpError(502, `The routes of the application did not answer: ${message}.`)
}

/** Pages that frameworks add by themselves. */
const PAGES = ['/docs', '/openapi.json']
const shapeOf = (path: string) => path.replace(/\{[^{}]*\}|:\w+/g, '{}')

/** Routes of the application, as `GET /path`, that would never be reached. */
export function findHidden(ours: Route[], theirs: string[]): string[] {
  const taken = new Set(ours.map(({ method, path }) => `${method.toUpperCase()} ${shapeOf(path)}`))
  const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']
  return theirs.filter(route => {
    const [method = '', path = ''] = route.split(' ')
    const wanted = method === 'ALL' ? methods : [method]
    return !PAGES.includes(path) && wanted.some(one => taken.has(`${one} ${shapeOf(path)}`))
  })
}
