// `slipway schedules list`: the schedules of a deployment.
import type { Declaration } from '../declaration.ts'
import { describeCommand } from '../jobs.ts'
import { formatRun, type Schedule } from '../schedules.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = { arguments: '[deployment]', summary: 'list them with their next runs' }

export async function run(session: Session, _: object, [name]: [string?]): Promise<void> {
  const { client, out, signal } = session
  const deployment = await findDeployment(session, name)
  const request = { params: { deployment_id: deployment.id }, query: { limit: 100 }, signal }
  const schedules: Schedule[] = []
  for await (const one of client.list('GET /v2/deployments/{deployment_id}/schedules', request)) schedules.push(one)
  const columns = {
    name: (one: Schedule) => one.name,
    cron: (one: Schedule) => one.cron,
    next: (one: Schedule) => (one.enabled ? formatRun(one.next_runs[0], one) : 'disabled'),
    overlap: (one: Schedule) => one.overlap,
    from: (one: Schedule) => (one.declared ? 'source' : 'API'),
    command: describeCommand,
  }
  out.table(schedules, columns, `${deployment.name} has no schedules.`)
}
