// `slipway logs` over all deployments, or by request, trace and members: a search, newest lines first.
import type { Command } from 'commander'
import type { Reply } from '../client/client.ts'
import { usageError } from './failure.ts'
import { formatLogMessage, formatProcess, formatTime } from './log-lines.ts'
import { findDeployment, findRevision, type Session } from './session.ts'
import { parseTime } from './times.ts'

export type SearchFlags = {
  all?: boolean
  request?: string
  trace?: string
  where?: string[]
  until?: string
  // Flags of the lines of one deployment, too.
  follow?: boolean
  build?: boolean
  revision?: string
  level?: string
  process?: string
  query?: string
  since?: string
  tail?: string
}

export const withSearchOptions = (command: Command): Command =>
  command
    .option('--all', 'search the lines of all deployments')
    .option('--request <id>', 'search the lines of this request, as the application names it')
    .option('--trace <id>', 'search the lines of this trace: 32 hexadecimal digits')
    .option('--where <name=value...>', 'search lines with this member, such as user=42 or req.method=POST')
    .option('--until <time>', 'search lines before this time')

/** The flags that ask for a search. Others choose lines of one deployment, which can be followed. */
export const isSearch = ({ all, request, trace, where, until }: SearchFlags): boolean =>
  all === true || [request, trace, where, until].some(flag => flag !== undefined)

type Line = Reply<'GET /v2/logs'>['logs'][number]

const PAGE_LINES = 500
const DEFAULT_LINES = 100
/** An empty page is no end: each looks at a number of lines. */
const MAX_PAGES = 200

export async function searchLogs(session: Session, flags: SearchFlags, name: string | undefined): Promise<void> {
  const { client, out, signal } = session
  if (flags.follow) throw usageError('A search cannot be followed. Leave out --follow, or name a deployment alone.')
  if (flags.all && name !== undefined) throw usageError(`--all and ${name} contradict each other. Leave out one.`)
  const wanted = Number(flags.tail ?? DEFAULT_LINES)
  if (!(Number.isInteger(wanted) && wanted >= 1 && wanted <= 10_000))
    throw usageError(`--tail ${flags.tail} is not a number of lines up to 10,000.`)
  const isOfAll = flags.all || (name === undefined && (flags.request !== undefined || flags.trace !== undefined))
  const deployment = isOfAll ? undefined : await findDeployment(session, name)
  if (flags.revision !== undefined && !deployment) throw usageError('--revision needs a deployment. Name one.')
  const revision = deployment && flags.revision && (await findRevision(session, deployment, flags.revision)).id
  const query = {
    ...(deployment && { deployment_id: deployment.id }),
    ...(revision && { revision_id: revision }),
    ...(flags.build && { kind: 'build' as const }),
    ...(flags.level && { level: flags.level.toUpperCase() as 'INFO' }),
    ...(flags.process && { process: flags.process }),
    ...(flags.query && { q: flags.query }),
    ...(flags.request && { request_id: flags.request }),
    ...(flags.trace && { trace_id: flags.trace }),
    ...(flags.where && { attribute: flags.where.map(escapeComma) }),
    ...(flags.since && { start_time: parseTime(flags.since, '--since') }),
    ...(flags.until && { end_time: parseTime(flags.until, '--until') }),
  }
  const lines: Line[] = []
  let cursor: string | undefined
  let searchedUntil: string | null = null
  for (let page = 0; page < MAX_PAGES && lines.length < wanted; page++) {
    const limit = Math.min(PAGE_LINES, wanted - lines.length)
    const found = await client.call('GET /v2/logs', { query: { ...query, limit, ...(cursor && { cursor }) }, signal })
    lines.push(...found.logs)
    searchedUntil = found.searched_until
    if (found.next_cursor === null) break
    cursor = found.next_cursor
  }
  const names = await readNames(session, lines)
  for (const line of lines.toReversed())
    out.emit({ type: 'log', ...line, deployment: names.get(line.deployment_id) ?? null }, () => {
      const owner = deployment ? '' : `${out.paint('dim', names.get(line.deployment_id) ?? line.deployment_id)} `
      const head = `${out.paint('dim', formatTime(line.timestamp))} ${owner}${formatProcess(out, line)}`
      return head + formatLogMessage(out, line)
    })
  if (lines.length === 0) out.note('No line was found.')
  if (searchedUntil !== null) out.note(`There may be older lines, from before ${searchedUntil}. Search with --until.`)
}

const escapeComma = (member: string) => member.replace(/[,\\]/g, '\\$&')

const MAX_NAMES = 50

async function readNames({ client, signal }: Session, lines: Line[]): Promise<Map<string, string>> {
  const ids = [...new Set(lines.map(({ deployment_id }) => deployment_id))].slice(0, MAX_NAMES)
  const read = async (deployment_id: string): Promise<[string, string][]> => {
    const found = await client
      .call('GET /v2/deployments/{deployment_id}', { params: { deployment_id }, signal })
      // It may have been deleted since.
      .catch(() => undefined)
    return found ? [[deployment_id, found.name]] : []
  }
  return new Map((await Promise.all(ids.map(read))).flat())
}
