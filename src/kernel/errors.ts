// How a request fails: with a code, what it is about, and the one body that every error has.

import type { OAuthFetch } from '../protocol/wire.ts'
import { CODES, type Code } from './codes.ts'

/** One fault of a request: where it is and what is wrong there. */
export type Fault = { type: string; loc: (string | number)[]; msg: string }
type FailureDetails = {
  /** Instead of the code's own sentence. */
  detail?: string
  /** Names the thing at fault, at the end of the code's sentence. */
  about?: string | undefined
  errors?: Fault[]
  /** What foreign servers were asked before it came to this. */
  trace?: OAuthFetch[]
  headers?: Record<string, string>
  cause?: unknown
}

export class Failure extends Error {
  readonly code: Code
  readonly extra: FailureDetails
  constructor(code: Code, extra: FailureDetails = {}) {
    super(code, { cause: extra.cause })
    this.code = code
    this.extra = extra
  }
}

export const fail = (code: Code, extra?: FailureDetails): Failure => new Failure(code, extra)
/** Something that only the operator can mend, perhaps soon: the log says what. */
export const notConfigured = (why: string | Error): Failure => {
  const cause = typeof why === 'string' ? { name: 'not_configured', message: why } : why
  return fail('not_configured', { headers: { 'Retry-After': '60' }, cause })
}

/** The one body of every error. */
export function problemResponse({ code, extra }: Failure, requestId: string, origin = ''): Response {
  const [status, title, detail] = CODES[code]
  const body = {
    type: `${origin}/docs#error-${code}`,
    title,
    status,
    detail: extra.detail ?? (extra.about ? `${detail.replace(/\.$/, '')}: ${extra.about}.` : detail),
    code,
    request_id: requestId,
    ...(extra.errors && { errors: extra.errors }),
    ...(extra.trace && { trace: extra.trace }),
  }
  const headers = new Headers(extra.headers)
  headers.set('Content-Type', 'application/problem+json')
  if (status === 401 && !headers.has('WWW-Authenticate')) headers.set('WWW-Authenticate', 'Bearer realm="slipway"')
  return new Response(JSON.stringify(body), { status, headers })
}

/** Without its settings there is no app; the log names the one that is broken. */
export function settingsErrorResponse(error: unknown): Response {
  const requestId = crypto.randomUUID()
  console.error(JSON.stringify({ level: 'error', request_id: requestId, error: String(error) }))
  return problemResponse(notConfigured(String(error)), requestId)
}
