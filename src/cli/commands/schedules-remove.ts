// `slipway schedules remove`: deletes a schedule.
import type { Declaration } from '../declaration.ts'
import { findSchedule } from '../schedules.ts'
import { confirm, findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = { arguments: '[deployment] <name>', summary: 'delete one' }

export async function run(session: Session, _: object, [wanted, name]: [string | undefined, string]): Promise<void> {
  const { client, out, signal } = session
  const deployment = await findDeployment(session, wanted)
  const { id } = await findSchedule(session, deployment, name)
  const question = `Delete the schedule ${name} of ${deployment.name}? Its jobs stay.`
  await confirm(session, question, `slipway schedules remove ${deployment.name} ${name} --yes`)
  const params = { deployment_id: deployment.id, schedule_id: id }
  await client.call('DELETE /v2/deployments/{deployment_id}/schedules/{schedule_id}', { params, signal })
  out.emit({ type: 'schedule', id, name, deleted: true }, () => `${name} is deleted.`)
}
