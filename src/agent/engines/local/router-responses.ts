// What the router answers: what the application said, or a problem of its own.
import * as http from 'node:http'
import { responseHeaders } from './router-headers.ts'

export function forwardResponse(res: http.ServerResponse, out: http.ClientRequest, from: http.IncomingMessage): void {
  const { statusCode, statusMessage } = from
  // Given up meanwhile.
  if (res.headersSent) return void from.destroy()
  const said = isWritten(() => res.writeHead(statusCode!, statusMessage, responseHeaders(from)))
  if (!said) {
    respondProblem(res, 502, 'The application’s answer is none that can be passed on.')
    return void out.destroy()
  }
  res.flushHeaders()
  from.once('error', () => res.destroy())
  from.once('aborted', () => res.destroy())
  from.pipe(res)
}

export function isWritten(say: () => void): boolean {
  try {
    say()
    return true
  } catch {
    return false
  }
}

export function respondUnrouted(res: http.ServerResponse, why: 'nowhere' | 'nobody', host: string): void {
  if (why === 'nowhere') respondProblem(res, 404, `No deployment is served at ${host.slice(0, 100)}.`)
  else {
    res.setHeader('Retry-After', '1')
    respondProblem(res, 503, 'The deployment is there, and none of its copies takes a connection: see its log.')
  }
}

/** Nothing more is read from this connection. */
export function respondAndClose(res: http.ServerResponse, status: number, detail: string): void {
  if (!res.headersSent) res.setHeader('Connection', 'close')
  respondProblem(res, status, detail)
}

export function respondProblem(res: http.ServerResponse, status: number, detail: string): void {
  if (res.destroyed || res.headersSent) return
  res.writeHead(status, http.STATUS_CODES[status], { 'Content-Type': 'application/problem+json' })
  res.end(JSON.stringify({ type: 'about:blank', status, title: http.STATUS_CODES[status], detail }))
}
