// Resolves arguments: a deployment by its name or id, a revision by its number, id or role, a git host.
import * as z from 'zod'
import { Uuid } from '../../protocol/wire.ts'
import { ToolFailure } from './answers.ts'
import type { ToolContext } from './tool.ts'

export const DeploymentArgument = z.string().min(1).max(255).meta({ description: 'Name or id.' })

/** The operations that `findRevisions()` may call. */
export const REVISION_LOOK_UPS = [
  'GET /v2/deployments',
  'GET /v2/deployments/{deployment_id}',
  'GET /v2/deployments/{deployment_id}/revisions',
]

const ROLES = ['latest', 'serving', 'in_flight'] as const
/** Models send numbers as numbers and as texts. `z.coerce` would make a text of an argument that is missing, too. */
export const RevisionArgument = z
  .preprocess(value => (typeof value === 'number' ? String(value) : value), z.string().max(64))
  .meta({ description: 'Number, id, `latest`, `serving` or `in_flight`.' })

// biome-ignore lint/suspicious/noExplicitAny: the API answers by its schemas
type Body = any

/** One round trip. */
export async function findDeployment({ api }: ToolContext, deployment: string): Promise<Body> {
  if (Uuid.safeParse(deployment).success)
    return api('GET /v2/deployments/{deployment_id}', {
      path: { deployment_id: deployment },
      query: { include: 'summary' },
    })
  const { resources } = await api('GET /v2/deployments', {
    query: { name: deployment, include: 'summary', limit: 1 },
  })
  if (resources.length === 0)
    throw new ToolFailure('deployment_not_found', `This workspace has no deployment with the name \`${deployment}\`.`)
  return resources[0]
}

/** Takes no round trip if the argument is an id. */
export async function findDeploymentId(context: ToolContext, deployment: string): Promise<string> {
  return Uuid.safeParse(deployment).success ? deployment.toLowerCase() : (await findDeployment(context, deployment)).id
}

export type Target = { deployment_id: string; revision_id: string }

/** The ids of a deployment and of one of its revisions. At most two round trips, none if both are ids. */
export async function findRevisions(context: ToolContext, deployment: string, revisions: string[]): Promise<Target[]> {
  if (revisions.every(revision => Uuid.safeParse(revision).success)) {
    const deployment_id = await findDeploymentId(context, deployment)
    return revisions.map(revision_id => ({ deployment_id, revision_id }))
  }
  const found = await findDeployment(context, deployment)
  const known = listKnownRevisions(found)
  const isUnknown = (revision: string) => /^\d+$/.test(revision) && !known.has(revision)
  if (revisions.some(isUnknown)) {
    const page = await context.api('GET /v2/deployments/{deployment_id}/revisions', {
      path: { deployment_id: found.id },
      query: { limit: 100 },
    })
    for (const { id, number } of page.resources) known.set(String(number), id)
  }
  return revisions.map(revision => {
    const revision_id = Uuid.safeParse(revision).success ? revision : known.get(revision)
    if (revision_id) return { deployment_id: found.id, revision_id }
    const isRole = ROLES.includes(revision as (typeof ROLES)[number])
    const detail = isRole
      ? `\`${found.name}\` has no revision that is \`${revision}\` now.`
      : `\`${found.name}\` has no revision \`${revision}\` among its 100 newest.`
    throw new ToolFailure('revision_not_found', detail)
  })
}

function listKnownRevisions({ latest_revision_id, active_revision_id, summary }: Body): Map<string, string> {
  const known = new Map<string, string>()
  const { latest_revision, in_flight_revision, serving_revision } = summary
  for (const revision of [latest_revision, in_flight_revision, serving_revision])
    if (revision) known.set(String(revision.number), revision.id)
  if (latest_revision_id) known.set('latest', latest_revision_id)
  if (active_revision_id) known.set('serving', active_revision_id)
  if (in_flight_revision) known.set('in_flight', in_flight_revision.id)
  return known
}
