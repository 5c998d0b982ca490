// Maps each permission to its access policies: the types of resources that its requests show, and the rules about the
// permission itself. `limit_access()` in the database applies the map. docs/design/access-policies.md explains it.
import { type Permission, policyPermissions, type ResourceType, resourceTypes } from './permissions.ts'

/** A request hides the resources of the type for which a rule denies `reading`. Null: it shows none of them. */
type ShownType = { type: ResourceType; reading: Permission | null }
/** `everything`: the answer ignores tags, so only a caller who may read every resource may send the request. */
type Scope = 'nothing' | 'everything' | 'events' | ShownType[]

const deployments: ShownType = { type: 'deployment', reading: 'deployments:read' }
const projects: ShownType = { type: 'project', reading: 'projects:read' }
const runs: ShownType = { type: 'project', reading: 'runs:read' }
const datasets: ShownType = { type: 'dataset', reading: 'datasets:read' }
const queues: ShownType = { type: 'queue', reading: 'annotation-queues:read' }

const scopes: Record<Permission, Scope> = {
  'organization:read': 'nothing',
  'organization:update': 'nothing',
  'organization:manage-members': 'nothing',
  'organization:manage-roles': 'nothing',
  'organization:manage-keys': 'nothing',
  'organization:manage-providers': 'nothing',
  'organization:manage': 'nothing',
  'audit-logs:read': 'everything',
  'fleet-admin:read': 'everything',
  'workspaces:create': 'nothing',
  'workspaces:delete': 'nothing',
  // Tags are listed with the resources that have them.
  'workspaces:read': [deployments, projects, datasets, queues],
  'workspaces:update': 'nothing',
  'workspaces:read-members': 'nothing',
  'workspaces:manage-members': 'nothing',
  'api-keys:read': 'nothing',
  'api-keys:create': 'nothing',
  'api-keys:delete': 'nothing',
  'workspaces:manage-keys': 'nothing',
  'deployments:create': 'nothing',
  'deployments:read': [deployments],
  'deployments:update': [deployments],
  'deployments:change-commands': 'nothing',
  'deployments:delete': [deployments],
  'deployments:exec': [deployments],
  'deployments:copy-database': [deployments],
  'listeners:read': 'nothing',
  'listeners:create': 'nothing',
  'listeners:update': 'nothing',
  'listeners:delete': 'nothing',
  'listeners:sync': 'nothing',
  'secrets:read': [deployments],
  'events:read': 'events',
  'webhooks:read': 'events',
  // A webhook sends the events of every resource to its URL.
  'webhooks:manage': 'everything',
  // Notices have no tags, so a channel tells of every resource.
  'channels:read': 'everything',
  'channels:manage': 'everything',
  // Incidents are about deployments, and about the traces of projects.
  'alerts:read': [deployments, runs],
  'alerts:manage': [deployments, runs],
  'drains:read': 'nothing',
  // A drain sends the lines of every resource to its URL.
  'drains:manage': 'everything',
  'integrations:manage': 'nothing',
  'tokens:use': 'nothing',
  'projects:read': [projects],
  'projects:create': [projects],
  'projects:update': [projects],
  'projects:delete': [projects],
  'projects:increase-trace-tier': [projects],
  'projects:decrease-trace-tier': [projects],
  'runs:create': [{ type: 'project', reading: null }],
  'runs:read': [runs],
  'runs:share': [runs],
  'runs:delete': [runs],
  'feedback:create': [runs],
  'feedback:read': [runs],
  'feedback:update': [runs],
  'feedback:delete': [runs],
  'feedback-configs:create': 'nothing',
  'feedback-configs:update': 'nothing',
  'feedback-configs:delete': 'nothing',
  'datasets:create': [datasets, runs],
  'datasets:read': [datasets, runs],
  'datasets:update': [datasets, runs],
  'datasets:delete': [datasets],
  'datasets:share': [datasets],
  'datasets:download': [datasets, runs],
  'datasets:clone': [datasets],
  'annotation-queues:create': [queues, runs],
  'annotation-queues:read': [queues, runs],
  'annotation-queues:update': [queues, runs],
  'annotation-queues:delete': [queues],
  'rules:create': [runs, datasets, queues],
  'rules:read': [runs, datasets, queues],
  'rules:update': [runs, datasets, queues],
  'rules:delete': [runs, datasets, queues],
  'models:read': [deployments],
  'models:invoke': 'nothing',
  'workspaces:manage-model-configs': [deployments],
}

const readingEach = [deployments, projects, datasets, queues]
const readingAll = [...readingEach, runs].map(({ reading }) => reading!)

const shownBy = (permission: Permission): ShownType[] => {
  const scope = scopes[permission]
  if (scope === 'events') return readingEach
  return scope === 'nothing' || scope === 'everything' ? [] : scope
}

/** The permissions whose rules can limit a request that needs this one. */
export function limitingPermissions(permission: Permission): Permission[] {
  if (scopes[permission] === 'everything') return readingAll
  const readings = shownBy(permission).flatMap(({ reading }) => reading ?? [])
  return boundType(permission) ? [permission, ...readings] : readings
}

/** The permission whose rules hide resources of the type from a request that needs `permission`. */
export const readingOf = (permission: Permission, type: ResourceType): Permission | null =>
  shownBy(permission).find(shown => shown.type === type)?.reading ?? null

const boundType = (permission: Permission): ResourceType | null =>
  resourceTypes.find(type => policyPermissions[type].includes(permission)) ?? null

export const TAGGED_TABLES: Record<ResourceType, string> = {
  project: 'projects',
  dataset: 'datasets',
  deployment: 'deployments',
  queue: 'annotation_queues',
}

/** A table with tags, or one whose rows belong to a row with tags. */
type TaggedTable = { type: ResourceType; table: string; parent?: string; column?: string }

/** The resource that a path names, by its parameter. */
const TABLES_OF_PARAMETERS: Record<string, TaggedTable> = {
  deployment_id: { type: 'deployment', table: 'deployments' },
  session_id: { type: 'project', table: 'projects' },
  run_id: { type: 'project', table: 'runs', parent: 'projects', column: 'session_id' },
  dataset_id: { type: 'dataset', table: 'datasets' },
  example_id: { type: 'dataset', table: 'examples', parent: 'datasets', column: 'dataset_id' },
  queue_id: { type: 'queue', table: 'annotation_queues' },
}

export type PathParameters = Record<string, string>

/** The argument `p_access` of `enter_by_key()`, or null where policies do not matter. */
export function describeAccess(
  permission: Permission | null,
  path: PathParameters = {},
  byPolicy = false,
): string | null {
  if (permission === null || scopes[permission] === 'nothing') return null
  const bound = boundType(permission)
  // Ingestion judges the projects of all runs alike, and its refusal names them.
  const named =
    permission === 'runs:create'
      ? undefined
      : Object.entries(path)
          .map(([name, id]) => ({ ...TABLES_OF_PARAMETERS[name], id }))
          .find(({ type }) => bound !== null && type === bound)
  const unnamed = `${permission} ${byPolicy}`
  const known = named ? undefined : describedAccess.get(unnamed)
  if (known !== undefined) return known
  const described = JSON.stringify({
    types: shownBy(permission),
    bound,
    everything: scopes[permission] === 'everything' ? readingAll : [],
    shows_events: scopes[permission] === 'events',
    can_open: byPolicy || named !== undefined,
    resource: named ?? null,
  })
  if (!named) describedAccess.set(unnamed, described)
  return described
}
/** The descriptions of requests that name no resource, by permission. */
const describedAccess = new Map<string, string>()
