// The router's responses: the application's answer, or a problem document of its own.
import type * as http from 'node:http'
import { respondProblem } from '../../system/problem-response.ts'
import { responseHeaders } from './router-headers.ts'

export function forwardResponse(res: http.ServerResponse, out: http.ClientRequest, from: http.IncomingMessage): void {
  const { statusCode, statusMessage } = from
  // The router has already answered, for example with a timeout.
  if (res.headersSent) return void from.destroy()
  if (!isWritten(() => res.writeHead(statusCode!, statusMessage, responseHeaders(from)))) {
    respondProblem(res, 502, 'The application answered with an invalid status or header.')
    return void out.destroy()
  }
  res.flushHeaders()
  from.once('error', () => res.destroy())
  from.once('aborted', () => res.destroy())
  from.pipe(res)
}

/** False if Node rejects what an application sent, such as an invalid status. */
export function isWritten(write: () => void): boolean {
  try {
    write()
    return true
  } catch {
    return false
  }
}

export function respondUnrouted(res: http.ServerResponse, cause: 'unrouted' | 'unavailable', host: string): void {
  if (cause === 'unrouted') respondProblem(res, 404, `No deployment is served at ${host.slice(0, 100)}.`)
  else {
    res.setHeader('Retry-After', '1')
    respondProblem(res, 503, 'No replica of this deployment accepts connections. Check its log.')
  }
}

export function respondAndClose(res: http.ServerResponse, status: number, detail: string): void {
  if (!res.headersSent) res.setHeader('Connection', 'close')
  respondProblem(res, status, detail)
}
