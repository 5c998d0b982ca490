// Sends a request that has no body and may be sent again over a connection that is kept for the next one. A body that
// an application leaves unread would be the next request of another client, and nothing tells whether it was read.
import type * as http from 'node:http'
import type { EditHeaders } from '../../site/serve-site.ts'
import { respondProblem } from '../../system/problem-response.ts'
import type { CopyConnection } from './copy-connections.ts'
import { responseHeaders } from './router-headers.ts'
import { isWritten, writeEarlyHints } from './router-responses.ts'

/**
 * `unsent`: no byte was sent. `unanswered`: the connection ended before the answer began. `last`: the answer is over,
 * or was cut off, and the connection ends. `unread`: undici cannot read a `100 Continue` that was not asked for.
 */
export type Outcome = 'answered' | 'last' | 'unsent' | 'unanswered' | 'unread'
/** A body of so few bytes is cheaper to copy than to write apart. */
const SMALL_BYTES = 4_096
type Sent = {
  headers: string[]
  edit: EditHeaders | undefined
  onAnswer: (status: number) => void
}

const latin1 = (parts: unknown) => (parts as Buffer[]).map(part => part.toString('latin1'))

/** Resolves when the answer is over, or will not come. */
export function sendKept(
  connection: CopyConnection,
  req: http.IncomingMessage,
  res: http.ServerResponse,
  { headers, edit, onAnswer }: Sent,
  onAbort: (abort: () => void) => void,
): Promise<Outcome> {
  return new Promise(resolve => {
    let outcome: Outcome = 'unsent'
    let hints = 0
    /** Headers and the part of the body that arrives with them are sent together. */
    let isHeld = true
    let held: Buffer | undefined
    const flush = () => {
      if (!isHeld) return
      isHeld = false
      if (res.destroyed) return
      if (held) res.write(held)
      else res.flushHeaders()
    }
    connection.client.dispatch(
      { method: req.method as 'GET', path: req.url!, headers },
      {
        onRequestStart(controller) {
          outcome = 'unanswered'
          onAbort(() => controller.abort(new Error('over')))
        },
        onResponseStart(controller, status, _, message) {
          const raw = latin1(controller.rawHeaders)
          if (status >= 100 && status < 200) return writeEarlyHints(res, status, raw, ++hints)
          outcome = req.method === 'HEAD' || endsConnection(raw) ? 'last' : 'answered'
          // The router has already answered, for example with a timeout.
          if (res.headersSent) return controller.abort(new Error('over'))
          const pairs = responseHeaders(raw)
          if (!isWritten(() => res.writeHead(status, reasonOf(message), edit ? edit(pairs) : pairs))) {
            respondProblem(res, 502, 'The application answered with an invalid status or header.')
            return controller.abort(new Error('invalid'))
          }
          onAnswer(status)
          queueMicrotask(flush)
        },
        onResponseData(controller, chunk) {
          if (isHeld && held === undefined) {
            held = chunk
            return
          }
          flush()
          if (res.write(chunk)) return
          controller.pause()
          res.once('drain', () => controller.resume())
        },
        onResponseEnd() {
          const whole = isHeld ? held : undefined
          if (!isHeld) res.end()
          else if (whole === undefined || whole.length > SMALL_BYTES) res.end(whole)
          // One string with the headers is one write to the connection.
          else res.end(whole.toString('latin1'), 'latin1')
          isHeld = false
          resolve(outcome)
        },
        onResponseError(_, error) {
          if (outcome === 'unanswered' && error.message === 'bad response') outcome = 'unread'
          // An answer that ends early must not look whole.
          const hasBegun = outcome === 'answered' || outcome === 'last'
          if (hasBegun && !res.writableEnded) res.destroy()
          resolve(hasBegun ? 'last' : outcome)
        },
      },
    )
  })
}

/** Undici reads it as UTF-8, and Node writes Latin-1 alone: another one is replaced by the usual one. */
const reasonOf = (message = '') => (/[\u0100-\uffff]/.test(message) ? undefined : message)

const endsConnection = (raw: string[]) =>
  raw.some((name, i) => i % 2 === 0 && name.length === 10 && /^connection$/i.test(name) && /close/i.test(raw[i + 1]!))
