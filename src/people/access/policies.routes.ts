// Routes of access policies.
import { slice } from '../../kernel/http/routes.ts'
import * as s from './policies.schema.ts'
import * as policies from './policies.ts'
import { RoleRef } from './schema.ts'

const PATH = '/v1/platform/orgs/current/access-policies'

export const accessPolicyRoutes = slice('Access policies', 'Which resources a role may use, by their tags.')
  .get(`${PATH}`, {
    id: 'listAccessPolicies',
    summary: 'List the access policies of the organization',
    description: 'All of them in one answer, newest first, each with the roles that it is attached to.',
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
    description: 'It changes nothing. Ask it after attaching a policy, to see whether the policy does what was meant.',
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
    description: 'It has its conditions and the roles that it is attached to.',
    params: s.AccessPolicyRef,
    reply: s.AccessPolicy,
    errors: ['access_policy_not_found', 'abac_off'],
    verb: policies.readAccessPolicy,
  })
  .delete(`${PATH}/{access_policy_id}`, {
    id: 'deleteAccessPolicy',
    summary: 'Delete an access policy, and detach it from all roles',
    description: 'It takes effect with the next request, which may then be allowed more or less than before.',
    params: s.AccessPolicyRef,
    errors: ['access_policy_not_found', 'abac_off'],
    verb: policies.deleteAccessPolicy,
  })
  .post(`${PATH}/roles/{role_id}/access-policies`, {
    id: 'attachAccessPolicies',
    summary: 'Attach access policies to a role',
    description: 'It takes effect with the next request. Policies that the role has already stay.',
    params: RoleRef,
    body: s.Attachment,
    status: 204,
    errors: ['role_not_found', 'access_policy_not_found', 'abac_off'],
    verb: policies.attachAccessPolicies,
  })
  .delete(`${PATH}/roles/{role_id}/access-policies/{access_policy_id}`, {
    id: 'detachAccessPolicy',
    summary: 'Detach an access policy from a role',
    description: 'It takes effect with the next request. The policy stays, with its other roles.',
    params: s.AttachmentRef,
    errors: ['access_policy_not_found', 'abac_off'],
    verb: policies.detachAccessPolicy,
  })
