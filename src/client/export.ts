// A workspace as one file: documents that `slipway apply` takes. Values of secrets, keys and people are not in it.
import { DEFAULT_REQUEST_LOGS } from '../protocol/defaults.ts'
import { integrationName, listenerName, type WorkspaceDocument } from './apply/documents.ts'
import { isSame } from './apply/planner.ts'
import type { Client, Item, Reply } from './client.ts'
import { ApiError } from './errors.ts'
import { toYaml } from './yaml.ts'

export const EXPORT_FORMATS = ['yaml', 'json'] as const
export type ExportFormat = (typeof EXPORT_FORMATS)[number]

export const LEFT_OUT = [
  'values of secrets, and what signs webhooks and hooks',
  'members, API keys and sessions',
  'integrations with git hosts, which hold credentials, and the tokens of people',
  'previews, which pull requests create again',
  'uploaded archives, revisions, logs, metrics and events',
]

type Options = { workspace?: string | undefined; signal?: AbortSignal | undefined }
type Workspace = Reply<'GET /v2/me'>['workspaces'][number]
type Deployment = Item<'GET /v2/deployments'>

/** Deployments are read in parts of this size. The API takes no more ids. */
const PART = 100
const AT_ONCE = 5

const byName = <T extends { name: string }>(items: T[]): T[] =>
  items.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
const withoutNulls = (value: object): object =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null))

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

export async function ifFound<T>(reply: Promise<T>): Promise<T | undefined> {
  try {
    return await reply
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined
    throw error
  }
}

/** Without `workspace`, that of the key. Undefined if a key of the organization names none. */
export async function findWorkspace(client: Client, { workspace, signal }: Options): Promise<Workspace | undefined> {
  const me = await client.call('GET /v2/me', { signal })
  const only = me.workspaces.length === 1 ? me.workspaces[0]?.id : undefined
  const id = workspace ?? me.api_key?.tenant_id ?? only
  return me.workspaces.find(one => one.id === id)
}

const READ_PERMISSIONS = {
  'own roles': 'organization:read',
  listeners: 'listeners:read',
  webhooks: 'webhooks:read',
} as const

/** The parts that the caller has no permission to read. */
export const listUnreadable = ({ permissions }: Workspace): string[] =>
  Object.entries(READ_PERMISSIONS).flatMap(([part, permission]) =>
    permissions.includes(permission) ? [] : [`${part}, which take the permission ${permission}`],
  )

/** Sorted by name, so the order does not depend on creation times. Holds all names, and 100 deployments at a time. */
export async function* exportWorkspace(
  client: Client,
  { id, permissions }: Workspace,
  { signal }: Options = {},
): AsyncGenerator<WorkspaceDocument> {
  const { display_name, require_if_match } = await client.call('GET /workspaces/{workspace_id}', {
    params: { workspace_id: id },
    signal,
  })
  yield { kind: 'Workspace', name: display_name, spec: { display_name, require_if_match } }
  if (permissions.includes('organization:read')) yield* exportRoles(client, signal)
  const listeners = new Map<string, string>()
  if (permissions.includes('listeners:read')) yield* exportListeners(client, listeners, signal)
  const tags = new Map<string, string>()
  yield* exportTags(client, tags, signal)
  yield* exportProviders(client, id, signal)
  const hosts = await client.call('GET /v1/integrations/forge/githost/install', { signal })
  const integrations = new Map(hosts.map(one => [one.id, integrationName(one)]))
  const names = new Map<string, string>()
  const exported = new Set<string>()
  yield* exportDeployments(client, { listeners, integrations, tags, names }, exported, signal)
  yield* exportSchedules(client, names, exported, signal)
  if (permissions.includes('webhooks:read')) yield* exportWebhooks(client, { tags, names }, signal)
  yield* exportHosts(client, signal)
}

type Signal = AbortSignal | undefined

