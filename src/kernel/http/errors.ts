// Failures of a request, and the problem response that every error becomes.
import type { OAuthFetch } from '../../protocol/wire.ts'
import type { Code } from './codes.ts'
import { loadOnce } from './load-once.ts'

/** The sentences of all codes are for failures alone, so an isolate that only succeeds does without them. */
export const loadCodes = loadOnce(() => import('./codes.ts'))

export type Fault = { type: string; loc: (string | number)[]; msg: string }
type FailureDetails = {
  detail?: string
  /** Names the thing at fault within the detail of the code. */
  about?: string | undefined
  errors?: Fault[]
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

export const isDatabaseUnavailable = (error: unknown): boolean =>
  error instanceof Failure && (error.code === 'database_unavailable' || error.code === 'database_busy')

/** A fault that only the operator can fix. The response names no setting; the log does. */
export const notConfigured = (why: string | Error): Failure => {
  const cause = typeof why === 'string' ? { name: 'not_configured', message: why } : why
  return fail('not_configured', { headers: { 'Retry-After': '60' }, cause })
}

export const toFailure = (error: unknown): Failure =>
  error instanceof Failure ? error : fail('internal', { cause: error })

export async function problemBody({ code, extra }: Failure, requestId: string, origin: string) {
  const { titleOf, statusOf, detailOf } = await loadCodes()
  return {
    type: `${origin}/docs#error-${code}`,
    title: titleOf(code),
    status: statusOf(code),
    detail: extra.detail ?? detailOf(code, extra.about || undefined),
    code,
    request_id: requestId,
    ...(extra.errors && { errors: extra.errors }),
    ...(extra.trace && { trace: extra.trace }),
  }
}

type ProblemOptions = { hasErrorMember?: boolean | undefined }

export async function problemResponse(
  failure: Failure,
  requestId: string,
  origin = '',
  { hasErrorMember }: ProblemOptions = {},
): Promise<Response> {
  const problem = await problemBody(failure, requestId, origin)
  const { status, detail, code } = problem
  const body = hasErrorMember ? { ...problem, error: { message: detail, type: code, code } } : problem
  const headers = new Headers(failure.extra.headers)
  headers.set('Content-Type', 'application/problem+json')
  // Caches may store a 404 or 405 without it. Few of them know that an answer depends on X-Api-Key.
  headers.set('Cache-Control', 'no-store')
  if (status === 401 && !headers.has('WWW-Authenticate')) headers.set('WWW-Authenticate', 'Bearer realm="slipway"')
  return new Response(JSON.stringify(body), { status, headers })
}

const OAUTH_CODES: Code[] = [
  'access_denied',
  'authorization_pending',
  'expired_token',
  'invalid_client',
  'invalid_client_metadata',
  'invalid_grant',
  'invalid_redirect_uri',
  'invalid_scope',
  'invalid_target',
  'slow_down',
  'unsupported_grant_type',
]
const OAUTH_ERRORS: Record<number, string> = {
  429: 'slow_down',
  500: 'server_error',
  503: 'temporarily_unavailable',
}

/** OAuth has one status for what a client did wrong. */
export const oauthStatusOf = (status: number): number => (status < 500 && status !== 429 ? 400 : status)

/** By RFC 6749, section 5.2, as clients of other makers read it. */
export async function oauthErrorResponse({ code, extra }: Failure, requestId: string): Promise<Response> {
  const { statusOf, detailOf } = await loadCodes()
  const status = oauthStatusOf(statusOf(code))
  const body = {
    error: OAUTH_CODES.includes(code) ? code : (OAUTH_ERRORS[status] ?? 'invalid_request'),
    error_description: extra.detail ?? detailOf(code, extra.about || undefined),
    request_id: requestId,
  }
  const headers = { ...extra.headers, 'Cache-Control': 'no-store', 'Content-Type': 'application/json' }
  return new Response(JSON.stringify(body), { status, headers })
}

export function settingsErrorResponse(error: unknown): Promise<Response> {
  const requestId = crypto.randomUUID()
  console.error(JSON.stringify({ level: 'error', request_id: requestId, error: String(error) }))
  return problemResponse(notConfigured(String(error)), requestId)
}
