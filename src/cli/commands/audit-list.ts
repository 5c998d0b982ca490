// `slipway audit list`: the newest entries of the audit log.
import type { Reply } from '../../client/client.ts'
import { type AuditFilters, toQuery, withFilters } from '../audit-filters.ts'
import type { Declaration } from '../declaration.ts'
import type { Session } from '../session.ts'
import { parseCount } from '../times.ts'

export const declaration: Declaration = {
  summary: 'list writes and refused requests',
  options: command => withFilters(command).option('--limit <number>', 'how many of the newest', '20'),
}

const LIST = 'GET /v1/audit-logs'
const PAGE = 100
type Item = Reply<typeof LIST>['items'][number]

export async function run(session: Session, options: AuditFilters & { limit: string }): Promise<void> {
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
