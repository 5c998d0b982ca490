// Sends a request over a connection of its own, which ends with it: one whose body is long or of unknown length, or
// a WebSocket, whose connection becomes a tunnel.
import * as http from 'node:http'
import type { Socket } from 'node:net'
import type { EditHeaders } from '../../site/serve-site.ts'
import { respondProblem } from '../../system/problem-response.ts'
import { headerPairs, isWebSocket, responseHeaders } from './router-headers.ts'
import { forwardResponse, writeEarlyHints } from './router-responses.ts'

type Sent = { headers: string[]; edit: EditHeaders | undefined; onAnswer: (status: number) => void }

export function sendStreamed(
  req: http.IncomingMessage,
  res: http.ServerResponse,
  socket: Socket,
  { headers, edit, onAnswer }: Sent,
): http.ClientRequest {
  const out = http.request({
    method: req.method!,
    path: req.url!,
    headers,
    setHost: false,
    createConnection: () => socket,
  })
  out.on('error', () => {})
  // The application may answer and close before it has read the request.
  out.once('close', () => {
    if (!res.headersSent)
      respondProblem(res, 502, 'The application closed the connection without an answer. Check its log.')
  })
  out.once('response', from => {
    forwardResponse(res, out, from, edit)
    if (res.headersSent) onAnswer(res.statusCode)
  })
  let hints = 0
  if (!isWebSocket(req))
    out.on('information', ({ statusCode, rawHeaders }) => writeEarlyHints(res, statusCode, rawHeaders, ++hints))
  return out
}

/** Joins the client and the application once it has answered 101. */
export function joinTunnel(
  res: http.ServerResponse,
  client: Socket,
  head: Buffer,
  out: http.ClientRequest,
  onOpen: () => void,
  onClose: () => void,
): void {
  out.once('upgrade', (from, upstream, early) => {
    if (from.headers.upgrade?.toLowerCase() !== 'websocket')
      return void respondProblem(res, 502, 'The application switched to a protocol other than WebSocket.')
    onOpen()
    res.detachSocket(client)
    const headerLines = headerPairs(responseHeaders(from.rawHeaders)).map(([name, value]) => `${name}: ${value}\r\n`)
    const status = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
    client.write(`${status}${headerLines.join('')}\r\n`, 'latin1')
    if (early.length) client.write(early)
    if (head.length) upstream.write(head)
    upstream.on('error', () => client.destroy())
    // Either side's end closes both directions.
    upstream.once('close', () => client.end(() => client.destroy()))
    client.once('end', () => client.end(() => client.destroy()))
    client.once('close', onClose)
    upstream.pipe(client).pipe(upstream)
  })
}
