// Ends requests whose bodies stall, or whose answers do not begin in time. One timer for all of them.
import type * as http from 'node:http'
import { respondAndClose } from './router-responses.ts'

export type AnswerLimits = { body_ms: number; answer_ms: number; check_ms: number }
type Watched = {
  req: http.IncomingMessage
  res: http.ServerResponse
  since: number
  lastDataAt: number
  /** While the application does not read, the client cannot send. */
  isReading: () => boolean
  abort: () => void
}

/** A stream of gRPC may be silent for long. A listener for its data would read it faster than the copy does. */
const hasLimitedBody = (req: http.IncomingMessage) => !req.complete && req.httpVersionMajor === 1

export class AnswerTimes {
  readonly #limits: AnswerLimits
  readonly #watched = new Set<Watched>()
  #timer: NodeJS.Timeout | undefined

  constructor(limits: AnswerLimits) {
    this.#limits = limits
  }

  /** Until `end` is called. */
  watch(req: http.IncomingMessage, res: http.ServerResponse, abort: () => void, isReading = () => true): () => void {
    const since = Date.now()
    const watched: Watched = { req, res, since, lastDataAt: since, isReading, abort }
    if (hasLimitedBody(req))
      req.on('data', () => {
        watched.lastDataAt = Date.now()
      })
    this.#watched.add(watched)
    this.#timer ??= setInterval(() => this.#check(), this.#limits.check_ms)
    return () => {
      this.#watched.delete(watched)
      if (this.#watched.size > 0) return
      clearInterval(this.#timer)
      this.#timer = undefined
    }
  }

  #check(): void {
    const now = Date.now()
    for (const { req, res, since, lastDataAt, isReading, abort } of [...this.#watched]) {
      if (res.headersSent) continue
      const isStalled = hasLimitedBody(req) && isReading() && now - lastDataAt > this.#limits.body_ms
      if (!isStalled && now - since <= this.#limits.answer_ms) continue
      if (isStalled) respondAndClose(res, 408, 'The body of the request did not arrive in time.')
      else respondAndClose(res, 504, 'The application did not answer in time. Check its log.')
      abort()
    }
  }
}