async function* exportRoles(client: Client, signal: Signal): AsyncGenerator<WorkspaceDocument> {
  const roles = await collect(client.list('GET /orgs/current/roles', { signal }))
  const own = roles.filter(({ organization_id }) => organization_id !== null)
  for (const { scope, display_name, description, permissions, owner } of own.toSorted(byDisplayName)) {
    const spec = { scope, display_name, description, permissions: permissions.toSorted() }
    yield { kind: 'Role', name: display_name, spec, owner: owner ?? undefined }
  }
}
const byDisplayName = (a: { display_name: string }, b: { display_name: string }) =>
  a.display_name < b.display_name ? -1 : 1

async function* exportListeners(
  client: Client,
  names: Map<string, string>,
  signal: Signal,
): AsyncGenerator<WorkspaceDocument> {
  const listeners = await collect(client.list('GET /v2/listeners', { signal }))
  const named = listeners.map(one => ({ ...one, name: listenerName(one) }))
  for (const { id, name, compute_type, compute_id, compute_config } of byName(named)) {
    names.set(id, name)
    yield { kind: 'Listener', name, spec: { compute_type, compute_id, compute_config } }
  }
}

async function* exportTags(
  client: Client,
  names: Map<string, string>,
  signal: Signal,
): AsyncGenerator<WorkspaceDocument> {
  const keys = await collect(client.list('GET /v2/tag-keys', { signal }))
  for (const { id, key } of keys.toSorted((a, b) => (a.key < b.key ? -1 : 1))) {
    yield { kind: 'TagKey', name: key, spec: { key } }
    const params = { tag_key_id: id }
    const values = await collect(client.list('GET /v2/tag-keys/{tag_key_id}/values', { params, signal }))
    for (const one of values.toSorted((a, b) => (a.value < b.value ? -1 : 1))) {
      names.set(one.id, `${key}=${one.value}`)
      yield { kind: 'TagValue', name: `${key}=${one.value}`, spec: { value: one.value } }
    }
  }
}

/** Leaves out the metadata of a discovered provider, which an import discovers again, and other workspaces. */
async function* exportProviders(client: Client, workspace: string, signal: Signal): AsyncGenerator<WorkspaceDocument> {
  const listed = await client.call('GET /v2/auth/providers', { signal })
  for (const { provider_id } of listed.toSorted((a, b) => (a.provider_id < b.provider_id ? -1 : 1))) {
    const params = { provider_id }
    const one = await ifFound(client.call('GET /v2/auth/providers/{provider_id}', { params, signal }))
    if (one === undefined || one.made_by_workspace !== workspace) continue
    const { name, client_id, mcp_server_url, registration, token_endpoint_auth_method: method, scopes } = one
    const isGiven = registration === 'given'
    const { auth_url, token_url, revocation_url, uses_pkce, provider_type } = one
    yield {
      kind: 'Provider',
      name: provider_id,
      spec: mcp_server_url
        ? { provider_id, name, mcp_server_url, registration, ...(isGiven && { client_id }), scopes: scopes.toSorted() }
        : withoutNulls({
            provider_id,
            name,
            client_id,
            auth_url,
            token_url,
            revocation_url,
            scopes: scopes.toSorted(),
            uses_pkce,
            provider_type,
            token_endpoint_auth_method: method,
          }),
      secrets: isGiven && method !== 'none' ? ['client_secret'] : undefined,
      owner: one.owner ?? undefined,
    }
  }
}

type Names = Record<'listeners' | 'integrations' | 'tags' | 'names', Map<string, string>>

async function* exportDeployments(
  client: Client,
  { listeners, integrations, tags, names }: Names,
  exported: Set<string>,
  signal: Signal,
): AsyncGenerator<WorkspaceDocument> {
  const all: { id: string; name: string }[] = []
  for await (const { id, name, preview, status } of client.list('GET /v2/deployments', {
    query: { limit: PART },
    signal,
  })) {
    names.set(id, name)
    if (preview === null && status !== 'AWAITING_DELETE') all.push({ id, name })
  }
  const ordered = byName(all)
  for (const { id } of all) exported.add(id)
  for (let at = 0; at < ordered.length; at += PART) {
    const deployment_ids = ordered.slice(at, at + PART).map(({ id }) => id)
    const query = { limit: PART, deployment_ids }
    const { resources } = await client.call('GET /v2/deployments', { query, signal })
    const part = byName(resources)
    for (let from = 0; from < part.length; from += AT_ONCE) {
      const documents = part
        .slice(from, from + AT_ONCE)
        .map(one => describeDeployment(client, one, { listeners, integrations, tags }, signal))
      for (const described of await Promise.all(documents)) yield* described
    }
  }
}

