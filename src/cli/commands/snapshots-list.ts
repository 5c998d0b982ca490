// `slipway snapshots list`: snapshots of a deployment, or of the workspace.
import type { Declaration } from '../declaration.ts'
import { age } from '../output.ts'
import { findDeployment, parseLimit, type Session, takeItems } from '../session.ts'
import { describeBytes, type Snapshot } from '../snapshots.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'list them, newest first',
  options: command =>
    command
      .option('--all', 'of all deployments, also of deleted ones')
      .option('--store <store>', 'only of this one: database, or disk:NAME')
      .option('--limit <number>', 'how many', '20'),
}

type Flags = { all?: boolean; store?: string; limit: string }

export async function run(session: Session, flags: Flags, [name]: [string?]): Promise<void> {
  const { client, out, signal } = session
  const { limit, page } = parseLimit(flags.limit)
  const deployment_id = flags.all ? undefined : (await findDeployment(session, name)).id
  const query = { limit: page, ...(deployment_id && { deployment_id }), ...(flags.store && { store: flags.store }) }
  const [snapshots, hasMore] = await takeItems(client.list('GET /v2/snapshots', { query, signal }), limit)
  const columns = {
    id: (one: Snapshot) => one.id,
    ...(flags.all && { deployment: (one: Snapshot) => one.deployment_name }),
    store: (one: Snapshot) => one.store,
    taken: (one: Snapshot) => age(one.taken_at),
    size: (one: Snapshot) => describeBytes(one.size_bytes),
    reason: (one: Snapshot) => one.reason,
  }
  out.table(snapshots, columns, 'There are no such snapshots.')
  if (hasMore) out.note('There are more. Show them with --limit.')
}
