// Plans the deletion of what has an owner and is in no document any more.

import { ifFound } from '../export.ts'
import { readPolicy } from './deployment-plan.ts'
import { type Kind, webhookKey } from './documents.ts'
import { collect, mapInParts, type Planned, type Planner } from './planner.ts'

export type Deletion = Planned & { kind: Kind; name: string }

/** Deletes in the reverse order of creation, so a resource goes before those that it refers to. */
export async function planDeletions(planner: Planner, owner: string): Promise<Deletion[]> {
  const { client, signal, documents, state } = planner
  const deploymentNames = new Map([...state.deployments].map(([name, id]) => [id, name]))
  const scheduleName = (one: { deployment_id: string; name: string }) =>
    `${deploymentNames.get(one.deployment_id)}/${one.name}`
  const isDeclared = (kind: Kind, name: string) => documents.some(one => one.kind === kind && one.name === name)
  const query = { owner, limit: 100 }
  const [webhooks, schedules, deployments, providers, roles, policies] = await Promise.all([
    collect(client.list('GET /v2/webhooks', { query, signal })),
    ifFound(collect(client.list('GET /v2/schedules', { query, signal }))),
    collect(client.list('GET /v2/deployments', { query, signal })),
    client.call('GET /v2/auth/providers', { query: { owner }, signal }),
    collect(client.list('GET /orgs/current/roles', { query, signal })),
    findUndeclaredPolicies(planner, owner),
  ])
  // An installation that does not know the filter answers with what others own, too.
  const isOwned = (one: { owner: string | null }) => one.owner === owner
  const isLeft = ({ url, description }: { url: string; description: string }) =>
    !documents.some(
      ({ kind, name, spec }) =>
        kind === 'Webhook' &&
        (name === url ||
          webhookKey(name, (spec as { description?: string }).description) === webhookKey(url, description)),
    )
  return [
    ...(await mapInParts(webhooks.filter(isOwned).filter(isLeft), async ({ id, url }): Promise<Deletion> => {
      const params = { webhook_id: id }
      const { etag } = await client.answer('GET /v2/webhooks/{webhook_id}', { params, signal })
      const headers = { 'If-Match': etag }
      const run = () => client.call('DELETE /v2/webhooks/{webhook_id}', { params, headers })
      return { kind: 'Webhook', name: url, basis: [id, etag], run }
    })),
    ...(await mapInParts(
      (schedules ?? []).filter(isOwned).filter(one => !isDeclared('Schedule', scheduleName(one))),
      async (one): Promise<Deletion> => {
        const path = '/v2/deployments/{deployment_id}/schedules/{schedule_id}'
        const params = { deployment_id: one.deployment_id, schedule_id: one.id }
        const { etag } = await client.answer(`GET ${path}`, { params, signal })
        const run = () => client.call(`DELETE ${path}`, { params, headers: { 'If-Match': etag } })
        return { kind: 'Schedule', name: scheduleName(one), basis: [one.id, etag], run }
      },
    )),
    ...policies,
    ...(await mapInParts(
      deployments
        .filter(isOwned)
        .filter(({ name, status }) => status !== 'AWAITING_DELETE' && !isDeclared('Deployment', name)),
      async ({ id, name }): Promise<Deletion> => {
        const params = { deployment_id: id }
        const { etag } = await client.answer('GET /v2/deployments/{deployment_id}', { params, signal })
        const headers = { 'If-Match': etag }
        const run = () => client.call('DELETE /v2/deployments/{deployment_id}', { params, headers })
        const warnings = ['Its revisions, variables, logs and traces are deleted, too. This cannot be undone.']
        return { kind: 'Deployment', name, warnings, basis: [id, etag], run }
      },
    )),
    ...(
      await mapInParts(
        providers.filter(({ provider_id }) => !isDeclared('Provider', provider_id)),
        async ({ provider_id }): Promise<Deletion[]> => {
          const params = { provider_id }
          const { reply, etag } = await client.answer('GET /v2/auth/providers/{provider_id}', { params, signal })
          if (!isOwned(reply)) return []
          const headers = { 'If-Match': etag }
          const run = () => client.call('DELETE /v2/auth/providers/{provider_id}', { params, headers })
          const warnings = ['The connections of people through it end.']
          return [{ kind: 'Provider', name: provider_id, warnings, basis: etag, run }]
        },
      )
    ).flat(),
    ...(await mapInParts(
      roles.filter(isOwned).filter(({ display_name }) => !isDeclared('Role', display_name)),
      async ({ id, display_name }): Promise<Deletion> => {
        const params = { role_id: id }
        const { etag } = await client.answer('GET /orgs/current/roles/{role_id}', { params, signal })
        const headers = { 'If-Match': etag }
        const run = () => client.call('DELETE /orgs/current/roles/{role_id}', { params, headers })
        const warnings = ['It is of the organization: also the files of other workspaces may declare it.']
        return { kind: 'Role', name: display_name, warnings, basis: [id, etag], run }
      },
    )),
  ]
}

/** A policy has the owner of its deployment. */
async function findUndeclaredPolicies(planner: Planner, owner: string): Promise<Deletion[]> {
  const { client, documents, state, signal } = planner
  const declared = new Set(documents.flatMap(({ kind, name }) => (kind === 'PreviewPolicy' ? [name] : [])))
  const candidates = documents.filter(
    ({ kind, name, spec }) =>
      kind === 'Deployment' && (spec as { source?: string }).source === 'githost' && !declared.has(name),
  )
  const found = await mapInParts(candidates, async ({ name }): Promise<Deletion[]> => {
    const id = state.deployments.get(name)
    if (id === undefined) return []
    const params = { deployment_id: id }
    const { owner: stored } = await client.call('GET /v2/deployments/{deployment_id}', { params, signal })
    const policy = stored === owner ? await readPolicy(planner, id) : undefined
    if (!policy) return []
    const run = async () => client.call('DELETE /v2/deployments/{deployment_id}/preview-policy', { params })
    const warnings = ['Its previews end.']
    return [{ kind: 'PreviewPolicy', name, warnings, basis: policy.updated_at, run }]
  })
  return found.flat()
}
