// Schemas of organizations, workspaces, members, roles and API keys.
import * as z from 'zod'
import { completePermissions, organizationPermissions, permissionNames } from '../../kernel/permissions.ts'
import { hasAnyOf, hasMembers, implies, isAbsentOrAnyOf } from '../../protocol/conditions.ts'
import {
  arrayOf,
  boundedText,
  CREDENTIAL,
  exactName,
  Instant,
  listOf,
  namedPage,
  Owner,
  OwnerPatch,
  optionalFilter,
  ownedBy,
  Page,
  Uuid,
} from '../../protocol/wire.ts'

const VISIBLE_CHARACTER = /[^\p{Z}\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/u
/** The same for the document: programs in other languages do not know these classes. */
const VISIBLE_PATTERN = [
  '[^\\u0000-\\u0020\\u007f-\\u00a0\\u00ad\\u034f\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2',
  '\\u115f\\u1160\\u1680\\u17b4\\u17b5\\u180b-\\u180f\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u3000\\u3164',
  '\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb]',
].join('')
export const label = (maxLength: number) =>
  z
    .string()
    .trim()
    .min(1)
    .max(maxLength, { abort: true })
    .refine(text => text === '' || VISIBLE_CHARACTER.test(text), { error: 'must contain a visible character' })
    .meta({ pattern: VISIBLE_PATTERN })
export const Name = label(128)
/** Lower case comes last: it turns some letters of other scripts into ASCII, which must not pass the check. */
export const Email = z
  .string()
  .trim()
  .max(254, { abort: true })
  .check(z.email({ error: 'must be an e-mail address' }))
  .toLowerCase()
const Time = z.string().meta({ format: 'date-time' })
const Times = { created_at: Time, updated_at: Time }
const permissionSet = (minItems = 0) =>
  arrayOf(z.enum(permissionNames), permissionNames.length, minItems).overwrite(completePermissions)
const Permissions = permissionSet()
/** In a patch, null means the same as a missing member: no change. */
const optionalOrNull = <S extends z.ZodType>(schema: S) => schema.nullish()

// ---- organizations and workspaces

export const OrganizationInfo = z
  .object({
    id: Uuid,
    display_name: z.string(),
    rbac_enabled: z.boolean(),
    assume_s256: z
      .array(z.string())
      .meta({ description: 'Hosts of authorization servers that support PKCE with S256 without announcing it.' }),
    config: z
      .object({
        can_use_rbac: z.boolean(),
        can_use_abac: z.boolean().meta({ description: 'The setting `ABAC`.' }),
        can_use_audit_logs: z.boolean().meta({ description: 'The setting `AUDIT_LOGS`.' }),
      })
      .meta({ description: 'What the installation offers.' }),
    permissions: z.array(z.string()).meta({
      description: 'Those of the caller, in the workspace if it names one. The ETag does not change with them.',
    }),
    tier: z.null().meta({ description: 'There are no plans.' }),
    is_personal: z.literal(false).meta({ description: 'An organization can always have further members.' }),
    disabled: z.literal(false).meta({ description: 'An organization that exists can be used.' }),
    sso_only: z.literal(false).meta({ description: 'A link signs in, too.' }),
    jit_provisioning_enabled: z.boolean().meta({
      description: 'People with an address of a domain join it when they first sign in: `OIDC_ALLOWED_DOMAINS`.',
    }),
    invites_enabled: z.literal(true).meta({ description: 'Members are added by their address.' }),
    public_sharing_disabled: z.literal(false).meta({ description: 'It takes the permission to share.' }),
    pat_creation_disabled: z.literal(false).meta({ description: 'Each member can approve keys of its own.' }),
    ...Times,
  })
  .meta({ id: 'OrganizationInfo' })

/** Hosts with an optional port. Removes duplicates. */
const Hosts = arrayOf(
  boundedText(260)
    .regex(/^[a-z0-9_-]+(\.[a-z0-9_-]+)*(:\d{1,5})?$/i, { error: 'must be a host, like auth.example.com' })
    .toLowerCase(),
  100,
).overwrite(hosts => [...new Set(hosts)])

export const OrganizationPatch = z
  .object({
    display_name: optionalOrNull(Name),
    rbac_enabled: optionalOrNull(z.boolean()).meta({
      description: 'With RBAC, adding a member requires a role: there is no default.',
    }),
    assume_s256: optionalOrNull(Hosts).meta({
      description:
        'Hosts of authorization servers that support PKCE with S256 without announcing it. Replaces the whole list.',
    }),
  })
  .meta({ id: 'OrganizationPatch', example: { display_name: 'Acme', rbac_enabled: true } })

export const WorkspaceRef = z.object({ workspace_id: Uuid })

export const Workspace = z
  .object({ id: Uuid, organization_id: Uuid, display_name: z.string(), require_if_match: z.boolean(), ...Times })
  .meta({ id: 'Workspace' })
export const WorkspaceList = listOf(Workspace).meta({ id: 'WorkspaceList' })

const requireIfMatch = z.boolean().meta({ description: 'If true, a change without `If-Match` is refused with 428.' })
export const NewWorkspace = z
  .object({ display_name: Name, require_if_match: requireIfMatch.default(false) })
  .meta({ id: 'NewWorkspace', example: { display_name: 'Staging' } })
export const WorkspacePatch = z
  .object({ display_name: optionalOrNull(Name), require_if_match: optionalOrNull(requireIfMatch) })
  .meta({ id: 'WorkspacePatch', example: { display_name: 'Production' } })

// ---- roles

export const RoleRef = z.object({ role_id: Uuid })
export const RoleQuery = namedPage('display_name').extend({ owner: ownedBy })

export const Role = z
  .object({
    id: Uuid,
    organization_id: Uuid.nullable().meta({ description: 'Null for a built-in role.' }),
    scope: z.enum(['workspace', 'organization']),
    display_name: z.string(),
    description: z.string(),
    permissions: z.array(z.string()),
    owner: Owner.nullable(),
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
    owner: Owner.nullish(),
  })
  .superRefine((role, check) => {
    for (const [i, permission] of role.permissions.entries()) {
      if (role.scope !== 'workspace' || !organizationPermissions.includes(permission)) continue
      const message = 'is a permission of the organization. A role of scope `workspace` cannot have it.'
      check.addIssue({ code: 'custom', path: ['permissions', i], message })
    }
  })
  .meta({
    id: 'NewRole',
    ...implies(
      isAbsentOrAnyOf('scope', 'workspace'),
      hasMembers(
        { permissions: { items: { enum: permissionNames.filter(name => !organizationPermissions.includes(name)) } } },
        [],
      ),
    ),
    example: { display_name: 'Operator', permissions: ['deployments:read', 'deployments:update'] },
  })
export const RolePatch = z
  .object({
    display_name: optionalOrNull(Name),
    description: optionalOrNull(z.string().max(1000)),
    permissions: optionalOrNull(Permissions),
    owner: OwnerPatch,
  })
  .meta({ id: 'RolePatch', example: { permissions: ['deployments:read'] } })

export const PermissionList = z
  .object({
    resources: z.array(
      z.object({
        name: z.string(),
        scope: z
          .enum(['workspace', 'organization'])
          .meta({ description: 'The narrowest scope of a role that can have it.' }),
      }),
    ),
  })
  .meta({ id: 'PermissionList' })

// ---- members

const LastSeen = Time.nullable().meta({
  description:
    'When a session of the member was last used, accurate to the minute. Null if there was none in the last 30 days.',
})

export const MemberRef = z.object({ member_id: Uuid })

export const Member = z
  .object({
    id: Uuid,
    organization_id: Uuid,
    email: z.string(),
    full_name: z.string().nullable(),
    role_id: Uuid,
    is_instance_admin: z.boolean().meta({
      description:
        'The setting INSTANCE_ADMIN_EMAILS contains the address, and the person has signed in with it through the ' +
        'identity provider or by a link of the operator.',
    }),
    last_seen_at: LastSeen,
    ...Times,
  })
  .meta({ id: 'Member' })
export const MemberList = listOf(Member).meta({ id: 'MemberList' })

export const NewMember = z
  .object({
    email: Email,
    full_name: optionalOrNull(Name),
    role_id: optionalOrNull(Uuid).meta({
      description: 'A role of scope `organization`. Default: Organization User.',
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
    last_seen_at: LastSeen,
    ...Times,
  })
  .meta({ id: 'Membership' })
export const MembershipList = listOf(Membership).meta({ id: 'MembershipList' })

/** The names that clients of the reference have for the same. The first one that is given counts. */
export const MEMBER_NAMES = ['member_id', 'org_identity_id', 'user_id', 'ls_user_id'] as const
export const ROLE_NAMES = ['role_id', 'workspace_role_id'] as const
export const NewMembership = z
  .object({
    email: optionalOrNull(Email).meta({
      description: 'A person who is new to the organization joins it as Organization User.',
    }),
    full_name: optionalOrNull(Name),
    member_id: optionalOrNull(Uuid).meta({ description: 'A member of the organization, instead of `email`.' }),
    org_identity_id: optionalOrNull(Uuid).meta({ description: 'Read as `member_id`.' }),
    user_id: optionalOrNull(Uuid).meta({ description: 'Read as `member_id`.' }),
    ls_user_id: optionalOrNull(Uuid).meta({ description: 'Read as `member_id`.' }),
    role_id: optionalOrNull(Uuid).meta({
      description: 'Required if the organization has RBAC enabled. Otherwise the default is Admin.',
    }),
    workspace_role_id: optionalOrNull(Uuid).meta({ description: 'Read as `role_id`.' }),
    read_only: optionalOrNull(z.boolean()).meta({
      description: 'Without RBAC and a role: whether the role is Viewer.',
    }),
  })
  .superRefine((person, check) => {
    const refuse = (path: string, message: string) => check.addIssue({ code: 'custom', path: [path], message })
    const isGiven = (name: keyof typeof person) => person[name] != null
    const members = MEMBER_NAMES.filter(isGiven)
    const roles = ROLE_NAMES.filter(isGiven)
    if (members.length === 0 && !isGiven('email')) refuse('email', 'is required unless `member_id` is given')
    for (const [first, ...others] of [members, roles])
      for (const name of others)
        if (person[name] !== person[first!]) refuse(name, `is not the same as \`${first}\`; send one of them`)
  })
  .meta({
    id: 'NewMembership',
    ...hasAnyOf('email', ...MEMBER_NAMES),
    example: { email: 'ada@example.com', role_id: '00000000-0000-4000-8000-000000000002' },
  })
export const MembershipPatch = z
  .object({ role_id: Uuid })
  .meta({ id: 'MembershipPatch', example: { role_id: '00000000-0000-4000-8000-000000000003' } })

// ---- keys

export const KeyRef = z.object({ key_id: Uuid })
/** The query of lists of people. */
export const PersonPage = Page.extend({
  email: optionalFilter(boundedText(254))
    .transform(email => email?.toLowerCase())
    .meta({ type: 'string', description: 'The exact `email`.' }),
})

export const KeyQuery = Page.extend({
  description: exactName('description'),
  created_by: Uuid.optional().meta({ description: 'Only keys that were created with this key.' }),
})

const apiKeyShape = {
  id: Uuid,
  organization_id: Uuid,
  tenant_id: Uuid.nullable().meta({ description: 'Null for an organization key.' }),
  listener_id: Uuid.nullable().meta({ description: 'The listener whose agent uses this key.' }),
  description: z.string(),
  hint: z.string().meta({ description: 'The start and the end of the key, to recognize it.' }),
  role_id: Uuid,
  permissions: z
    .array(z.string())
    .nullable()
    .meta({ description: 'The permissions of its role that the key keeps. Null: all of them.' }),
  expires_at: Time.nullable(),
  last_used_at: Time.nullable().meta({ description: 'Accurate to the minute.' }),
  created_by: Uuid.nullable().meta({
    description: 'The key that created this one. Revoking that key revokes this one.',
  }),
  member: z
    .object({ id: Uuid, email: z.string() })
    .nullable()
    .meta({
      description:
        'The member whose permissions in the workspace limit those of the key, at any time. The key ends with the ' +
        'membership. Null for a key of the workspace or organization.',
    }),
  trusted_issuer_id: Uuid.nullable().meta({
    description:
      'The trusted issuer, which may be gone, whose token was exchanged for the key. The key is listed until its end.',
  }),
  client: z
    .object({
      id: z.string(),
      name: z.string().meta({ description: 'What the client calls itself. Anyone can claim it.' }),
      expires_at: Time.meta({ description: 'When it is disconnected if it does not come back.' }),
    })
    .nullable()
    .meta({
      description:
        'The program that the member has connected. It replaces the text of the key every hour, so `expires_at` of ' +
        'the key is soon. Revoking the key disconnects it. Null for any other key.',
    }),
  created_at: Time,
}
const ApiKey = z.object(apiKeyShape).meta({ id: 'ApiKey' })
export const ApiKeyList = listOf(ApiKey).meta({ id: 'ApiKeyList' })
export const ApiKeyWithDescendants = z
  .object({
    ...apiKeyShape,
    descendants: z.int().meta({
      description: 'How many keys were created with it, directly or indirectly. Revoking it revokes them too.',
    }),
  })
  .meta({ id: 'ApiKeyWithDescendants' })
export const NewlyMadeApiKey = z
  .object({
    ...apiKeyShape,
    key: z.string().meta({ ...CREDENTIAL, description: 'The key itself. It is shown only once.' }),
  })
  .meta({ id: 'NewlyMadeApiKey' })

export const NewApiKey = z
  .object({
    description: label(256),
    role_id: optionalOrNull(Uuid).meta({
      description:
        'Default: role and permissions of the calling key. Admin if an organization key creates a workspace key.',
    }),
    permissions: optionalOrNull(permissionSet(1)).meta({
      description: 'Limits the key to these permissions of its role.',
    }),
    expires_at: optionalOrNull(Instant),
  })
  .meta({ id: 'NewApiKey', example: { description: 'CI', permissions: ['deployments:read'] } })
