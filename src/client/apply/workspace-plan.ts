// Plans what a workspace has beside deployments and providers: each by the version that was read.

import { type DeclaredDocument, keyOfTagValue, specOf, webhookKey } from './documents.ts'
import {
  changesOfNew,
  compareMembers,
  findId,
  idKey,
  ownerOf,
  type Planned,
  type Planner,
  requireId,
} from './planner.ts'

export async function planWorkspace(
  { client, workspace, signal }: Planner,
  document: DeclaredDocument,
): Promise<Planned> {
  const params = { workspace_id: workspace.id }
  const { reply, etag } = await client.answer('GET /workspaces/{workspace_id}', { params, signal })
  const { changes, patch } = compareMembers(specOf(document), reply)
  if (changes.length === 0) return {}
  const run = () =>
    client.call('PATCH /workspaces/{workspace_id}', { params, body: patch, headers: { 'If-Match': etag } })
  return { action: 'change', changes, basis: [etag, patch], run }
}

export async function planRole(planner: Planner, document: DeclaredDocument): Promise<Planned> {
  const { client, signal, state } = planner
  const { scope = 'workspace', ...members } = { description: '', ...specOf(document) } as Record<string, unknown>
  const listed = state.roles.get(document.name)
  if (!listed) {
    const body = { scope, ...members, owner: ownerOf(planner, document, null) }
    const run = () => client.call('POST /orgs/current/roles', { body: body as never })
    return { action: 'create', changes: changesOfNew(body), basis: body, run }
  }
  if (listed.organization_id === null) planner.addFault(document, ['name'], 'is a built-in role. Choose another name')
  if (listed.scope !== scope)
    planner.addFault(document, ['spec', 'scope'], `cannot be changed: it is ${listed.scope}. Delete the role first`)
  const params = { role_id: listed.id }
  const { reply, etag } = await client.answer('GET /orgs/current/roles/{role_id}', { params, signal })
  const { changes, patch } = compareMembers({ ...members, owner: ownerOf(planner, document, reply.owner) }, reply)
  if (changes.length === 0) return {}
  const headers = { 'If-Match': etag }
  const run = () => client.call('PATCH /orgs/current/roles/{role_id}', { params, body: patch, headers })
  return { action: 'change', changes, basis: [etag, patch], run }
}

export async function planListener(planner: Planner, document: DeclaredDocument): Promise<Planned> {
  const { client, signal, state, ids } = planner
  const spec = specOf(document)
  const listed = state.listeners.get(document.name)
  if (!listed) {
    const run = async () => {
      const { id } = await client.call('POST /v2/listeners', { body: spec as never })
      ids.set(idKey('Listener', document.name), id)
    }
    return { action: 'create', changes: changesOfNew(spec), basis: spec, run }
  }
  const params = { listener_id: listed.id }
  const { reply, etag } = await client.answer('GET /v2/listeners/{listener_id}', { params, signal })
  const config = (spec.compute_config as { k8s_namespaces?: string[] } | null | undefined) ?? {}
  const compute_config = { k8s_namespaces: config.k8s_namespaces ?? [] }
  const { changes } = compareMembers(compute_config, reply.compute_config)
  if (changes.length === 0) return {}
  const run = () =>
    client.call('PATCH /v2/listeners/{listener_id}', {
      params,
      body: { compute_config },
      headers: { 'If-Match': etag },
    })
  return { action: 'change', changes, basis: [etag, compute_config], run }
}

export async function planTagKey({ client, ids }: Planner, { name }: DeclaredDocument): Promise<Planned> {
  if (ids.has(idKey('TagKey', name))) return {}
  const run = async () => {
    const { id } = await client.call('POST /v2/tag-keys', { body: { key: name } })
    ids.set(idKey('TagKey', name), id)
  }
  return { action: 'create', changes: [{ path: 'key', before: null, after: name }], run }
}

