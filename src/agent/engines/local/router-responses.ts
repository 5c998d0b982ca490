// The router's responses: the application's answer, or a problem document of its own.
import type * as http from 'node:http'
import type { EditHeaders } from '../../site/serve-site.ts'
import { respondProblem } from '../../system/problem-response.ts'
import { headerPairs, responseHeaders } from './router-headers.ts'

export function forwardResponse(
  res: http.ServerResponse,
  out: http.ClientRequest,
  from: http.IncomingMessage,
  edit: EditHeaders = headers => headers,
): void {
  const { statusCode, statusMessage } = from
  // The router has already answered, for example with a timeout.
  if (res.headersSent) return void from.destroy()
  if (!isWritten(() => res.writeHead(statusCode!, statusMessage, edit(responseHeaders(from.rawHeaders))))) {
    respondProblem(res, 502, 'The application answered with an invalid status or header.')
    return void out.destroy()
  }
  res.flushHeaders()
  from.once('error', () => res.destroy())
  from.once('aborted', () => res.destroy())
  from.pipe(res)
}

/** Hints to a client that does not read stay in memory until its answer is over. */
const MAX_EARLY_HINTS = 16

export function writeEarlyHints(res: http.ServerResponse, status: number, rawHeaders: string[], count: number): void {
  if (status !== 103 || count > MAX_EARLY_HINTS || res.headersSent) return
  const link = headerPairs(rawHeaders).flatMap(([name, value]) => (name.toLowerCase() === 'link' ? [value] : []))
  isWritten(() => res.writeEarlyHints({ link }))
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

type Unserved = 'unrouted' | keyof typeof UNSERVED
const UNSERVED = {
  unavailable: 'No replica of this deployment accepts connections. Check its log.',
  crowded: 'This deployment is waking up, and too many requests wait for it. Retry in some seconds.',
  busy: 'All copies of this deployment have as many requests as they take. Retry in some seconds.',
  asleep: 'This deployment did not wake up in time. Check its log.',
}

export function respondUnrouted(res: http.ServerResponse, cause: Unserved, host: string): void {
  if (cause === 'unrouted') respondProblem(res, 404, `No deployment is served at ${host.slice(0, 100)}.`)
  else {
    res.setHeader('Retry-After', cause === 'unavailable' ? '1' : '5')
    respondProblem(res, 503, UNSERVED[cause])
  }
}

/** The address of one commit does not lead to another one. */
export function respondMoved(res: http.ServerResponse, url: string): void {
  res.setHeader('Link', `<${url}>; rel="latest-version"`)
  respondProblem(res, 410, `This commit is no longer served. The newest one is at ${url}`)
}

export function respondAndClose(res: http.ServerResponse, status: number, detail: string): void {
  if (!res.headersSent) res.setHeader('Connection', 'close')
  respondProblem(res, status, detail)
}

/**
 * A request that was sent before the answer to the one before it has no connection to answer on yet. It waits, so that
 * its own answer is not kept in memory. False: the client is gone.
 */
export function isTurnOf(req: http.IncomingMessage, res: http.ServerResponse): boolean | Promise<boolean> {
  if (res.socket) return true
  return new Promise(resolve => {
    const giveUp = () => resolve(false)
    req.socket.once('close', giveUp)
    res.once('socket', () => {
      req.socket.off('close', giveUp)
      resolve(true)
    })
  })
}
