// `slipway revisions`: the revisions of a deployment.
import type { Declaration } from '../declaration.ts'
import { age } from '../output.ts'
import { findDeployment, parseLimit, type Revision, type Session, takeItems } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'list revisions',
  options: command => command.option('--limit <number>', 'how many', '20'),
}

export async function run(session: Session, flags: { limit: string }, [name]: [string?]): Promise<void> {
  const { client, out, signal } = session
  const { limit, page } = parseLimit(flags.limit)
  const deployment = await findDeployment(session, name)
  const revisions = client.list('GET /v2/deployments/{deployment_id}/revisions', {
    params: { deployment_id: deployment.id },
    query: { limit: page },
    signal,
  })
  const [resources, hasMore] = await takeItems(revisions, limit)
  const columns = {
    number: (one: Revision) => one.number,
    status: (one: Revision) => one.status + (one.id === deployment.active_revision_id ? ' ← serves' : ''),
    created: (one: Revision) => age(one.created_at),
    by: (one: Revision) => one.actor.name ?? one.actor.kind,
    commit: (one: Revision) => one.commit?.sha.slice(0, 8),
    reasons: (one: Revision) => one.reasons.join(', '),
  }
  out.table(resources, columns, `${deployment.name} has no revisions.`)
  if (hasMore) out.note('There are more. Show them with --limit.')
}
