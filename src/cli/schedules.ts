// Schedules as the command line finds and shows them.
import type { Reply } from '../client/client.ts'
import { CommandFailure, EXIT } from './failure.ts'
import type { Deployment, Session } from './session.ts'

export type Schedule = Reply<'GET /v2/deployments/{deployment_id}/schedules/{schedule_id}'>

/** By its name, which is unique in a deployment. */
export async function findSchedule(session: Session, deployment: Deployment, name: string): Promise<Schedule> {
  const { client, signal } = session
  const request = { params: { deployment_id: deployment.id }, query: { name }, signal }
  const { resources } = await client.call('GET /v2/deployments/{deployment_id}/schedules', request)
  if (resources[0]) return resources[0]
  const message = `${deployment.name} has no schedule ${name}.`
  throw new CommandFailure(EXIT.failed, 'schedule_not_found', message, `slipway schedules list ${deployment.name}`)
}

/** In the time zone of the schedule. */
export function formatRun(time: string | undefined, { time_zone }: Pick<Schedule, 'time_zone'>): string | null {
  if (time === undefined) return null
  const format = { timeZone: time_zone, dateStyle: 'short', timeStyle: 'short' } as const
  return `${new Date(time).toLocaleString('sv', format)} ${time_zone}`
}
