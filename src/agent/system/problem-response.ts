// A problem document as the answer to a request. Uses Node alone, because images of sites have no packages.
import { type ServerResponse, STATUS_CODES } from 'node:http'

export function respondProblem(res: ServerResponse, status: number, detail: string): void {
  if (res.destroyed || res.headersSent) return
  // An application may have set another one. HTTP/2 has none.
  if (!('stream' in res)) res.statusMessage = STATUS_CODES[status]!
  res.writeHead(status, { 'Content-Type': 'application/problem+json' })
  res.end(JSON.stringify({ type: 'about:blank', status, title: STATUS_CODES[status], detail }))
}
