// Schemas of access policies.
import * as z from 'zod'
import { type Permission, policyPermissions, type ResourceType, resourceTypes } from '../../kernel/permissions.ts'
import { all, implies, isAnyOf } from '../../protocol/conditions.ts'
import { arrayOf, Uuid } from '../../protocol/wire.ts'
import { label, Name, RoleRef } from './schema.ts'

const Time = z.string().meta({ format: 'date-time' })
const MAX_GROUPS = 50
const MAX_CONDITIONS = 20
const MAX_ROLES = 100
const MAX_ATTACHED = 200

export const operators = [
  'equals',
  'not_equals',
  'equals_ignore_case',
  'not_equals_ignore_case',
  'matches',
  'not_matches',
  'equals_if_exists',
  'not_equals_if_exists',
  'equals_ignore_case_if_exists',
  'not_equals_ignore_case_if_exists',
  'matches_if_exists',
  'not_matches_if_exists',
] as const

const Condition = z
  .object({
    attribute_name: z.literal('resource_tag_key').default('resource_tag_key'),
    attribute_key: label(128).meta({ description: 'The key of the tag.' }),
    operator: z.enum(operators).meta({
      description:
        '`matches` compares with a pattern: `*` is any text and `?` any character. Of several values of the key, one ' +
        'that compares is enough; a `not_…` operator holds if none does. If the resource has no tag with the key, ' +
        'the condition holds only with `…_if_exists`.',
    }),
    attribute_value: z.string().max(256),
  })
  .meta({ id: 'AccessCondition' })

const policyPermissionNames = Object.values(policyPermissions).flat() as [Permission, ...Permission[]]
/** The reference writes the type of annotation queues in the plural here, and in the singular for their tags. */
const PolicyResourceType = z.enum([...resourceTypes, 'queues'])
const toResourceType = (type: z.output<typeof PolicyResourceType>): ResourceType => (type === 'queues' ? 'queue' : type)

const checkPermission = (
  { permission, resource_type }: { permission: Permission; resource_type: z.output<typeof PolicyResourceType> },
  check: z.RefinementCtx,
) => {
  const allowed = policyPermissions[toResourceType(resource_type)]
  if (allowed.includes(permission)) return
  const message = `must be a permission for a ${resource_type}: ${allowed.join(', ')}`
  check.addIssue({ code: 'custom', path: ['permission'], message })
}

/** The same for the document. */
const PERMISSION_CONDITION = all(
  ...PolicyResourceType.options.map(type =>
    implies(isAnyOf('resource_type', type), isAnyOf('permission', ...policyPermissions[toResourceType(type)])),
  ),
)

const ConditionGroup = z
  .object({
    permission: z.enum(policyPermissionNames),
    resource_type: PolicyResourceType.meta({ description: 'For `runs:…`, the type is `project`: runs have no tags.' }),
    conditions: arrayOf(Condition, MAX_CONDITIONS, 1).meta({ description: 'All of them must hold.' }),
  })
  .superRefine(checkPermission)
  .meta({ id: 'AccessConditionGroup', ...PERMISSION_CONDITION })

const shape = {
  name: Name,
  description: z.string().max(1000).nullish(),
  effect: z.enum(['allow', 'deny']),
  condition_groups: arrayOf(ConditionGroup, MAX_GROUPS, 1).meta({ description: 'One that holds is enough.' }),
}

export const NewAccessPolicy = z
  .object({
    ...shape,
    role_ids: arrayOf(Uuid, MAX_ROLES).nullish().meta({ description: 'The roles to attach it to.' }),
  })
  .meta({
    id: 'NewAccessPolicy',
    example: {
      name: 'Production is read-only',
      effect: 'deny',
      condition_groups: [
        {
          permission: 'deployments:update',
          resource_type: 'deployment',
          conditions: [
            {
              attribute_name: 'resource_tag_key',
              attribute_key: 'Environment',
              operator: 'equals',
              attribute_value: 'production',
            },
          ],
        },
      ],
    },
  })
export type NewAccessPolicy = z.output<typeof NewAccessPolicy>

export const AccessPolicy = z
  .object({ id: Uuid, ...shape, role_ids: z.array(Uuid), created_at: Time, updated_at: Time })
  .meta({ id: 'AccessPolicy', description: 'Allows or denies permissions for resources, by their tags.' })
export type AccessPolicy = z.output<typeof AccessPolicy>
export const AccessPolicyList = z.object({ access_policies: z.array(AccessPolicy) }).meta({ id: 'AccessPolicyList' })
export const CreatedAccessPolicy = z.object({ id: Uuid }).meta({ id: 'CreatedAccessPolicy' })

export const AccessPolicyRef = z.object({ access_policy_id: Uuid })
export const AttachmentRef = z.object({ ...RoleRef.shape, ...AccessPolicyRef.shape })
export const Attachment = z
  .object({ access_policy_ids: arrayOf(Uuid, MAX_ATTACHED, 1) })
  .meta({ id: 'AccessPolicyAttachment', example: { access_policy_ids: ['5d41402a-bc4b-4a76-b971-9d911017c592'] } })

export const AccessQuestion = z
  .object({
    role_id: Uuid,
    permission: z.enum(policyPermissionNames),
    resource_type: PolicyResourceType.transform(toResourceType),
    resource_id: Uuid,
  })
  .superRefine(checkPermission)
  .meta({
    id: 'AccessQuestion',
    ...PERMISSION_CONDITION,
    example: {
      role_id: '00000000-0000-4000-8000-000000000003',
      permission: 'deployments:update',
      resource_type: 'deployment',
      resource_id: '5d41402a-bc4b-4a76-b971-9d911017c592',
    },
  })
export type AccessQuestion = z.output<typeof AccessQuestion>

export const AccessAnswer = z
  .object({
    allowed: z.boolean(),
    decided_by: z.enum(['deny', 'allow', 'role']).meta({
      description: 'A policy that denies, or else one that allows, or else the permissions of the role.',
    }),
    access_policy: z
      .object({
        id: Uuid,
        name: z.string(),
        condition_group: z.int().meta({ description: 'The place of the group that decided, from 0 on.' }),
      })
      .nullable(),
    tags: z.array(z.object({ key: z.string(), value: z.string() })).meta({ description: 'The tags of the resource.' }),
  })
  .meta({ id: 'AccessAnswer', description: 'Whether a role has a permission for a resource, and why.' })
export type AccessAnswer = z.output<typeof AccessAnswer>
