// `slipway logs`: the newest lines, and with --follow those that arrive.
import type { Reply } from '../../client/client.ts'
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { formatLogLine } from '../log-lines.ts'
import { isSearch, type SearchFlags, searchLogs, withSearchOptions } from '../log-search.ts'
import { findDeployment, findRevision, type Session } from '../session.ts'
import { parseTime } from '../times.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'show log lines',
  options: command =>
    withSearchOptions(command)
      .option('-f, --follow', 'go on with lines as they arrive')
      .option('--build', 'only lines of builds')
      .option('--requests', 'only requests, with their status and time')
      .option('--revision <revision>', 'only lines of this revision, by number or id')
      .option('--level <level>', 'only lines of this level or above')
      .option('--process <process>', 'only lines of this process type, such as web or worker')
      .option('-q, --query <text>', 'only lines with this text')
      .option('--since <time>', 'only lines from this time on, such as 10m or 2h ago, or 2026-11-22T12:00:00Z')
      .option('--tail <lines>', 'how many of the newest lines to begin with. Default: 100, or all with --since'),
}

type Flags = SearchFlags & { requests?: boolean }
type Line = Reply<'GET /v2/deployments/{deployment_id}/logs'>['logs'][number]

const DEFAULT_TAIL = 100
const PAGE_LINES = 1000

export async function run(session: Session, options: Flags, [name]: [string?]): Promise<void> {
  if (isSearch(options)) return searchLogs(session, options, name)
  const { client, out, signal } = session
  if (options.build && options.requests) throw usageError('--build and --requests exclude each other.')
  const start = parseStart(options)
  const deployment = await findDeployment(session, name)
  const revision = options.revision && (await findRevision(session, deployment, options.revision)).id
  const filters = {
    ...(options.build && { kind: 'build' as const }),
    ...(options.requests && { kind: 'request' as const }),
    ...(revision && { revision_id: revision }),
    ...(options.level && { level: options.level.toUpperCase() as 'INFO' }),
    ...(options.process && { process: options.process }),
    ...(options.query && { query: options.query }),
  }
  const params = { deployment_id: deployment.id }
  const query = { ...filters, ...start }
  const show = (line: Line) => out.emit({ type: 'log', ...line }, () => formatLogLine(out, line))
  if (!options.follow) {
    for (let after: number | undefined; ; ) {
      const page = await client.call('GET /v2/deployments/{deployment_id}/logs', {
        params,
        query: { ...query, limit: PAGE_LINES, ...(after !== undefined && { after }) },
        signal,
      })
      page.logs.forEach(show)
      if (!page.has_more) return
      after = page.next_after
    }
  }
  const onState = ({ state }: { state: string }) => {
    if (state === 'reconnecting') out.note('The log stream was cut. Reconnecting.')
  }
  const stream = client.stream('GET /v2/deployments/{deployment_id}/logs/stream', { params, query, signal, onState })
  for await (const { event, data } of stream) {
    if (event === 'message') show(data)
    else out.note('Some lines are no longer kept.')
  }
}

/** A time without --tail starts at the first line from then on. */
function parseStart({ since, tail }: Flags) {
  if (tail !== undefined && !(/^\d{1,4}$/.test(tail) && Number(tail) <= 1000))
    throw usageError(`--tail ${tail} is not a number of lines up to 1000.`)
  const start_time = since === undefined ? undefined : parseTime(since, '--since')
  if (start_time === undefined) return { tail: Number(tail ?? DEFAULT_TAIL) }
  return { start_time, ...(tail === undefined ? { after: 0 } : { tail: Number(tail) }) }
}
