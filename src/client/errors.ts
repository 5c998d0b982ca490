// The errors of a call: the server answered with a problem, or did not answer.

export type Fault = { type: string; loc: (string | number)[]; msg: string }

type Problem = { code: string; title: string; detail: string; request_id: string; errors?: Fault[]; trace?: unknown[] }

const asText = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)
const asList = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])
const isFault = (value: unknown): value is Fault => {
  const { loc, msg } = (value ?? {}) as Partial<Fault>
  return Array.isArray(loc) && typeof msg === 'string'
}

/** The server refused or failed. `message` says what is wrong and what to do. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: number
  /** One of the codes at `/docs`, or `unexpected_response` if the server is not an installation of Slipway. */
  readonly code: string
  readonly title: string
  readonly requestId: string | undefined
  /** All faults of the request, each with its location. */
  readonly errors: Fault[]
  readonly trace: unknown[]
  readonly retryAfterMs: number | undefined

  constructor(response: { status: number; headers: Headers }, problem: Partial<Problem> & Pick<Problem, 'detail'>) {
    super(problem.detail)
    this.status = response.status
    // A problem of another server may have other members by these names.
    this.code = asText(problem.code) ?? 'unexpected_response'
    this.title = asText(problem.title) ?? 'Unexpected response'
    this.requestId = asText(problem.request_id) ?? response.headers.get('X-Request-Id') ?? undefined
    this.errors = asList(problem.errors).filter(isFault)
    this.trace = asList(problem.trace)
    this.retryAfterMs = parseRetryAfter(response.headers.get('Retry-After'))
  }
}

/** The server could not be reached, or the connection was cut before the whole answer was read. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError'
}

export function toConnectionError(url: string, cause: unknown): unknown {
  const { origin } = new URL(url)
  const { name, message, cause: inner } = cause as Error & { cause?: { code?: string; message?: string } }
  if (name === 'AbortError' || cause instanceof ApiError) return cause
  const reason = name === 'TimeoutError' ? 'timed out' : (inner?.code ?? inner?.message ?? message)
  return new ConnectionError(`No answer from ${origin}: ${reason}. Check the address and the network.`, { cause })
}

export const isProblem = (body: unknown): body is Problem =>
  typeof body === 'object' && body !== null && 'code' in body && 'detail' in body && typeof body.detail === 'string'

function parseRetryAfter(value: string | null): number | undefined {
  if (!value) return undefined
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now()
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}
