// Searches and counts the lines of all deployments that the caller may read.
import { verb } from '../../kernel/http/context.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import { levels } from '../../protocol/logs.schema.ts'
import * as s from './search.schema.ts'
import type { LogFilter, StoredLine } from './store/store.ts'

const toFilter = (query: Omit<s.LogSearchQuery, 'limit' | 'cursor'>): LogFilter => {
  const { kind, attribute = [], ...filter } = query
  const attributes = attribute.map(text => {
    const at = text.indexOf('=')
    return { name: text.slice(0, at), value: text.slice(at + 1) }
  })
  return { ...filter, kinds: s.kindsOf(kind), attributes }
}

const lineToWire = (line: StoredLine): s.FoundLine => ({
  id: `${line.revision_id}-${line.kind}-${line.number}`,
  deployment_id: line.deployment_id,
  revision_id: line.revision_id,
  kind: line.kind,
  timestamp: new Date(line.timestamp).toISOString(),
  level: levels[line.severity]!,
  process: line.process,
  message: line.message,
  ...(line.attributes && { attributes: line.attributes }),
  request_id: line.request_id,
  trace_id: line.trace_id,
})

export const searchLogs = verb(
  'deployments:read',
  async (ctx, { limit, cursor, ...query }: s.LogSearchQuery): Promise<s.FoundLogPage> => {
    const { lines, next } = await ctx.logs.search(ctx, { ...toFilter(query), limit, cursor })
    return {
      logs: lines.map(lineToWire),
      next_cursor: next && s.formatLogCursor(next),
      searched_until: next && new Date(next.at).toISOString(),
    }
  },
  { byPolicy: true },
)

const HOUR_MS = 3_600_000

export const countLogs = verb(
  'deployments:read',
  async (ctx, { step: wanted, ...query }: s.LogHistogramQuery): Promise<s.LogHistogram> => {
    const now = ctx.platform.clock.now()
    const end = query.end_time ? Date.parse(query.end_time) : now
    const start = query.start_time ? Date.parse(query.start_time) : end - HOUR_MS
    const seconds = (end - start) / 1000
    const refuse = (name: string, msg: string) => invalidRequest([{ type: 'custom', loc: ['query', name], msg }])
    if (seconds <= 0) throw refuse('start_time', 'must be before `end_time`')
    const step = wanted ?? s.HISTOGRAM_STEPS.find(one => seconds / one <= s.DEFAULT_BINS) ?? s.HISTOGRAM_STEPS.at(-1)!
    if (seconds / step > s.MAX_BINS) throw refuse(wanted ? 'step' : 'start_time', `makes more than ${s.MAX_BINS} bins`)
    const range = { start_time: new Date(start).toISOString(), end_time: new Date(end).toISOString(), step }
    const { bins, counted_from } = await ctx.logs.histogram(ctx, { ...toFilter(query), ...range })
    const byTime = new Map<number, s.LogHistogram['bins'][number]>()
    for (const { at, severity, lines } of bins.toSorted((a, b) => a.at - b.at)) {
      const time = new Date(at * 1000).toISOString()
      const bin = byTime.get(at) ?? { time, counts: { DEBUG: 0, INFO: 0, WARNING: 0, ERROR: 0, CRITICAL: 0 } }
      bin.counts[levels[severity]!] += lines
      byTime.set(at, bin)
    }
    return { step, counted_from, bins: [...byTime.values()] }
  },
  { byPolicy: true },
)