async function describeDeployment(
  client: Client,
  deployment: Deployment,
  { listeners, integrations, tags }: Omit<Names, 'names'>,
  signal: Signal,
): Promise<WorkspaceDocument[]> {
  const { name, source, source_config, source_revision_config, secrets, secret_references, protection } = deployment
  const params = { deployment_id: deployment.id }
  const [tagged, policy] = await Promise.all([
    tags.size > 0
      ? ifFound(client.call('GET /v2/deployments/{deployment_id}/tags', { params, signal }))
      : { resources: [] },
    source === 'githost'
      ? ifFound(client.call('GET /v2/deployments/{deployment_id}/preview-policy', { params, signal }))
      : undefined,
  ])
  // It was deleted while the list was read.
  if (tagged === undefined) return []
  const { deployment_type, listener_config, listener_id, integration_id, ...config } = source_config
  const [listener, integration] = [listeners.get(listener_id ?? ''), integrations.get(integration_id ?? '')]
  // Only the control plane sets the commit, and an archive stays where it was uploaded.
  const { repo_commit_sha: _, source_tarball_path: __, ...revisionConfig } = source_revision_config
  const namespace = listener_config && withoutNulls(listener_config)
  const document: WorkspaceDocument = {
    kind: 'Deployment',
    name,
    spec: {
      name,
      source,
      source_config: withoutNulls({
        ...config,
        // An id whose name the caller may not read stays.
        ...(listener === undefined && { listener_id }),
        ...(integration === undefined && { integration_id }),
        ...(namespace && Object.keys(namespace).length > 0 && { listener_config: namespace }),
        // An image of this source always runs as `prod`, and the body must not say so.
        ...(source !== 'external_container' && { deployment_type }),
      }),
      source_revision_config: withoutNulls(revisionConfig),
      ...(secret_references && secret_references.length > 0 && { secret_references }),
      ...(isProtected(protection) && { protection }),
    },
    secrets: listNames(secrets),
    listener,
    integration,
    owner: deployment.owner ?? undefined,
    tags: orNone(tagged.resources.map(({ key, value }) => `${key}=${value}`).toSorted()),
    ...describeTraffic(deployment),
    ...(!isSame(deployment.request_logs, DEFAULT_REQUEST_LOGS) && { request_logs: deployment.request_logs }),
  }
  return policy ? [document, describePolicy(name, policy)] : [document]
}

function describeTraffic({ traffic_settings, rollout }: Deployment): Pick<WorkspaceDocument, 'traffic' | 'rollout'> {
  const { starts_at, sticky } = traffic_settings
  if (!rollout) return starts_at < 100 || sticky ? { traffic: withoutNulls({ starts_at, sticky }) } : {}
  const { webhook, scores, ...judged } = rollout.gates
  const gates = withoutNulls({ ...judged, ...(webhook && { webhook: { url: webhook.url } }) })
  return {
    ...(sticky && { traffic: { sticky } }),
    rollout: { steps: rollout.steps, gates: { ...gates, ...(scores.length > 0 && { scores }) } },
  }
}

const isProtected = ({ mode, open_paths }: Deployment['protection']) => mode !== 'none' || open_paths.length > 0

const orNone = (names: string[]): string[] | undefined => (names.length > 0 ? names : undefined)
const listNames = (secrets: { name: string }[]): string[] | undefined => orNone(byName(secrets).map(one => one.name))

