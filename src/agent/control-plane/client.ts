// The agent's client of the control plane: one method per request, with answers checked against their schemas.
import * as z from 'zod'
import { type AccessRenewals, RenewedAccess } from '../../protocol/access-renewals.schema.ts'
import { type CredentialWish, GivenCredential } from '../../protocol/credentials.schema.ts'
import type { DrainReports } from '../../protocol/drains.schema.ts'
import { JobReportResults, type JobReports } from '../../protocol/jobs.schema.ts'
import { type LogBatch, LogReceipt } from '../../protocol/logs.schema.ts'
import { MetricReceipt, type Metrics } from '../../protocol/metrics.schema.ts'
import { GivenModelTokens, type ModelTokenWish } from '../../protocol/model-tokens.schema.ts'
import type { Poll, Release } from '../../protocol/poll.schema.ts'
import { ReportResults, type Reports } from '../../protocol/report.schema.ts'
import type { SeenRepository } from '../../protocol/repository-looks.schema.ts'
import { type HeldSnapshots, SnapshotReceipt } from '../../protocol/snapshots.schema.ts'
import { ReceivedChanges } from './received-changes.ts'

const REQUEST_TIMEOUT_MS = 30_000
export const SHUTDOWN_TIMEOUT_MS = 2_000

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

/** `fetch failed` hides the reason in its cause. */
export function describeConnectionError({ message, cause }: Error): string {
  const { message: reason, code } = (cause ?? {}) as { message?: string; code?: string }
  return reason || code ? `The control plane cannot be reached: ${reason || code}` : message
}

/** An agent in standby polls at least this often, because the lease may be released before it expires. */
const STANDBY_POLL_S = 10
/** A proxy in between may ask for days, and a timer of more than 24 days ends at once. */
const MAX_RETRY_S = 300

export function backoffSeconds(error: unknown, failures: number): number {
  const retryAfter = (error instanceof RequestRefused && error.retryAfter) || 0
  const isStandby = error instanceof RequestRefused && error.code === 'lease_held'
  const backoff = Math.min(0.25 * 2 ** Math.min(failures, 6), 15)
  return Math.max(backoff, Math.min(retryAfter, isStandby ? STANDBY_POLL_S : MAX_RETRY_S))
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
    const timeout = AbortSignal.timeout(wait * 1000 + REQUEST_TIMEOUT_MS)
    const response = await fetch(`${url}/v1/sync/${path}`, {
      method: 'POST',
      headers: { 'X-Api-Key': key, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    })
    const text = await response.text()
    if (response.ok) return schema.parse(text ? JSON.parse(text) : undefined) as z.output<T>
    const { code = '', detail = `${url} answers ${response.status}.` } = parseProblem(text)
    const retryAfter = Number(response.headers.get('Retry-After') ?? Number.NaN)
    throw new RequestRefused(response.status, code, detail, Number.isFinite(retryAfter) ? retryAfter : null)
  }
  return {
    /** Node's WebSocket takes headers, which its type does not say. */
    openTunnel: (id: string, { agent_id, fence }: Release): WebSocket => {
      const query = new URLSearchParams({ agent_id, fence: String(fence) })
      const address = `${url.replace(/^http/, 'ws')}/v1/sync/tunnels/${id}?${query}`
      return new WebSocket(address, { headers: { 'X-Api-Key': key } } as never)
    },
    poll: (poll: Poll, signal?: AbortSignal) => post('poll', poll, ReceivedChanges, signal, poll.wait),
    release: (lease: Release) => post('release', lease, z.void(), AbortSignal.timeout(SHUTDOWN_TIMEOUT_MS)),
    report: (reports: Reports, signal?: AbortSignal) => post('report', reports, ReportResults, signal),
    credentials: (wish: z.input<typeof CredentialWish>, signal?: AbortSignal) =>
      post('credentials', wish, GivenCredential, signal),
    modelTokens: (wish: z.input<typeof ModelTokenWish>, signal?: AbortSignal) =>
      post('model-tokens', wish, GivenModelTokens, signal),
    renewAccess: (renewals: AccessRenewals, signal?: AbortSignal) =>
      post('access-renewals', renewals, RenewedAccess, signal),
    metrics: (metrics: z.input<typeof Metrics>, signal?: AbortSignal) =>
      post('metrics', metrics, MetricReceipt, signal),
    earlyMetrics: (metrics: z.input<typeof Metrics>, signal?: AbortSignal) =>
      post('early-metrics', metrics, MetricReceipt, signal),
    jobs: (reports: JobReports, signal?: AbortSignal) => post('jobs', reports, JobReportResults, signal),
    snapshots: (held: HeldSnapshots, signal?: AbortSignal) => post('snapshots', held, SnapshotReceipt, signal),
    repository: (seen: SeenRepository, signal?: AbortSignal) => post('repositories', seen, z.void(), signal),
    drains: (reports: DrainReports, signal?: AbortSignal) => post('drains', reports, z.void(), signal),
    logs: (batch: LogBatch, signal?: AbortSignal) => post('logs', batch, LogReceipt, signal),
  }
}

/** A proxy in between may answer with something else than a problem document. */
function parseProblem(text: string): { code?: string; detail?: string } {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}
