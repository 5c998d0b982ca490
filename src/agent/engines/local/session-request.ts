// Sends a request of HTTP/1.1 or HTTP/2 over the HTTP/2 session of a copy.
import type * as http from 'node:http'
import * as http2 from 'node:http2'
import { pipeline } from 'node:stream'
import type { EditHeaders } from '../../site/serve-site.ts'
import { respondProblem } from '../../system/problem-response.ts'
import type { CopySession } from './copy-sessions.ts'
import { headerPairs, responseHeaders } from './router-headers.ts'
import { isWritten } from './router-responses.ts'

type Sent = {
  headers: string[]
  body: Buffer | null | undefined
  edit: EditHeaders | undefined
  onAnswer: (status: number) => void
}
const { NGHTTP2_CANCEL, NGHTTP2_NO_ERROR } = http2.constants

const streamOf = (res: http.ServerResponse): http2.ServerHttp2Stream | undefined =>
  (res as unknown as Partial<http2.Http2ServerResponse>).stream

/** `body`: undefined if it is to be read from the request. */
export function sendInSession(
  session: CopySession,
  req: http.IncomingMessage,
  res: http.ServerResponse,
  { headers, body, edit, onAnswer }: Sent,
): { abort: () => void; isReading: () => boolean } {
  const incoming = streamOf(res)
  const isEmpty = body === null || (body === undefined && req.complete)
  const out = session.request(
    {
      ...toObject(headers),
      ':method': req.method!,
      ':path': req.url!,
      ':scheme': 'http',
      ':authority': req.headers.host ?? '',
      te: 'trailers',
    },
    { endStream: isEmpty },
  )
  let trailers: http2.IncomingHttpHeaders = {}
  let hasBegun = false
  out.on('error', () => {})
  out.once('trailers', received => {
    trailers = received
  })
  out.once('response', (received, flags) => {
    const status = Number(received[':status'])
    const sent = responseHeaders(toPairs(received))
    const pairs = edit ? edit(sent) : sent
    // The router has already answered, for example with a timeout.
    if (res.headersSent || res.destroyed) return out.close(NGHTTP2_CANCEL)
    const isOver = (flags & http2.constants.NGHTTP2_FLAG_END_STREAM) !== 0
    const begin = () => {
      if (!incoming) res.writeHead(status, pairs)
      else incoming.respond({ ...toObject(pairs), ':status': status }, { endStream: isOver, waitForTrailers: !isOver })
    }
    // An error that is thrown here would end the router.
    if (!isWritten(begin)) {
      respondProblem(res, 502, 'The application answered with an invalid status or header.')
      return out.close(NGHTTP2_CANCEL)
    }
    hasBegun = true
    onAnswer(status)
    if (!incoming) {
      res.flushHeaders()
      return void pipeline(out, res, () => {})
    }
    if (isOver) return void endIncoming()
    // The response has a listener of its own, which knows nothing of them.
    incoming.removeAllListeners('wantTrailers')
    incoming.once('wantTrailers', () => {
      isWritten(() => incoming.sendTrailers(toObject(toPairs(trailers))))
      endIncoming()
    })
    out.pipe(incoming)
  })
  out.once('close', () => {
    if (!res.headersSent && !res.destroyed)
      respondProblem(res, 502, 'The application ended the request without an answer. Check its log.')
    // An answer that ends early must not look whole. One of the router itself is.
    else if (hasBegun && out.rstCode !== NGHTTP2_NO_ERROR)
      return incoming ? incoming.close(out.rstCode) : void res.destroy()
  })
  /** After its end, the client may still be sending. */
  const endIncoming = () => setImmediate(() => incoming!.closed || incoming!.close(NGHTTP2_NO_ERROR))
  incoming?.once('wantTrailers', endIncoming)
  if (!isEmpty) {
    if (body) out.end(body)
    else (incoming ?? req).pipe(out)
  }
  return { abort: () => out.close(NGHTTP2_CANCEL), isReading: () => !out.writableNeedDrain }
}

/** Headers that repeat become a list. HTTP/2 has lower-case names only. */
function toObject(pairs: string[]): http2.OutgoingHttpHeaders {
  const object: Record<string, string[]> = {}
  for (const [name, value] of headerPairs(pairs)) {
    const lower = name.toLowerCase()
    // They belong to connections of HTTP/1.1; HTTP/2 has its authority.
    if (lower === 'transfer-encoding' || lower === 'connection' || lower === 'host') continue
    object[lower] = [...(object[lower] ?? []), value]
  }
  return Object.fromEntries(
    Object.entries(object).map(([name, values]) => {
      if (values.length === 1) return [name, values[0]]
      // Only these may be sent as several.
      return [name, name === 'set-cookie' ? values : values.join(name === 'cookie' ? '; ' : ', ')]
    }),
  )
}

const toPairs = (headers: http2.IncomingHttpHeaders): string[] =>
  Object.entries(headers).flatMap(([name, value]) => {
    if (name.startsWith(':') || value === undefined) return []
    return (Array.isArray(value) ? value : [value]).flatMap(one => [name, one])
  })
