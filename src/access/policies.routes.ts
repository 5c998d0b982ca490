// Routes of access policies.
import { slice } from '../kernel/routes.ts'
import * as s from './policies.schema.ts'
import * as policies from './policies.ts'
import { RoleRef } from './schema.ts'

const PATH = '/v1/platform/orgs/current/access-policies'

export const accessPolicyRoutes = slice('Access policies', 'Which resources a role may use, by their tags.')
  .get(`${PATH}`, {
    id: 'listAccessPolicies',
    summary: 'List the access policies of the organization',
    reply: s.AccessPolicyList,
    errors: ['abac_off'],
    verb: policies.listAccessPolicies,
  })
  .post(`${PATH}`, {
    id: 'createAccessPolicy',
    summary: 'Create an access policy',
    description:
      'A policy that denies wins over one that allows, and both win over the permissions of the role. It takes ' +
      'effect with the next request. A policy cannot be changed: delete it and create another one.',
    body: s.NewAccessPolicy,
    status: 201,
    reply: s.CreatedAccessPolicy,
    errors: ['role_not_found', 'abac_off'],
    location: policy => `${PATH}/${policy.id}`,
    verb: policies.createAccessPolicy,
  })
  .post(`${PATH}/test`, {
    id: 'testAccess',
    summary: 'Tell whether a role has a permission for a resource, and which policy decides',
    isReadOnly: true,
    body: s.AccessQuestion,
    reply: s.AccessAnswer,
    errors: ['role_not_found', 'resource_not_found', 'abac_off'],
    verb: policies.testAccess,
  })
  .get(`${PATH}/{access_policy_id}`, {
    id: 'readAccessPolicy',
    hasContentTag: true,
    summary: 'Read an access policy',
    params: s.AccessPolicyRef,
    reply: s.AccessPolicy,
    errors: ['access_policy_not_found', 'abac_off'],
    verb: policies.readAccessPolicy,
  })
  .delete(`${PATH}/{access_policy_id}`, {
    id: 'deleteAccessPolicy',
    summary: 'Delete an access policy, and detach it from all roles',
    params: s.AccessPolicyRef,
    errors: ['access_policy_not_found', 'abac_off'],
    verb: policies.deleteAccessPolicy,
  })
  .post(`${PATH}/roles/{role_id}/access-policies`, {
    id: 'attachAccessPolicies',
    summary: 'Attach access policies to a role',
    params: RoleRef,
    body: s.Attachment,
    status: 204,
    errors: ['role_not_found', 'access_policy_not_found', 'abac_off'],
    verb: policies.attachAccessPolicies,
  })
  .delete(`${PATH}/roles/{role_id}/access-policies/{access_policy_id}`, {
    id: 'detachAccessPolicy',
    summary: 'Detach an access policy from a role',
    params: s.AttachmentRef,
    errors: ['access_policy_not_found', 'abac_off'],
    verb: policies.detachAccessPolicy,
  })
