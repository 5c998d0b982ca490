// What crosses the wire about organisations, workspaces, members, roles and keys.
import * as z from 'zod'
import { organizationPermissions, permissionNames } from '../kernel/permissions.ts'
import { arrayOf, boundedText, Instant, listOf, Page, Uuid } from '../protocol/wire.ts'

const VISIBLE_CHARACTER = /[^\p{Z}\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/u
/** A line that someone can see and tell from another. */
export const label = (longest: number) =>
  z
    .string()
    .trim()
    .min(1)
    .max(longest, { abort: true })
    .refine(line => line === '' || VISIBLE_CHARACTER.test(line), { error: 'needs a visible character' })
export const Name = label(128)
/** Lower case comes last: some letters of other scripts turn into ASCII by it. */
export const Email = z
  .string()
  .trim()
  .max(254, { abort: true })
  .check(z.email({ error: 'needs to be an e-mail address' }))
  .toLowerCase()
const Time = z.string().meta({ format: 'date-time' })
const Times = { created_at: Time, updated_at: Time }
/** A set: naming one twice is naming it once. */
const permissionSet = (least = 0) =>
  arrayOf(z.enum(permissionNames), permissionNames.length, least).overwrite(names => [...new Set(names)])
const Permissions = permissionSet()
/** In a patch, null means the same as left out: keep. */
const optionalOrNull = <S extends z.ZodType>(schema: S) => schema.nullish()

// ---- organisations and workspaces

export const OrganizationInfo = z
  .object({
    id: Uuid,
    display_name: z.string(),
    rbac_enabled: z.boolean(),
    assume_s256: z.array(z.string()).meta({ description: 'Hosts of authorization servers that do not say so.' }),
    ...Times,
  })
  .meta({ id: 'OrganizationInfo' })

/** A host, and its port if it has one; a set. */
const Hosts = arrayOf(
  boundedText(260)
    .regex(/^[a-z0-9_-]+(\.[a-z0-9_-]+)*(:\d{1,5})?$/i, { error: 'needs to be a host, like auth.example.com' })
    .toLowerCase(),
  100,
).overwrite(hosts => [...new Set(hosts)])

export const OrganizationPatch = z
  .object({
    display_name: optionalOrNull(Name),
    rbac_enabled: optionalOrNull(z.boolean()).meta({
      description: 'Members must then be given a role; there is no default.',
    }),
    assume_s256: optionalOrNull(Hosts).meta({
      description:
        'Hosts of authorization servers that are taken to support PKCE with S256 though they list no methods. It replaces all of them.',
    }),
  })
  .meta({ id: 'OrganizationPatch', example: { display_name: 'Acme', rbac_enabled: true } })

export const WorkspaceRef = z.object({ workspace_id: Uuid })

export const Workspace = z
  .object({ id: Uuid, organization_id: Uuid, display_name: z.string(), require_if_match: z.boolean(), ...Times })
  .meta({ id: 'Workspace' })
export const WorkspaceList = listOf(Workspace).meta({ id: 'WorkspaceList' })

const requireIfMatch = z
  .boolean()
  .meta({ description: 'Conditional writes without `If-Match` are then refused with 428.' })
export const NewWorkspace = z
  .object({ display_name: Name, require_if_match: requireIfMatch.default(false) })
  .meta({ id: 'NewWorkspace', example: { display_name: 'Staging' } })
export const WorkspacePatch = z
  .object({ display_name: optionalOrNull(Name), require_if_match: optionalOrNull(requireIfMatch) })
  .meta({ id: 'WorkspacePatch', example: { display_name: 'Production' } })

// ---- roles

export const RoleRef = z.object({ role_id: Uuid })

export const Role = z
  .object({
    id: Uuid,
    organization_id: Uuid.nullable().meta({ description: 'Null for a built-in role.' }),
    scope: z.enum(['workspace', 'organization']),
    display_name: z.string(),
    description: z.string(),
    permissions: z.array(z.string()),
    ...Times,
  })
  .meta({ id: 'Role' })
export const RoleList = listOf(Role).meta({ id: 'RoleList' })

export const NewRole = z
  .object({
    scope: z.enum(['workspace', 'organization']).default('workspace'),
    display_name: Name,
    description: z.string().max(1000).default(''),
    permissions: Permissions,
  })
  .superRefine((role, check) => {
    for (const [i, permission] of role.permissions.entries()) {
      if (role.scope !== 'workspace' || !organizationPermissions.includes(permission)) continue
      const message = 'is a permission of the organisation, which a role of scope `workspace` cannot hold'
      check.addIssue({ code: 'custom', path: ['permissions', i], message })
    }
  })
  .meta({
    id: 'NewRole',
    example: { display_name: 'Operator', permissions: ['deployments:read', 'deployments:update'] },
  })
export const RolePatch = z
  .object({
    display_name: optionalOrNull(Name),
    description: optionalOrNull(z.string().max(1000)),
    permissions: optionalOrNull(Permissions),
  })
  .meta({ id: 'RolePatch', example: { permissions: ['deployments:read'] } })

export const PermissionList = z
  .object({
    resources: z.array(
      z.object({
        name: z.string(),
        scope: z
          .enum(['workspace', 'organization'])
          .meta({ description: 'The narrowest scope of a role that can hold it.' }),
      }),
    ),
  })
  .meta({ id: 'PermissionList' })

// ---- members

export const MemberRef = z.object({ member_id: Uuid })

export const Member = z
  .object({
    id: Uuid,
    organization_id: Uuid,
    email: z.string(),
    full_name: z.string().nullable(),
    role_id: Uuid,
    is_instance_admin: z.boolean().meta({ description: 'Named in the setting INSTANCE_ADMIN_EMAILS.' }),
    ...Times,
  })
  .meta({ id: 'Member' })
export const MemberList = listOf(Member).meta({ id: 'MemberList' })

export const NewMember = z
  .object({
    email: Email,
    full_name: optionalOrNull(Name),
    role_id: optionalOrNull(Uuid).meta({
      description: 'A role of scope `organization`; Organization User when left out.',
    }),
  })
  .meta({ id: 'NewMember', example: { email: 'ada@example.com', full_name: 'Ada Lovelace' } })
export const MemberPatch = z
  .object({ full_name: optionalOrNull(Name), role_id: optionalOrNull(Uuid) })
  .meta({ id: 'MemberPatch', example: { full_name: 'Ada King' } })

export const MembershipRef = z.object({ membership_id: Uuid })

export const Membership = z
  .object({
    id: Uuid,
    organization_id: Uuid,
    tenant_id: Uuid,
    member_id: Uuid,
    email: z.string(),
    full_name: z.string().nullable(),
    role_id: Uuid,
    ...Times,
  })
  .meta({ id: 'Membership' })
export const MembershipList = listOf(Membership).meta({ id: 'MembershipList' })

export const NewMembership = z
  .object({
    email: optionalOrNull(Email).meta({
      description: 'Someone new to the organisation joins it as Organization User.',
    }),
    full_name: optionalOrNull(Name),
    member_id: optionalOrNull(Uuid).meta({ description: 'Instead of `email`: a member of the organisation.' }),
    role_id: optionalOrNull(Uuid).meta({
      description: 'Required where the organisation has RBAC enabled; otherwise Admin when left out.',
    }),
  })
  .refine(person => person.email != null || person.member_id != null, {
    path: ['email'],
    error: 'needs to be given, or `member_id`',
  })
  .meta({ id: 'NewMembership', example: { email: 'ada@example.com', role_id: '00000000-0000-4000-8000-000000000002' } })
export const MembershipPatch = z
  .object({ role_id: Uuid })
  .meta({ id: 'MembershipPatch', example: { role_id: '00000000-0000-4000-8000-000000000003' } })

// ---- keys

export const KeyRef = z.object({ key_id: Uuid })
export const KeyQuery = Page.extend({
  created_by: Uuid.optional().meta({ description: 'Only keys that were made with this key.' }),
})

const apiKeyShape = {
  id: Uuid,
  organization_id: Uuid,
  tenant_id: Uuid.nullable().meta({ description: 'Null for an organisation key.' }),
  listener_id: Uuid.nullable().meta({ description: 'The listener whose agent it is for, and which it can act for.' }),
  description: z.string(),
  hint: z.string().meta({ description: 'Enough of the key to recognise it.' }),
  role_id: Uuid,
  permissions: z
    .array(z.string())
    .nullable()
    .meta({ description: 'What of the role the key is narrowed to; null: all of it.' }),
  expires_at: Time.nullable(),
  last_used_at: Time.nullable().meta({ description: 'To the minute.' }),
  created_by: Uuid.nullable().meta({
    description: 'The key that it was made with. Revoking that key revokes this one.',
  }),
  created_at: Time,
}
const ApiKey = z.object(apiKeyShape).meta({ id: 'ApiKey' })
export const ApiKeyList = listOf(ApiKey).meta({ id: 'ApiKeyList' })
export const ApiKeyWithDescendants = z
  .object({
    ...apiKeyShape,
    descendants: z
      .int()
      .meta({ description: 'How many keys were made with it, directly or not: revoking it revokes them.' }),
  })
  .meta({ id: 'ApiKeyWithDescendants' })
export const NewlyMadeApiKey = z
  .object({ ...apiKeyShape, key: z.string().meta({ description: 'The key itself: shown now and never again.' }) })
  .meta({ id: 'NewlyMadeApiKey' })

export const NewApiKey = z
  .object({
    description: label(256),
    role_id: optionalOrNull(Uuid).meta({
      description:
        'When left out: the role of the key that asks, as narrow; Admin when an organisation key makes a key of a workspace.',
    }),
    permissions: optionalOrNull(permissionSet(1)).meta({ description: 'Narrows the key below its role.' }),
    expires_at: optionalOrNull(Instant),
  })
  .meta({ id: 'NewApiKey', example: { description: 'CI', permissions: ['deployments:read'] } })