export async function planTagValue(planner: Planner, document: DeclaredDocument): Promise<Planned> {
  const { client, ids } = planner
  const { name, spec } = document
  if (ids.has(idKey('TagValue', name))) return {}
  const { value } = spec as { value: string }
  const key = keyOfTagValue(name, value)
  findId(planner, document, ['name'], 'TagKey', key)
  const run = async () => {
    const params = { tag_key_id: requireId(planner, 'TagKey', key) }
    const { id } = await client.call('POST /v2/tag-keys/{tag_key_id}/values', { params, body: { value } })
    ids.set(idKey('TagValue', name), id)
  }
  return { action: 'create', changes: [{ path: 'value', before: null, after: value }], basis: name, run }
}

/** Finds it by URL and description, or by the URL if only one webhook has it. */
function findWebhook({ state, documents }: Planner, { name, spec }: DeclaredDocument) {
  const keyOf = (one: { url: string; description: string }) => webhookKey(one.url, one.description)
  const exact = state.webhooks.find(
    one => keyOf(one) === webhookKey(name, (spec as { description?: string }).description),
  )
  if (exact) return exact
  const claimed = documents.filter(one => one.kind === 'Webhook' && one.name === name)
  const taken = claimed.map(one => webhookKey(name, (one.spec as { description?: string }).description))
  const left = state.webhooks.filter(one => one.url === name && !taken.includes(keyOf(one)))
  return claimed.length === 1 || left.length === 1 ? left[0] : undefined
}

export async function planWebhook(planner: Planner, document: DeclaredDocument): Promise<Planned> {
  const { client, signal } = planner
  const { deployments, tags } = document
  for (const [i, name] of (deployments ?? []).entries())
    findId(planner, document, ['deployments', i], 'Deployment', name)
  for (const [i, name] of (tags ?? []).entries()) findId(planner, document, ['tags', i], 'TagValue', name)
  /** A resource that this plan creates has no id yet. */
  const idsOf = (kind: 'Deployment' | 'TagValue', names: string[] | undefined) =>
    names?.map(name => planner.ids.get(idKey(kind, name)) ?? `new ${name}`)
  const members = () => ({
    description: '',
    event_types: ['*'],
    deployment_ids: [],
    tag_value_ids: [],
    enabled: true,
    ...specOf(document),
    ...(deployments && { deployment_ids: idsOf('Deployment', deployments) }),
    ...(tags && { tag_value_ids: idsOf('TagValue', tags) }),
  })
  const named = { deployments, tags }
  const listed = findWebhook(planner, document)
  if (!listed) {
    const owner = ownerOf(planner, document, null)
    const run = () => client.call('POST /v2/webhooks', { body: { ...members(), owner } as never })
    const { deployment_ids: _, tag_value_ids: __, ...shown } = members()
    const warnings = ['Its secret is shown only once. Get one with POST /v2/webhooks/{webhook_id}/rotate_secret.']
    return { action: 'create', changes: changesOfNew({ ...shown, ...named, owner }), warnings, basis: members(), run }
  }
  const params = { webhook_id: listed.id }
  const { reply, etag } = await client.answer('GET /v2/webhooks/{webhook_id}', { params, signal })
  const owner = ownerOf(planner, document, reply.owner)
  const { changes, patch } = compareMembers({ ...members(), owner }, reply)
  if (changes.length === 0) return {}
  const run = async () => {
    const body = compareMembers({ ...members(), owner }, reply).patch
    await client.call('PATCH /v2/webhooks/{webhook_id}', { params, body, headers: { 'If-Match': etag } })
  }
  return { action: 'change', changes, basis: [etag, patch], run }
}

/** A deployment that names the host in its `custom_url` claims it. */
export async function planHost({ client, state, documents }: Planner, { name }: DeclaredDocument): Promise<Planned> {
  const isOfDeployment = documents.some(({ kind, spec }) => {
    const url = (spec as { source_config?: { custom_url?: unknown } }).source_config?.custom_url
    return kind === 'Deployment' && typeof url === 'string' && URL.canParse(url) && new URL(url).hostname === name
  })
  if (state.hosts.has(name) || isOfDeployment) return {}
  const run = () => client.call('POST /v2/custom-hosts/{host}/verification', { params: { host: name } })
  return { action: 'create', changes: [{ path: 'host', before: null, after: name }], run }
}
