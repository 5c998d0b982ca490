// The resources that each permission shows, and the permissions whose rules can hide them.
import { describe, expect, it } from 'vitest'
import {
  describeAccess,
  limitingPermissions,
  type PathParameters,
  readingOf,
  TAGGED_TABLES,
} from '../../src/kernel/access-scopes.ts'
import {
  organizationPermissions,
  type Permission,
  permissionNames,
  permissions,
  policyPermissions,
  resourceTypes,
} from '../../src/kernel/permissions.ts'

const SHOWN_TYPES = {
  deployments: { type: 'deployment', reading: 'deployments:read' },
  projects: { type: 'project', reading: 'projects:read' },
  runs: { type: 'project', reading: 'runs:read' },
  'new runs': { type: 'project', reading: null },
  datasets: { type: 'dataset', reading: 'datasets:read' },
  queues: { type: 'queue', reading: 'annotation-queues:read' },
} as const

/** Permissions that are absent show no resource that could have tags. */
const SHOWN: Partial<Record<Permission, (keyof typeof SHOWN_TYPES)[]>> = {
  'workspaces:read': ['deployments', 'projects', 'datasets', 'queues'],
  'events:read': ['deployments', 'projects', 'datasets', 'queues'],
  'webhooks:read': ['deployments', 'projects', 'datasets', 'queues'],
  'alerts:read': ['deployments', 'runs'],
  'alerts:manage': ['deployments', 'runs'],
  'audit-logs:read': [],
  'fleet-admin:read': [],
  'webhooks:manage': [],
  'drains:manage': [],
  'channels:read': [],
  'channels:manage': [],
  'deployments:read': ['deployments'],
  'deployments:update': ['deployments'],
  'deployments:delete': ['deployments'],
  'deployments:exec': ['deployments'],
  'deployments:copy-database': ['deployments'],
  'secrets:read': ['deployments'],
  'models:read': ['deployments'],
  'workspaces:manage-model-configs': ['deployments'],
  'projects:read': ['projects'],
  'projects:create': ['projects'],
  'projects:update': ['projects'],
  'projects:delete': ['projects'],
  'projects:increase-trace-tier': ['projects'],
  'projects:decrease-trace-tier': ['projects'],
  'runs:create': ['new runs'],
  'runs:read': ['runs'],
  'runs:share': ['runs'],
  'runs:delete': ['runs'],
  'feedback:create': ['runs'],
  'feedback:read': ['runs'],
  'feedback:update': ['runs'],
  'feedback:delete': ['runs'],
  'datasets:create': ['datasets', 'runs'],
  'datasets:read': ['datasets', 'runs'],
  'datasets:update': ['datasets', 'runs'],
  'datasets:delete': ['datasets'],
  'datasets:share': ['datasets'],
  'datasets:download': ['datasets', 'runs'],
  'datasets:clone': ['datasets'],
  'annotation-queues:create': ['queues', 'runs'],
  'annotation-queues:read': ['queues', 'runs'],
  'annotation-queues:update': ['queues', 'runs'],
  'annotation-queues:delete': ['queues'],
  'rules:create': ['runs', 'datasets', 'queues'],
  'rules:read': ['runs', 'datasets', 'queues'],
  'rules:update': ['runs', 'datasets', 'queues'],
  'rules:delete': ['runs', 'datasets', 'queues'],
}
/** These send what no policy could filter, so all rules about reading count. */
const SHOW_EVERYTHING: Permission[] = [
  'audit-logs:read',
  'fleet-admin:read',
  'webhooks:manage',
  'channels:read',
  'channels:manage',
  'drains:manage',
]
const READINGS: Permission[] = [
  'deployments:read',
  'projects:read',
  'datasets:read',
  'annotation-queues:read',
  'runs:read',
] as const
/** The type of the resources whose tags decide about a permission itself. */
const typeOf = (permission: Permission) => {
  if (/^(projects:(?!create)|runs:)/.test(permission)) return 'project'
  if (/^datasets:(?!create)/.test(permission)) return 'dataset'
  if (/^deployments:(read|update|delete|exec|copy-database)$/.test(permission)) return 'deployment'
  return permission.startsWith('annotation-queues:') ? 'queue' : null
}
const describeFor = (permission: Permission, path: PathParameters = {}, byPolicy?: boolean) =>
  JSON.parse(describeAccess(permission, path, byPolicy) ?? 'null')