function describePolicy(
  deployment: string,
  policy: Reply<'GET /v2/deployments/{deployment_id}/preview-policy'>,
): WorkspaceDocument {
  const { branches, kinds, ttl, max, forks, secrets, inherited_secrets, resource_spec, protection, database, hooks } =
    policy
  const { secret: _, ...calls } = hooks ?? { secret: '' }
  return {
    kind: 'PreviewPolicy',
    name: deployment,
    spec: {
      branches,
      ...(kinds.join() !== 'pull_requests' && { kinds }),
      ...{ ttl, max, forks, protection },
      ...(inherited_secrets.length > 0 && { inherited_secrets }),
      ...(resource_spec && { resource_spec: withoutNulls(resource_spec) }),
      ...(database && { database }),
    },
    secrets: listNames(secrets),
    ...(hooks && { hooks: withoutNulls(calls) as WorkspaceDocument['hooks'] }),
  }
}

/** A deployment brings those that its source declares. */
async function* exportSchedules(
  client: Client,
  names: Map<string, string>,
  exported: Set<string>,
  signal: Signal,
): AsyncGenerator<WorkspaceDocument> {
  // An earlier installation has no such list.
  const schedules = (await ifFound(collect(client.list('GET /v2/schedules', { query: { limit: PART }, signal })))) ?? []
  const own = schedules.filter(one => !one.declared && exported.has(one.deployment_id))
  const named = own.map(one => ({ one, name: `${names.get(one.deployment_id)}/${one.name}` }))
  for (const { one, name } of byName(named)) {
    const { cron, command, action, time_zone, timeout_seconds, overlap, jitter_seconds, retries } = one
    const { deadline_seconds, process: ofProcess, enabled, owner } = one
    const timing = { time_zone, timeout_seconds, overlap, jitter_seconds, retries, deadline_seconds }
    const spec = {
      name: one.name,
      cron,
      ...(action === null ? { command } : { action }),
      ...timing,
      ...(ofProcess !== null && { process: ofProcess }),
      enabled,
    }
    yield { kind: 'Schedule', name, spec, owner: owner ?? undefined }
  }
}

async function* exportHosts(client: Client, signal: Signal): AsyncGenerator<WorkspaceDocument> {
  const hosts = await collect(client.list('GET /v2/custom-hosts', { signal }))
  for (const { host: name } of hosts.toSorted((a, b) => (a.host < b.host ? -1 : 1)))
    yield { kind: 'CustomHost', name, spec: {} }
}

async function* exportWebhooks(
  client: Client,
  { names, tags }: Pick<Names, 'names' | 'tags'>,
  signal: Signal,
): AsyncGenerator<WorkspaceDocument> {
  const webhooks = await collect(client.list('GET /v2/webhooks', { signal }))
  const nameOf = (ids: string[], from: Map<string, string>) => orNone(ids.flatMap(id => from.get(id) ?? []).toSorted())
  const order = webhooks.map(one => ({ ...one, name: `${one.url} ${one.description} ${one.id}` }))
  for (const { url, description, event_types, enabled, deployment_ids, tag_value_ids, owner } of byName(order))
    yield {
      kind: 'Webhook',
      name: url,
      spec: { url, description, event_types: event_types.toSorted(), enabled },
      // A deployment or a tag that is gone has no name.
      deployments: nameOf(deployment_ids, names),
      tags: nameOf(tag_value_ids, tags),
      owner: owner ?? undefined,
    }
}

/** The text of the file, part by part. */
export async function* writeExport(
  client: Client,
  workspace: Workspace,
  format: ExportFormat,
  options: Options = {},
): AsyncGenerator<string> {
  const documents = exportWorkspace(client, workspace, options)
  if (format === 'yaml') {
    yield [
      `# yaml-language-server: $schema=${client.url}/schemas/slipway.json`,
      '# A workspace of Slipway, for `slipway apply -f`. Not in this file:',
      ...[...LEFT_OUT, ...listUnreadable(workspace)].map(what => `# - ${what}`),
      '',
    ].join('\n')
    for await (const document of documents) yield `---\n${toYaml(document)}`
    return
  }
  let separator = '[\n'
  for await (const document of documents) {
    yield separator + JSON.stringify(document, null, 2)
    separator = ',\n'
  }
  yield '\n]\n'
}
