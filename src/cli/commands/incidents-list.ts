// `slipway incidents list`: what is wrong now, or was.
import { type Incident, noteIfNobodyIsTold } from '../alerts.ts'
import type { Declaration } from '../declaration.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'list those that are open, of one deployment or of all',
  options: command => command.option('--all', 'the resolved ones, too'),
}

const MOST = 100

export async function run(session: Session, { all }: { all?: boolean }, [name]: [string | undefined]): Promise<void> {
  const { client, out, signal } = session
  const deployment = name === undefined ? undefined : await findDeployment(session, name)
  const query = {
    limit: MOST,
    ...(!all && { state: 'unresolved' as const }),
    ...(deployment && { deployment_id: deployment.id }),
  }
  const { resources } = await client.call('GET /v2/incidents', { query, signal })
  const columns = {
    since: (one: Incident) => one.opened_at,
    state: (one: Incident) => one.state,
    severity: (one: Incident) => one.severity,
    title: (one: Incident) => one.title,
    cause: (one: Incident) => one.cause || undefined,
    id: (one: Incident) => one.id,
  }
  out.table(resources, columns, all ? 'No incidents.' : 'Nothing is open.')
  await noteIfNobodyIsTold(session)
}
