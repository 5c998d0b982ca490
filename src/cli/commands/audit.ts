// `slipway audit`: who changed what, and which requests were refused, as a list or as a file.
import type { CallOptions, Reply } from '../../client/client.ts'
import { usageError } from '../failure.ts'
import { formatBytes } from '../output.ts'
import { writeFile, writeToStdout } from '../output-file.ts'
import type { Session } from '../session.ts'
import { parseCount, parseTime } from '../times.ts'

export type AuditFilters = {
  since: string
  until?: string
  operation?: string[]
  actor?: string
  subject?: string
}
export type ListOptions = AuditFilters & { limit: string }
export type ExportOptions = AuditFilters & { format: string; output?: string }

const LIST = 'GET /v1/audit-logs'
const EXPORT = 'GET /v1/audit-logs/export'
const FORMATS = ['ndjson', 'csv', 'ocsf'] as const
const PAGE = 100
type Item = Reply<typeof LIST>['items'][number]

const toQuery = ({ login }: Session, { since, until, operation, actor, subject }: AuditFilters) => ({
  start_time: parseTime(since, '--since'),
  end_time: until === undefined ? new Date(Date.now() + CLOCK_MARGIN_MS).toISOString() : parseTime(until, '--until'),
  ...(login.workspace && { workspace_id: login.workspace }),
  ...(operation && { operations: operation }),
  ...(actor && { actor_id: actor }),
  ...(subject && { subject_id: subject }),
})
/** The clock of the installation may be ahead. */
const CLOCK_MARGIN_MS = 3_600_000

export async function listAuditLog(session: Session, options: ListOptions): Promise<void> {
  const { client, out, signal } = session
  const query = toQuery(session, options)
  const limit = parseCount(options.limit, '--limit', 10_000)
  const items: Item[] = []
  for (let cursor: string | null | undefined; cursor !== null && items.length < limit; ) {
    const bounds = { limit: Math.min(PAGE, limit - items.length), ...(cursor && { cursor }) }
    const page = await client.call(LIST, { query: { ...query, ...bounds }, signal })
    items.push(...page.items)
    cursor = page.cursor
  }
  const columns = {
    time: ({ time }: Item) => new Date(time).toISOString().slice(0, 19).replace('T', ' '),
    actor: ({ unmapped }: Item) => unmapped.actor_name ?? unmapped.actor_kind,
    operation: ({ api }: Item) => api.operation,
    result: ({ status, unmapped }: Item) => unmapped.error_code ?? status.toLowerCase(),
    from: ({ src_endpoint }: Item) => src_endpoint.ip || undefined,
    resources: ({ resources }: Item) => resources.map(({ uid }) => uid.slice(0, 8)).join(' '),
    request: ({ unmapped }: Item) => unmapped.request_id,
  }
  out.table(items, columns, 'No entries in this time.')
}

export async function exportAuditLog(session: Session, options: ExportOptions): Promise<void> {
  const { client, out, signal } = session
  const format = FORMATS.find(name => name === options.format)
  if (!format) throw usageError(`--format ${options.format} is not one of ${FORMATS.join(', ')}.`)
  const query: CallOptions<typeof EXPORT>['query'] = { ...toQuery(session, options), format }
  const chunks = client.download(EXPORT, { query, signal })
  if (options.output === undefined) return writeToStdout(chunks, signal)
  const bytes = await writeFile(options.output, chunks, done => out.progress(`Exported ${formatBytes(done)}`))
  out.progress('')
  const result = { type: 'result', outcome: 'exported', file: options.output, format, bytes }
  out.emit(result, () => `Exported ${formatBytes(bytes)} to ${options.output}.`)
}
