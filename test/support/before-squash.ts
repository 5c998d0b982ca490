// A database from before the migrations were squashed into a baseline: its schema, its roles and some rows.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { sha256Hex } from '../../src/kernel/crypto/digest.ts'
import { organizationPermissions, permissionNames } from '../../src/kernel/permissions.ts'
import { ADMIN, ORGANIZATION_ADMIN } from '../../src/people/access/built-in-roles.ts'
import { query } from './postgres.ts'

const DUMP = join(import.meta.dirname, '../host/fixtures/before-squash.sql.gz')

/** Loads it into an empty database, by a superuser. `key` is that of its first workspace. */
export async function loadBeforeSquash(url: string, key: string): Promise<void> {
  const dump = gunzipSync(readFileSync(DUMP)).toString()
  await query(url, dump.replace('"key_hash":"KEY_HASH"', `"key_hash":"${sha256Hex(key)}"`))
}

/** The custom role of the dump, and what it had there. */
const CUSTOM_ROLE = { name: 'Operator', permissions: ['deployments:read', 'listeners:read'] }

type OlderRole = { scope: 'workspace' | 'organization'; before: string[]; after: string[] }
/** Custom roles by permissions that were divided or moved to the organization, and what they have afterwards. */
const OLDER_ROLES: Record<string, OlderRole> = {
  'Old watcher': {
    scope: 'workspace',
    before: ['deployments:read', 'fleet-admin:read'],
    after: ['deployments:read'],
  },
  'Old judge': {
    scope: 'workspace',
    before: ['feedback:create', 'feedback:delete'],
    after: ['feedback:create', 'feedback:delete', 'feedback-configs:create', 'feedback-configs:delete'],
  },
  'Old operator': {
    scope: 'organization',
    before: ['organization:read', 'fleet-admin:read', 'api-keys:create'],
    after: ['organization:read', 'fleet-admin:read', 'api-keys:create', 'workspaces:manage-keys'],
  },
}

export async function addOlderRoles(url: string): Promise<void> {
  for (const [name, { scope, before }] of Object.entries(OLDER_ROLES))
    await query(
      url,
      `insert into roles (organization_id, scope, display_name, permissions)
      select id, '${scope}', '${name}', '{${before}}' from organizations limit 1`,
    )
}

/** The roles are as a database or the API shows them. */
export function findOlderRoleFaults(roles: { display_name: string; permissions: string[] }[]): string[] {
  return Object.entries(OLDER_ROLES).flatMap(([name, { after }]) => {
    const { permissions } = roles.find(role => role.display_name === name) ?? { permissions: [] }
    return `${permissions}` === `${after}` ? [] : [`the role ${name} has ${permissions}, not ${after}`]
  })
}

/** After the later migrations, Admins have every permission there is, and a custom role has lost none. */
export async function findRoleFaults(url: string): Promise<string[]> {
  const rows = await query(url, 'select id, display_name as name, permissions from roles')
  const roles = rows as { id: string; name: string; permissions: string[] }[]
  const workspacePermissions = permissionNames.filter(name => !organizationPermissions.includes(name))
  const expected: [where: (role: (typeof roles)[number]) => boolean, permissions: readonly string[]][] = [
    [({ id }) => id === ADMIN, workspacePermissions],
    [({ id }) => id === ORGANIZATION_ADMIN, permissionNames],
    [({ name }) => name === CUSTOM_ROLE.name, CUSTOM_ROLE.permissions],
  ]
  return expected.flatMap(([isRole, permissions]) => {
    const role = roles.find(isRole)
    if (!role) return ['a role is missing']
    return permissions
      .filter(permission => !role.permissions.includes(permission))
      .map(permission => `the role ${role.name} lacks ${permission}`)
  })
}
