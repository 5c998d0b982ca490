// `slipway log-archives list`: files with lines of a deployment, by hour.
import type { Declaration } from '../declaration.ts'
import { findArchives, type LogArchive, type RangeFlags, withRange } from '../log-archives.ts'
import { formatBytes } from '../output.ts'
import { findDeployment, parseLimit, type Session, takeItems } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'list them, newest first',
  options: command => withRange(command).option('--limit <number>', 'how many', '20'),
}

export async function run(session: Session, flags: RangeFlags & { limit: string }, [name]: [string?]): Promise<void> {
  const { out } = session
  const { limit } = parseLimit(flags.limit)
  const { id } = await findDeployment(session, name)
  const [archives, hasMore] = await takeItems(findArchives(session, id, flags), limit)
  const columns = {
    id: (one: LogArchive) => one.id,
    hour: (one: LogArchive) => one.hour,
    lines: (one: LogArchive) => String(one.lines),
    size: (one: LogArchive) => formatBytes(one.bytes),
    dropped: (one: LogArchive) => String(one.dropped_lines),
    expires: (one: LogArchive) => one.expires_at,
  }
  out.table(archives, columns, 'There are no such archives.')
  if (hasMore) out.note('There are more. Show them with --limit.')
}
