// `slipway list`: the deployments of the workspace.
import type { Declaration } from '../declaration.ts'
import { CommandFailure, EXIT, usageError } from '../failure.ts'
import { age } from '../output.ts'
import { type Deployment, parseLimit, type Session, takeItems } from '../session.ts'

export const declaration: Declaration = {
  summary: 'list deployments',
  options: command =>
    command
      .option('--name <text>', 'only those with this text in their name')
      .option('--status <status>', 'only those with this status')
      .option('--health <health>', 'only those with this health, such as crash_looping,unhealthy')
      .option('--tag <key=value...>', 'only those with this tag; all of several keys, one of several values of a key')
      .option('--limit <number>', 'how many. Default: 100 on a terminal, otherwise all'),
}

type Flags = { name?: string; status?: string; health?: string; tag?: string[]; limit?: string }

const TERMINAL_LIMIT = '100'
const WIDE = 100

export async function run(session: Session, options: Flags): Promise<void> {
  const { client, out, signal } = session
  const { limit, page } = parseLimit(options.limit ?? (out.isMachine ? '999999' : TERMINAL_LIMIT))
  const tags = await Promise.all((options.tag ?? []).map(tag => findTagValue(session, tag)))
  const query = {
    limit: page,
    ...(options.name && { name_contains: options.name }),
    ...(options.status && { status: options.status.toUpperCase().split(',') as 'READY'[] }),
    ...(options.health && { health: options.health.toLowerCase().split(',') }),
    ...(tags.length > 0 && { tag_value_ids: tags }),
  }
  const [found, hasMore] = await takeItems(client.list('GET /v2/deployments', { query, signal }), limit)
  const columns = {
    name: (one: Deployment) => one.name,
    status: (one: Deployment) => one.status,
    health: (one: Deployment) => one.health?.state ?? 'unknown',
    serving: (one: Deployment) => one.serving,
    updated: (one: Deployment) => age(one.updated_at),
    ...(out.width >= WIDE && { source: (one: Deployment) => one.source }),
    url: (one: Deployment) => one.url,
  }
  const isFiltered = Object.keys(query).length > 1
  out.table(found, columns, isFiltered ? 'No deployment matches.' : 'No deployments yet. Create one: slipway deploy')
  if (hasMore) out.note('There are more. Narrow the list, or show more with --limit.')
}

/** The id of the value of `key=value`. */
async function findTagValue({ client, signal }: Session, tag: string): Promise<string> {
  const [key, value] = splitOnce(tag, '=')
  if (!key || !value) throw usageError(`--tag ${tag} is not of the form key=value.`)
  for await (const { id } of client.list('GET /v2/tag-keys', { query: { name: key }, signal })) {
    const values = { params: { tag_key_id: id }, query: { name: value }, signal }
    for await (const one of client.list('GET /v2/tag-keys/{tag_key_id}/values', values)) return one.id
  }
  throw new CommandFailure(
    EXIT.failed,
    'tag_not_found',
    `This workspace has no tag ${tag}.`,
    'slipway api GET /v2/tag-keys',
  )
}

function splitOnce(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator)
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)]
}
