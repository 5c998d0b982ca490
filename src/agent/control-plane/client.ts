// The agent's way to the control plane: five requests, each answer held against its schema, each refusal with its code.
import * as z from 'zod'
import { type CredentialWish, GivenCredential } from '../../protocol/credentials.schema.ts'
import { type LogBatch, LogReceipt } from '../../protocol/logs.schema.ts'
import { Changes, type Poll, type Release } from '../../protocol/poll.schema.ts'
import { ReportResults, type Reports } from '../../protocol/report.schema.ts'

const REQUEST_TIMEOUT_MS = 30_000
/** Whoever ends does not stay for longer. */
export const SHUTDOWN_TIMEOUT_MS = 2_000

/** The control plane answered, and does not do it. */
export class RequestRefused extends Error {
  readonly status: number
  readonly code: string
  readonly retryAfter: number | null
  constructor(status: number, code: string, detail: string, retryAfter: number | null) {
    super(detail)
    this.status = status
    this.code = code
    this.retryAfter = retryAfter
  }
}

/** What stands in the way of a request is told beneath `fetch failed`. */
export function describeConnectionError({ message, cause }: Error): string {
  const { message: why, code } = (cause ?? {}) as { message?: string; code?: string }
  return why || code ? `it cannot be reached: ${why || code}` : message
}

/** How often an agent without the lease looks whether it is free: it may be given back before it ends. */
const STANDBY_POLL_S = 10
/** How many seconds to wait after so many failures in a row. */
export function backoffSeconds(error: unknown, failures: number): number {
  const told = (error instanceof RequestRefused && error.retryAfter) || 0
  const held = error instanceof RequestRefused && error.code === 'lease_held'
  return Math.max(Math.min(0.25 * 2 ** Math.min(failures, 6), 15), held ? Math.min(told, STANDBY_POLL_S) : told)
}

export type ControlPlaneClient = ReturnType<typeof createControlPlaneClient>

export function createControlPlaneClient({ url, key }: { url: string; key: string }) {
  async function post<T extends z.ZodType>(
    path: string,
    body: object,
    schema: T,
    signal: AbortSignal | undefined,
    wait = 0,
  ) {
    const limit = AbortSignal.timeout(wait * 1000 + REQUEST_TIMEOUT_MS)
    const answer = await fetch(`${url}/v1/sync/${path}`, {
      method: 'POST',
      headers: { 'X-Api-Key': key, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    })
    const text = await answer.text()
    if (answer.ok) return schema.parse(text ? JSON.parse(text) : undefined) as z.output<T>
    let said: { code?: string; detail?: string } = {}
    try {
      said = Object(JSON.parse(text))
    } catch {
      // Whatever stands in between does not speak as the control plane does.
    }
    const after = Number(answer.headers.get('Retry-After') ?? Number.NaN)
    const { code = '', detail = `${url} answers ${answer.status}.` } = said
    throw new RequestRefused(answer.status, code, detail, Number.isFinite(after) ? after : null)
  }
  return {
    poll: (poll: Poll, signal?: AbortSignal) => post('poll', poll, Changes, signal, poll.wait),
    release: (lease: Release) => post('release', lease, z.void(), AbortSignal.timeout(SHUTDOWN_TIMEOUT_MS)),
    report: (reports: Reports, signal?: AbortSignal) => post('report', reports, ReportResults, signal),
    credentials: (wish: z.input<typeof CredentialWish>, signal?: AbortSignal) =>
      post('credentials', wish, GivenCredential, signal),
    logs: (batch: LogBatch, signal?: AbortSignal) => post('logs', batch, LogReceipt, signal),
  }
}
