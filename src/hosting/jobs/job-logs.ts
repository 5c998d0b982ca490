// Reads the lines of a job, and waits for the next by polling the database: pages that wait, and a stream.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { inTenant, type Row, run } from '../../kernel/db/db.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, credentialOf, pauseUntilAborted, pauseWhileConnected, verb } from '../../kernel/http/context.ts'
import { type LiveStream, resumeAfter, type StreamBatch } from '../../kernel/http/live-stream.ts'
import { openJobStatuses } from '../../protocol/jobs.schema.ts'
import { levels } from '../../protocol/logs.schema.ts'
import { isJob, type JobRow, jobToWire } from './jobs.ts'
import type * as schema from './schema.ts'
import { jobLines, jobs } from './tables.ts'

/** Limits of the lines of a job. The oldest are deleted. */
export const MAX_JOB_LINES = 5000
export const MAX_JOB_BYTES = 1024 * 1024

/** The delay grows slowly, so that a line comes soon after it was written, however long that takes. */
const [MIN_DELAY_MS, MAX_DELAY_MS, DELAY_GROWTH] = [250, 3000, 1.3]

type Input = z.output<typeof schema.JobRef> & schema.JobLogQuery
type Line = [number: number, timestamp: string, severity: number, message: string]

export const readJobLogs = verb('deployments:read', async (ctx, input: Input): Promise<schema.JobLogPage> => {
  const release = input.wait > 0 ? ctx.watches!.admit(credentialOf(ctx).hash) : undefined
  try {
    const end = Date.now() + input.wait * 1000
    for (let delay = MIN_DELAY_MS; ; delay = Math.min(delay * DELAY_GROWTH, MAX_DELAY_MS)) {
      const page = await readLines(ctx, input)
      const left = end - Date.now()
      const isOpen = openJobStatuses.includes(page.job.status)
      if (page.logs.length > 0 || !isOpen || left <= 0) return page
      if (!(await pauseWhileConnected(ctx, Math.min(delay, left)))) return page
    }
  } finally {
    release?.()
  }
})

async function readLines(ctx: Ctx, { after, limit, ...ref }: Input): Promise<schema.JobLogPage> {
  const query = sql<Row>`
    select to_json(${jobs}), coalesce(page.lines, '[]')
    from ${jobs}
    left join lateral (
      select json_agg(json_build_array(l.number, l.timestamp, l.severity, l.message) order by l.number) as lines
      from (
        select *
        from ${jobLines}
        where ${jobLines.job_id} = ${jobs.id} and ${inTenant(jobLines)} and ${jobLines.number} > ${after}
        order by ${jobLines.number}
        limit ${limit + 1}
      ) l
    ) page on true
    where ${isJob(ref)}`
  const [json, lines] = requireRow(await run(ctx, query), 'job_not_found') as [string, string]
  const found = JSON.parse(lines) as Line[]
  const page = found.slice(0, limit)
  const next_after = page.at(-1)?.[0] ?? after
  return {
    logs: page.map(([number, timestamp, severity, message]) => ({
      number,
      timestamp: toIsoTime(timestamp),
      level: levels[severity]!,
      message,
    })),
    next_after,
    dropped: Math.max(0, (page[0]?.[0] ?? after + 1) - after - 1),
    has_more: found.length > limit,
    job: jobToWire(JSON.parse(json) as JobRow),
  }
}

const STREAM_LINES = 500

export const streamJobLogs = verb(
  'deployments:read',
  async (ctx, { after, ...ref }: z.output<typeof schema.JobRef> & schema.JobStreamQuery): Promise<LiveStream> => {
    const release = ctx.watches!.admit(credentialOf(ctx).hash)
    try {
      const input = { ...ref, after: resumeAfter(ctx, after) ?? 0, limit: STREAM_LINES, wait: 0 }
      const first = await readLines(ctx, input)
      return { follow: signal => followLines(ctx, input, first, signal), onEnd: release }
    } catch (error) {
      release()
      throw error
    }
  },
)

async function* followLines(
  ctx: Ctx,
  input: Input,
  first: schema.JobLogPage,
  signal: AbortSignal,
): AsyncGenerator<StreamBatch> {
  const { seconds, trips } = ctx.platform.liveStreams
  const until = Date.now() + seconds * 1000
  let shown = ''
  let delay = MIN_DELAY_MS
  let page = first
  for (let trip = 1; ; trip++) {
    const { logs, dropped, has_more, next_after, job } = page
    const isOpen = openJobStatuses.includes(job.status)
    // A final status follows all lines.
    const isNews = job.status !== shown && (isOpen || !has_more)
    yield {
      messages: [
        ...(dropped > 0 ? [{ event: 'dropped' as const, json: JSON.stringify({ lines: dropped }) }] : []),
        ...logs.map(line => ({ id: String(line.number), json: JSON.stringify(line) })),
        ...(isNews ? [{ event: 'job' as const, json: JSON.stringify(job) }] : []),
      ],
      cursor: String(next_after),
    }
    const left = until - Date.now()
    if ((!isOpen && !has_more) || left <= 0 || trip >= trips) return
    if (isNews) shown = job.status
    delay = isNews || logs.length > 0 ? MIN_DELAY_MS : Math.min(delay * DELAY_GROWTH, MAX_DELAY_MS)
    if (!has_more && !(await pauseUntilAborted(Math.min(delay, left), signal))) return
    ctx.countAgain?.()
    page = await readLines(ctx, { ...input, after: next_after })
  }
}
