// A change of the variables of a deployment, as the commands of `slipway env` make it.
import { ApiError } from '../client/errors.ts'
import { planAndApply } from './change.ts'
import { shellWord, usageError } from './failure.ts'
import type { FollowFlags } from './flags.ts'
import { parseTimeout } from './follow.ts'
import { type Deployment, findDeployment, type Session } from './session.ts'

type ReadDeployment = { deployment: Deployment; etag: string | undefined }

export async function readDeployment(session: Session, name: string | undefined): Promise<ReadDeployment> {
  const { id } = await findDeployment(session, name)
  const call = { params: { deployment_id: id }, signal: session.signal }
  const { reply: deployment, etag } = await session.client.answer('GET /v2/deployments/{deployment_id}', call)
  return { deployment, etag }
}

export async function changeVariables(
  session: Session,
  [verb, ...words]: string[],
  { deployment, etag }: ReadDeployment,
  set: Record<string, string>,
  unset: string[],
  flags: FollowFlags,
): Promise<void> {
  const { client, signal } = session
  const { name } = deployment
  const references = deployment.secret_references ?? []
  const isReference = (variable: string) => references.some(one => one.name === variable)
  const isSecret = (variable: string) => deployment.secrets.some(one => one.name === variable)
  const missing = unset.filter(variable => !isSecret(variable) && !isReference(variable))
  if (missing.length > 0) throw usageError(`${name} has no variable ${missing.join(', ')}.`, `slipway env list ${name}`)
  const secrets = mergeVariables(deployment, toVariables(set)).filter(({ name }) => !unset.includes(name))
  const patch = {
    params: { deployment_id: deployment.id },
    // An empty list would keep all variables.
    query: deployment.secrets.length > 0 && secrets.length === 0 ? { clear: ['secrets' as const] } : {},
    body: {
      secrets,
      ...(unset.some(isReference) && { secret_references: references.filter(({ name }) => !unset.includes(name)) }),
    },
    signal,
  }
  const plan = await client.plan('PATCH /v2/deployments/{deployment_id}', patch).catch(error => {
    throw nameFaults(error, secrets)
  })
  const changed = new Map(plan.secrets.map(({ name, change }) => [name, change]))
  for (const variable of unset.filter(isReference)) changed.set(variable, 'removed')
  showVariables(session, Object.keys(set), changed)
  // `If-Match`, because the variables that stay are sent as they were read.
  const apply = (digest: string) =>
    client.call('PATCH /v2/deployments/{deployment_id}', {
      ...patch,
      headers: { 'Plan-Digest': digest, 'If-Match': etag },
    })
  const next = ['slipway env', verb, name, ...words.map(shellWord), '--yes'].join(' ')
  const options = { ...flags, timeoutMs: parseTimeout(flags.timeout), next, isExpected: true }
  await planAndApply(session, deployment, { plan, apply }, options)
}

export const toVariables = (set: Record<string, string>) =>
  Object.entries(set).map(([name, value]) => ({ name, value }))

/** The other variables of the deployment stay, by the mask that stands for their values. */
export const mergeVariables = ({ secrets }: Pick<Deployment, 'secrets'>, set: { name: string; value: string }[]) => [
  ...secrets.filter(secret => !set.some(({ name }) => name === secret.name)),
  ...set,
]

/** Replaces the index of a secret in the request, which the person does not see, by its name. */
function nameFaults(error: unknown, secrets: { name: string }[]): unknown {
  if (!(error instanceof ApiError)) return error
  for (const fault of error.errors) {
    const [, member, index] = fault.loc
    if (member === 'secrets' && typeof index === 'number') fault.loc = [secrets[index]?.name ?? index]
  }
  return error
}

function showVariables({ out }: Session, sent: string[], changed: Map<string, string>): void {
  const namesWith = (change: string) => [...changed].flatMap(([name, one]) => (one === change ? [name] : [])).sort()
  const unchanged = sent.filter(name => !changed.has(name)).sort()
  const [added, removed] = [namesWith('added'), namesWith('removed')]
  out.emit({ type: 'variables', added, changed: namesWith('changed'), removed, unchanged })
  if (out.isMachine) return
  for (const name of unchanged) out.raw(out.paint('dim', `= ${name} unchanged`))
}
