// `slipway schedules run`: runs a schedule now, and follows it.
import type { Declaration } from '../declaration.ts'
import { followJob } from '../jobs.ts'
import { findSchedule } from '../schedules.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = { arguments: '[deployment] <name>', summary: 'run one now, and follow it' }

export async function run(session: Session, _: object, [wanted, name]: [string | undefined, string]): Promise<void> {
  const { client, signal } = session
  const deployment = await findDeployment(session, wanted)
  const { id } = await findSchedule(session, deployment, name)
  const params = { deployment_id: deployment.id, schedule_id: id }
  const path = 'POST /v2/deployments/{deployment_id}/schedules/{schedule_id}/run'
  await followJob(session, await client.call(path, { params, signal }))
}