describe('a request that needs', () => {
  it.each(permissionNames)('%s shows the types of resources that the table names', permission => {
    const shown = SHOWN[permission]?.map(name => SHOWN_TYPES[name])
    const showsEverything = SHOW_EVERYTHING.includes(permission)
    expect(describeFor(permission)).toEqual(
      shown === undefined
        ? null
        : {
            types: shown,
            bound: typeOf(permission),
            everything: showsEverything ? READINGS : [],
            shows_events: /^(events|webhooks):read$/.test(permission),
            can_open: false,
            resource: null,
          },
    )
  })

  it.each(permissionNames)('%s is limited by rules about it and about reading what it shows', permission => {
    const readings = (SHOWN[permission] ?? []).flatMap(name => SHOWN_TYPES[name].reading ?? [])
    const own = typeOf(permission) === null ? [] : [permission]
    expect(limitingPermissions(permission)).toEqual(
      SHOW_EVERYTHING.includes(permission) ? READINGS : [...own, ...readings],
    )
  })

  it('no permission is not limited', () => expect(describeAccess(null)).toBeNull())
})

describe('the resource that a path names', () => {
  it.each<[Permission, PathParameters, object | null]>([
    ['deployments:update', { deployment_id: '1' }, { type: 'deployment', table: 'deployments', id: '1' }],
    ['projects:read', { session_id: '1' }, { type: 'project', table: 'projects', id: '1' }],
    [
      'runs:read',
      { run_id: '1' },
      { type: 'project', table: 'runs', parent: 'projects', column: 'session_id', id: '1' },
    ],
    ['datasets:read', { dataset_id: '1' }, { type: 'dataset', table: 'datasets', id: '1' }],
    [
      'datasets:update',
      { example_id: '1' },
      { type: 'dataset', table: 'examples', parent: 'datasets', column: 'dataset_id', id: '1' },
    ],
    ['annotation-queues:read', { queue_id: '1' }, { type: 'queue', table: 'annotation_queues', id: '1' }],
    // The first one of the type that the permission is about.
    [
      'annotation-queues:update',
      { run_id: '1', queue_id: '2' },
      { type: 'queue', table: 'annotation_queues', id: '2' },
    ],
    ['deployments:read', { revision_id: '1' }, null],
    ['deployments:read', { dataset_id: '1' }, null],
    ['secrets:read', { deployment_id: '1' }, null],
    ['workspaces:read', { tag_key_id: '1' }, null],
    // Ingestion judges each project itself.
    ['runs:create', { session_id: '1' }, null],
  ])('for %s with %j', (permission, path, resource) => {
    expect(describeFor(permission, path)).toMatchObject({ resource, can_open: resource !== null })
    expect(describeFor(permission, path, true)).toMatchObject({ resource, can_open: true })
  })
})

it('reading a resource of a type has its own permission, also where a request shows it with others', () => {
  expect(readingOf('datasets:read', 'project')).toBe('runs:read')
  expect(readingOf('datasets:read', 'dataset')).toBe('datasets:read')
  expect(readingOf('events:read', 'queue')).toBe('annotation-queues:read')
  expect(readingOf('deployments:read', 'project')).toBeNull()
  expect(readingOf('runs:create', 'project')).toBeNull()
  expect(readingOf('audit-logs:read', 'deployment')).toBeNull()
  expect(readingOf('api-keys:read', 'deployment')).toBeNull()
})

it('resources with tags are in the tables of their types', () => {
  expect(TAGGED_TABLES).toEqual({
    project: 'projects',
    dataset: 'datasets',
    deployment: 'deployments',
    queue: 'annotation_queues',
  })
  expect(resourceTypes).toEqual(['project', 'dataset', 'deployment', 'queue'])
})

it('a policy can be about the permissions that concern one resource', () => {
  for (const type of resourceTypes)
    expect(policyPermissions[type], type).toEqual(permissionNames.filter(name => typeOf(name) === type))
})

it('a permission acts in a workspace, unless it is about the organization or a listener without one', () => {
  const onlyOfOrganizations = permissionNames.filter(name =>
    /^organization:(?!read)|^audit-logs:|^fleet-admin:|^workspaces:(create|delete)$/.test(name),
  )
  expect(organizationPermissions).toEqual(onlyOfOrganizations)
  expect(organizationPermissions).toHaveLength(10)
  for (const name of permissionNames) {
    const isOfOrganization =
      /^(organization:|audit-logs:|fleet-admin:|workspaces:(create|delete|read|update)$|listeners:sync)/.test(name)
    expect([name, permissions[name]]).toEqual([name, isOfOrganization ? 'organization' : 'workspace'])
  }
})
