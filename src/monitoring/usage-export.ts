// Exports how much each workspace used on each day: traces, their bytes, and deployments.
import { sql } from 'drizzle-orm'
import { type Row, run, textArray } from '../kernel/db/db.ts'
import { verb } from '../kernel/http/context.ts'
import { chooseDays } from '../kernel/http/days.ts'
import { streamPages } from '../kernel/http/paged-stream.ts'
import type { StreamReply } from '../kernel/http/routes.ts'
import { toCsvLine } from '../people/audit/export.ts'
import { DEFAULT_DAYS, MAX_DAYS, type UsageExportQuery } from './usage-export.schema.ts'

const MAX_ROWS = 1000
const DAY_MS = 86_400_000

const COLUMNS = [
  'organization_id',
  'organization_name',
  'workspace_id',
  'workspace_name',
  'day',
  'traces',
  'bytes',
  'deployments',
] as const
type UsageOfDay = Record<(typeof COLUMNS)[number], string | number | null>
const COUNTS: readonly string[] = ['traces', 'bytes', 'deployments']

const FORMATS = {
  json: {
    mediaType: 'application/json',
    first: '[',
    last: ']\n',
    write: (usage: UsageOfDay, isFirst: boolean) => `${isFirst ? '' : ','}\n${JSON.stringify(usage)}`,
  },
  csv: {
    mediaType: 'text/csv; charset=utf-8; header=present',
    first: toCsvLine([...COLUMNS]),
    last: '',
    write: (usage: UsageOfDay) => toCsvLine(COLUMNS.map(name => usage[name])),
  },
}

/** By RFC 9110: the quality of the most specific range that has the type. */
function qualityOf(type: string, accept: string): number {
  const ranges = accept.split(',').map(range => {
    const [name, ...parameters] = range.split(';').map(part => part.trim().toLowerCase())
    const quality = parameters.find(one => one.startsWith('q='))
    return { name, quality: quality ? Number(quality.slice(2)) || 0 : 1 }
  })
  const matching = [type, `${type.split('/')[0]}/*`, '*/*'].map(name => ranges.find(range => range.name === name))
  return matching.find(range => range !== undefined)?.quality ?? 0
}

const chooseFormat = (accept = ''): 'json' | 'csv' =>
  qualityOf('text/csv', accept) > qualityOf('application/json', accept) ? 'csv' : 'json'

const toUsage = (row: Row): UsageOfDay =>
  Object.fromEntries(
    COLUMNS.map((name, i) => [name, COUNTS.includes(name) && row[i] !== null ? Number(row[i]) : row[i]]),
  ) as UsageOfDay

const isUsed = (usage: UsageOfDay): boolean => COUNTS.some(name => usage[name as 'traces'])

/** The statement checks the right to read it, which depends on the query. */
export const exportUsage = verb('organization:read', async (ctx, query: UsageExportQuery): Promise<StreamReply> => {
  const { start, end } = chooseDays(query, ctx.platform.clock.now(), { byDefault: DEFAULT_DAYS, most: MAX_DAYS })
  const days = (Date.parse(end) - Date.parse(start)) / DAY_MS + 1
  const limit = Math.max(1, Math.floor(MAX_ROWS / days))
  const format = query.format ?? chooseFormat(ctx.accept)
  const { mediaType, first, last, write } = FORMATS[format]
  const { instanceAdmins, clickHouse } = ctx.config
  if (clickHouse) ctx.warnings.push('Traces are in ClickHouse, so traces and bytes are null.')
  let isFirst = true
  const stream = await streamPages(ctx, async (after?: string) => {
    const rows = await run(
      ctx,
      sql<Row>`
        select *
        from read_usage(
          ${textArray(instanceAdmins)}, ${query.installation}, ${start}::date, ${end}::date, ${!clickHouse},
          ${after ?? null}::uuid, ${limit}
        )`,
    )
    let text = after === undefined ? first : ''
    for (const usage of rows.map(toUsage).filter(isUsed)) {
      text += write(usage, isFirst)
      isFirst = false
    }
    const next = rows.length < limit * days ? undefined : (rows.at(-1)![COLUMNS.indexOf('workspace_id')] as string)
    return { text: next === undefined ? text + last : text, next }
  })
  const headers = {
    'Content-Type': mediaType,
    'Content-Disposition': `attachment; filename="usage-${start}-${end}.${format}"`,
  }
  return { stream, headers }
})
