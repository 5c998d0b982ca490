// Plans the schedules of deployments, but for those that a source declares.
import { TIMING_DEFAULTS } from '../../protocol/defaults.ts'
import { type DeclaredDocument, namesOfSchedule, specOf } from './documents.ts'
import { changesOfNew, compareMembers, findId, ownerOf, type Planned, type Planner, requireId } from './planner.ts'

const PATH = '/v2/deployments/{deployment_id}/schedules'
/** The defaults of the API for members that a document leaves out. */
const DEFAULTS = { ...TIMING_DEFAULTS, process: null, enabled: true }

export async function planSchedule(planner: Planner, document: DeclaredDocument): Promise<Planned> {
  const { client, signal } = planner
  const { deployment, schedule } = namesOfSchedule(document.name)
  const deployment_id = findId(planner, document, ['name'], 'Deployment', deployment)
  const given = Object.entries(specOf(document)).filter(([, value]) => value !== null)
  const members = { ...DEFAULTS, ...Object.fromEntries(given) }
  const listed = deployment_id === undefined ? undefined : await findSchedule(planner, deployment_id, schedule)
  if (!listed) {
    const body = { ...members, owner: ownerOf(planner, document, null) }
    const run = async () => {
      const params = { deployment_id: requireId(planner, 'Deployment', deployment) }
      await client.call(`POST ${PATH}`, { params, body: body as never })
    }
    return { action: 'create', changes: changesOfNew(body), basis: body, run }
  }
  if (listed.declared)
    planner.addFault(document, ['name'], 'is in the configuration file of the source. Remove it there first')
  const params = { deployment_id: deployment_id!, schedule_id: listed.id }
  const { reply, etag } = await client.answer(`GET ${PATH}/{schedule_id}`, { params, signal })
  const { changes, patch } = compareMembers({ ...members, owner: ownerOf(planner, document, reply.owner) }, reply)
  if (changes.length === 0) return {}
  if ('action' in patch)
    planner.addFault(document, ['spec', 'action'], 'cannot be changed. Delete the schedule, or name another one')
  // The API takes null for a member that is kept.
  const body = { ...patch, ...(patch.process === null && { process: '' }) }
  const run = () => client.call(`PATCH ${PATH}/{schedule_id}`, { params, body, headers: { 'If-Match': etag } })
  return { action: 'change', changes, basis: [etag, patch], run }
}

async function findSchedule({ client, signal }: Planner, deployment_id: string, name: string) {
  const { resources } = await client.call(`GET ${PATH}`, { params: { deployment_id }, query: { name }, signal })
  return resources[0]
}
