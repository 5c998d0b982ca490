// The interface of the log store: where lines of all deployments are searched. Postgres has the newest lines of each
// log in any case, which clients follow. ClickHouse, the second implementation, has those of months.
import type { Ctx } from '../../../kernel/http/context.ts'
import type { Services } from '../../../kernel/http/routes.ts'
import type { LogAttributes, LogKind } from '../../../protocol/logs.schema.ts'
import type { Level } from '../logs.schema.ts'
import type { LogCursor } from '../search.schema.ts'

declare module '../../../kernel/http/context.ts' {
  interface Ports {
    logs: LogStore
  }
}

export interface LogStore {
  /** Stores lines that Postgres has taken. A repeat changes nothing. Null: Postgres itself is the store. */
  readonly append: ((lines: QueuedLine[]) => Promise<void>) | null
  /** A page of matching lines, newest first. It may end early, at `next`, when much was read in search of them. */
  search(ctx: Ctx, query: LogSearch): Promise<FoundLines>
  /** Counts matching lines by time and level. */
  histogram(ctx: Ctx, query: LogCount): Promise<LineCounts>
  /** The scheduled work: deletes lines of deployments that were deleted. */
  expire(services: Services): Promise<void>
}

export type LogFilter = {
  kinds: readonly LogKind[]
  deployment_id?: string | undefined
  revision_id?: string | undefined
  level?: Level | undefined
  process?: string | undefined
  q?: string | undefined
  request_id?: string | undefined
  trace_id?: string | undefined
  attributes: { name: string; value: string }[]
  start_time?: string | undefined
  end_time?: string | undefined
}

export type LogSearch = LogFilter & { limit: number; cursor?: LogCursor | undefined }
export type FoundLines = { lines: StoredLine[]; next: LogCursor | null }

/** `step` is in seconds. Times of bins are multiples of it since 1970. */
export type LogCount = LogFilter & { start_time: string; end_time: string; step: number }
/** `counted_from` is later than the start if there were too many lines to count them all. */
export type LineCounts = { bins: { at: number; severity: number; lines: number }[]; counted_from: string }

export type StoredLine = {
  deployment_id: string
  revision_id: string
  kind: LogKind
  number: number
  timestamp: string
  severity: number
  message: string
  process: string | null
  attributes: LogAttributes | null
  request_id: string | null
  trace_id: string | null
}
export type QueuedLine = StoredLine & { tenant_id: string }

/** Sorts before every line of its time. */
export const beforeTime = (at: string): LogCursor => ({
  at,
  revision_id: '00000000-0000-0000-0000-000000000000',
  number: 0,
  kind: '',
})
