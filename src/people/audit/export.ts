// Exports of the audit log, oldest first.
import { toIsoTime } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import { streamPages } from '../../kernel/http/paged-stream.ts'
import type { StreamReply } from '../../kernel/http/routes.ts'
import { type AuditRow, hasSucceeded, itemId, operationOf, statusOf, toApiActivity } from './items.ts'
import { toEntityManagement } from './ocsf-entities.ts'
import { cursorOf, readAuditRows } from './pages.ts'
import type { AuditCursor, ExportQuery } from './schema.ts'

/** A spreadsheet runs a cell that begins with one of these as a formula. */
const FORMULA = /^[=+\-@\t\r]/

const toCell = (value: unknown): string => {
  const text = value === null || value === undefined ? '' : String(value)
  const plain = FORMULA.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}

/** A line by RFC 4180. */
export const toCsvLine = (cells: unknown[]): string => `${cells.map(toCell).join(',')}\r\n`

const PAGE_ROWS = 200

type Format = { mediaType: string; extension: string; header: string; write: (row: AuditRow) => string }

const toNativeItem = (row: AuditRow) => ({
  id: itemId(row),
  time: toIsoTime(row.created_at),
  operation: operationOf(row),
  succeeded: hasSucceeded(row),
  status: statusOf(row),
  code: row.code,
  organization_id: row.organization_id,
  workspace_id: row.tenant_id,
  actor_kind: row.actor_kind,
  actor_id: row.actor_id,
  actor_name: row.actor_name,
  client_address: row.request?.client_address ?? null,
  user_agent: row.request?.user_agent ?? null,
  method: row.request?.method ?? null,
  path: row.request?.path ?? null,
  request_id: row.request_id,
  attempts_left_out: row.left_out,
  events: row.events,
})

const CSV_COLUMNS: [name: string, value: (item: ReturnType<typeof toNativeItem>) => unknown][] = [
  ...(
    [
      'time',
      'operation',
      'succeeded',
      'status',
      'code',
      'actor_kind',
      'actor_name',
      'actor_id',
      'workspace_id',
      'client_address',
      'user_agent',
      'method',
      'path',
    ] as const
  ).map(name => [name, item => item[name]] as (typeof CSV_COLUMNS)[number]),
  ['subjects', ({ events }) => [...new Set(events.map(event => event.subject_id))].join(' ')],
  ['changes', ({ events }) => JSON.stringify(events.flatMap(event => event.changes ?? []))],
  ['request_id', item => item.request_id],
  ['attempts_left_out', item => item.attempts_left_out],
  ['id', item => item.id],
]

const toJsonLine = (value: unknown): string => `${JSON.stringify(value)}\n`

const FORMATS: Record<ExportQuery['format'], Format> = {
  ndjson: {
    mediaType: 'application/x-ndjson',
    extension: 'ndjson',
    header: '',
    write: row => toJsonLine(toNativeItem(row)),
  },
  ocsf: {
    mediaType: 'application/x-ndjson',
    extension: 'ocsf.ndjson',
    header: '',
    write: row => [toApiActivity(row), ...toEntityManagement(row)].map(toJsonLine).join(''),
  },
  csv: {
    mediaType: 'text/csv; charset=utf-8; header=present',
    extension: 'csv',
    header: toCsvLine(CSV_COLUMNS.map(([name]) => name)),
    write: row => {
      const item = toNativeItem(row)
      return toCsvLine(CSV_COLUMNS.map(([, value]) => value(item)))
    },
  },
}

const toDay = (time: string): string => time.slice(0, 10)

export const exportAuditLogs = verb(
  'audit-logs:read',
  async (ctx, { format, ...filter }: ExportQuery): Promise<StreamReply> => {
    const { mediaType, extension, header, write } = FORMATS[format]
    // Events written from now on are left out, also the item of this export.
    const now = new Date(ctx.platform.clock.now()).toISOString()
    const past = { ...filter, end_time: filter.end_time < now ? filter.end_time : now }
    const stream = await streamPages(ctx, async (after?: AuditCursor) => {
      const rows = await readAuditRows(ctx, { filter: past, after, limit: PAGE_ROWS, order: 'oldest' })
      const text = (after ? '' : header) + rows.map(write).join('')
      return { text, next: rows.length < PAGE_ROWS ? undefined : cursorOf(rows.at(-1)!) }
    })
    const name = `audit-log-${toDay(filter.start_time)}-${toDay(filter.end_time)}.${extension}`
    const headers = { 'Content-Type': mediaType, 'Content-Disposition': `attachment; filename="${name}"` }
    return { stream, headers }
  },
)
