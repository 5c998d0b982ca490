// A workspace as one file: documents whose `spec` is the body of the request that creates the same thing again. Values
// of secrets, keys and people are not in it.
import type { Client, Item, Reply } from './client.ts'
import { ApiError } from './errors.ts'
import { toYaml } from './yaml.ts'

export type ExportedDocument = {
  kind: Kind
  name: string
  spec: object
  /** Names of the secrets whose values the body lacks. */
  secrets?: string[] | undefined
  /** Names of what the body has ids of. */
  listener?: string | undefined
  deployments?: string[] | undefined
  tags?: string[] | undefined
  /** Calls of a preview policy, which need a secret before they can be in a body. */
  hooks?: object | undefined
}
type Kind =
  | ('Workspace' | 'Role' | 'Listener' | 'TagKey' | 'TagValue')
  | ('Deployment' | 'PreviewPolicy' | 'CustomHost' | 'Webhook')

export const EXPORT_FORMATS = ['yaml', 'json'] as const
export type ExportFormat = (typeof EXPORT_FORMATS)[number]

export const LEFT_OUT = [
  'values of secrets, and what signs webhooks and hooks',
  'members, API keys and sessions',
  'integrations with git hosts and OAuth providers, which hold credentials',
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

async function ifFound<T>(reply: Promise<T>): Promise<T | undefined> {
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

/** What the caller may not read, by the permission that is missing. */
export const listUnreadable = ({ permissions }: Workspace): string[] =>
  (
    [
      ['own roles', 'organization:read'],
      ['listeners', 'listeners:read'],
      ['webhooks', 'webhooks:read'],
    ] as const
  ).flatMap(([what, permission]) =>
    permissions.includes(permission) ? [] : [`${what}, which take the permission ${permission}`],
  )

/** In an order that does not depend on time. Holds the names of all deployments, and 100 deployments. */
export async function* exportWorkspace(
  client: Client,
  { id, permissions }: Workspace,
  { signal }: Options = {},
): AsyncGenerator<ExportedDocument> {
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
  const names = new Map<string, string>()
  yield* exportDeployments(client, { listeners, tags, names }, signal)
  yield* exportHosts(client, signal)
  if (permissions.includes('webhooks:read')) yield* exportWebhooks(client, { tags, names }, signal)
}

type Signal = AbortSignal | undefined

async function* exportRoles(client: Client, signal: Signal): AsyncGenerator<ExportedDocument> {
  const roles = await collect(client.list('GET /orgs/current/roles', { signal }))
  const own = roles.filter(({ organization_id }) => organization_id !== null)
  for (const { scope, display_name, description, permissions } of own.toSorted(byDisplayName))
    yield { kind: 'Role', name: display_name, spec: { scope, display_name, description, permissions } }
}
const byDisplayName = (a: { display_name: string }, b: { display_name: string }) =>
  a.display_name < b.display_name ? -1 : 1

async function* exportListeners(
  client: Client,
  names: Map<string, string>,
  signal: Signal,
): AsyncGenerator<ExportedDocument> {
  const listeners = await collect(client.list('GET /v2/listeners', { signal }))
  const named = listeners.map(one => ({ ...one, name: `${one.compute_type}/${one.compute_id}` }))
  for (const { id, name, compute_type, compute_id, compute_config } of byName(named)) {
    names.set(id, name)
    yield { kind: 'Listener', name, spec: { compute_type, compute_id, compute_config } }
  }
}

async function* exportTags(
  client: Client,
  names: Map<string, string>,
  signal: Signal,
): AsyncGenerator<ExportedDocument> {
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

type Names = { listeners: Map<string, string>; tags: Map<string, string>; names: Map<string, string> }

async function* exportDeployments(
  client: Client,
  { listeners, tags, names }: Names,
  signal: Signal,
): AsyncGenerator<ExportedDocument> {
  const all: { id: string; name: string }[] = []
  for await (const { id, name, preview, status } of client.list('GET /v2/deployments', {
    query: { limit: PART },
    signal,
  })) {
    names.set(id, name)
    if (preview === null && status !== 'AWAITING_DELETE') all.push({ id, name })
  }
  const ordered = byName(all)
  for (let at = 0; at < ordered.length; at += PART) {
    const deployment_ids = ordered.slice(at, at + PART).map(({ id }) => id)
    const query = { limit: PART, deployment_ids }
    const { resources } = await client.call('GET /v2/deployments', { query, signal })
    const part = byName(resources)
    for (let from = 0; from < part.length; from += AT_ONCE) {
      const documents = part
        .slice(from, from + AT_ONCE)
        .map(one => describeDeployment(client, one, { listeners, tags }, signal))
      for (const described of await Promise.all(documents)) yield* described
    }
  }
}

async function describeDeployment(
  client: Client,
  deployment: Deployment,
  { listeners, tags }: Pick<Names, 'listeners' | 'tags'>,
  signal: Signal,
): Promise<ExportedDocument[]> {
  const { name, source, source_config, source_revision_config, secrets, secret_references } = deployment
  const params = { deployment_id: deployment.id }
  const [tagged, policy] = await Promise.all([
    tags.size > 0 ? client.call('GET /v2/deployments/{deployment_id}/tags', { params, signal }) : { resources: [] },
    source === 'githost'
      ? ifFound(client.call('GET /v2/deployments/{deployment_id}/preview-policy', { params, signal }))
      : undefined,
  ])
  const { deployment_type, listener_config, ...config } = source_config
  // Only the control plane sets the commit, and an archive stays where it was uploaded.
  const { repo_commit_sha: _, source_tarball_path: __, ...revisionConfig } = source_revision_config
  const namespace = listener_config && withoutNulls(listener_config)
  const document: ExportedDocument = {
    kind: 'Deployment',
    name,
    spec: {
      name,
      source,
      source_config: withoutNulls({
        ...config,
        ...(namespace && Object.keys(namespace).length > 0 && { listener_config: namespace }),
        // An image of this source always runs as `prod`, and the body must not say so.
        ...(source !== 'external_container' && { deployment_type }),
      }),
      source_revision_config: withoutNulls(revisionConfig),
      secrets: [],
      ...(secret_references && secret_references.length > 0 && { secret_references }),
    },
    secrets: listNames(secrets),
    listener: (source_config.listener_id && listeners.get(source_config.listener_id)) || undefined,
    tags: orNone(tagged.resources.map(({ key, value }) => `${key}=${value}`).toSorted()),
  }
  return policy ? [document, describePolicy(name, policy)] : [document]
}

const orNone = (names: string[]): string[] | undefined => (names.length > 0 ? names : undefined)
const listNames = (secrets: { name: string }[]): string[] | undefined => orNone(byName(secrets).map(one => one.name))

function describePolicy(
  deployment: string,
  policy: Reply<'GET /v2/deployments/{deployment_id}/preview-policy'>,
): ExportedDocument {
  const { branches, ttl, max, forks, secrets, resource_spec, hooks } = policy
  const { secret: _, ...calls } = hooks ?? { secret: '' }
  return {
    kind: 'PreviewPolicy',
    name: deployment,
    spec: { branches, ttl, max, forks, ...(resource_spec && { resource_spec: withoutNulls(resource_spec) }) },
    secrets: listNames(secrets),
    ...(hooks && { hooks: withoutNulls(calls) }),
  }
}

async function* exportHosts(client: Client, signal: Signal): AsyncGenerator<ExportedDocument> {
  const hosts = await collect(client.list('GET /v2/custom-hosts', { signal }))
  for (const { host: name } of hosts.toSorted((a, b) => (a.host < b.host ? -1 : 1)))
    yield { kind: 'CustomHost', name, spec: {} }
}

async function* exportWebhooks(
  client: Client,
  { names, tags }: Pick<Names, 'names' | 'tags'>,
  signal: Signal,
): AsyncGenerator<ExportedDocument> {
  const webhooks = await collect(client.list('GET /v2/webhooks', { signal }))
  const nameOf = (ids: string[], from: Map<string, string>) => orNone(ids.flatMap(id => from.get(id) ?? []).toSorted())
  for (const one of byName(webhooks.map(webhook => ({ ...webhook, name: webhook.url })))) {
    const { url, description, event_types, deployment_ids, tag_value_ids, enabled } = one
    yield {
      kind: 'Webhook',
      name: url,
      spec: { url, description, event_types, deployment_ids, tag_value_ids, enabled },
      deployments: nameOf(deployment_ids, names),
      tags: nameOf(tag_value_ids, tags),
    }
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
      '# A workspace of Slipway. Not in this file:',
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
