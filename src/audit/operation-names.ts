// Names of operations in the audit log, verb_noun: from types of events, and from ids of routes.
import type { Operation } from '../kernel/routes.ts'
import { deploymentStatuses, revisionStatuses } from '../protocol/parts.schema.ts'

const statusEvents = (subject: string, statuses: readonly string[], operation: string) =>
  Object.fromEntries(statuses.map(status => [`${subject}.${status.toLowerCase()}`, operation]))

/** The names of the reference where it has them. A test fails for a type that is missing here. */
export const EVENT_OPERATIONS: Record<string, string> = {
  ...statusEvents('deployment', deploymentStatuses, 'update_deployment_status'),
  ...statusEvents('revision', revisionStatuses, 'update_revision_status'),
  'access_policy.created': 'create_access_policy',
  'access_policy.deleted': 'delete_access_policy',
  'api_key.created': 'create_api_key',
  'api_key.revoked': 'delete_api_key',
  'custom_host.lost': 'delete_custom_host',
  'custom_host.verified': 'verify_custom_host',
  'dataset.created': 'create_dataset',
  'dataset.deleted': 'delete_dataset',
  'dataset.tagged': 'create_tagging',
  'dataset.untagged': 'delete_tagging',
  'dataset.updated': 'update_dataset',
  'deployment.activated': 'activate_deployment',
  'deployment.created': 'create_deployment',
  'deployment.deleted': 'delete_deployment',
  'deployment.healthy': 'update_deployment_health',
  'deployment.hold_released': 'release_deployment_hold',
  'deployment.located': 'locate_deployment',
  'deployment.patched': 'update_deployment',
  'deployment.preview_moved': 'update_preview',
  'deployment.push_offered': 'create_push_token',
  'deployment.pushed': 'push_deployment',
  'deployment.redeployed': 'redeploy_deployment',
  'deployment.ref_found': 'find_deployment_ref',
  'deployment.ref_gone': 'lose_deployment_ref',
  'deployment.removed': 'remove_deployment',
  'deployment.rolled_back': 'rollback_deployment',
  'deployment.secrets_revealed': 'read_deployment_secrets',
  'deployment.tagged': 'create_tagging',
  'deployment.unhealthy': 'update_deployment_health',
  'deployment.untagged': 'delete_tagging',
  'device.approved': 'approve_device',
  'device.denied': 'deny_device',
  'feedback_config.created': 'create_feedback_config',
  'feedback_config.deleted': 'delete_feedback_config',
  'feedback_config.updated': 'update_feedback_config',
  'identity.bound': 'bind_identity',
  'integration.connected': 'create_integration',
  'integration.deleted': 'delete_integration',
  'integration.install_failed': 'fail_integration_install',
  'integration.install_started': 'start_integration_install',
  'integration.rechecked': 'check_integration',
  'integration.repositories_changed': 'update_integration_repositories',
  'integration.resumed': 'resume_integration',
  'integration.revoked': 'revoke_integration',
  'integration.suspended': 'suspend_integration',
  'listener.created': 'create_listener',
  'listener.deleted': 'delete_listener',
  'listener.updated': 'update_listener',
  'member.added': 'invite_user_to_org',
  'member.removed': 'delete_org_member',
  'member.updated': 'update_org_member',
  'oauth_flow.failed': 'fail_oauth_flow',
  'oauth_flow.started': 'start_oauth_flow',
  'oauth_provider.checked': 'check_oauth_provider',
  'oauth_provider.created': 'create_oauth_provider',
  'oauth_provider.deleted': 'delete_oauth_provider',
  'oauth_provider.updated': 'update_oauth_provider',
  'oauth_token.connected': 'create_oauth_token',
  'oauth_token.deleted': 'delete_oauth_token',
  'oauth_token.refreshed': 'refresh_oauth_token',
  'oauth_token.used': 'read_oauth_token',
  'organization.updated': 'update_organization',
  'preview.approved': 'approve_preview',
  'preview.created': 'create_preview',
  'preview.deleted': 'delete_preview',
  'preview.closed': 'close_preview',
  'preview.ended': 'end_preview',
  'preview.opened': 'open_preview',
  'preview.refused': 'refuse_preview',
  'preview.reopened': 'open_preview',
  'preview.synchronize': 'update_preview',
  'preview_policy.removed': 'delete_preview_policy',
  'preview_policy.set': 'update_preview_policy',
  'project.tagged': 'create_tagging',
  'project.untagged': 'delete_tagging',
  'revision.credential_revealed': 'read_revision_credential',
  'revision.created': 'create_revision',
  'revision.secrets_revealed': 'read_revision_secrets',
  'role.created': 'create_role',
  'role.deleted': 'delete_role',
  'role.policies_attached': 'attach_access_policies',
  'role.policy_detached': 'detach_access_policy',
  'role.updated': 'update_role',
  'rule.created': 'create_run_rule',
  'rule.deleted': 'delete_run_rule',
  'rule.updated': 'update_run_rule',
  'session.ended': 'delete_session',
  'session.opened': 'create_session',
  'session.refused': 'refuse_session',
  'sign_in_link.created': 'create_sign_in_link',
  'tag_key.created': 'create_tag_key',
  'tag_key.deleted': 'delete_tag_key',
  'tag_key.renamed': 'update_tag_key',
  'tag_value.created': 'create_tag_value',
  'tag_value.deleted': 'delete_tag_value',
  'tag_value.renamed': 'update_tag_value',
  'upload.offered': 'create_upload_url',
  'upload.removed': 'delete_upload',
  'upload.stored': 'create_upload',
  'webhook.created': 'create_webhook',
  'webhook.deleted': 'delete_webhook',
  'webhook.disabled': 'disable_webhook',
  'webhook.pinged': 'ping_webhook',
  'webhook.recovered': 'recover_webhook',
  'webhook.redelivered': 'redeliver_webhook_delivery',
  'webhook.secret_rotated': 'rotate_webhook_secret',
  'webhook.updated': 'update_webhook',
  'workspace.created': 'create_workspace',
  'workspace.deleted': 'delete_workspace',
  'workspace.updated': 'update_workspace',
  'workspace_member.added': 'add_member_to_workspace',
  'workspace_member.removed': 'delete_workspace_member',
  'workspace_member.updated': 'update_workspace_member',
}

/** Where the rule of `nameRouteOperation` finds another name than that of the event. */
const ROUTE_OPERATIONS: Record<string, string> = {
  addMember: 'invite_user_to_org',
  addMembership: 'add_member_to_workspace',
  addTags: 'create_tagging',
  changeMember: 'update_org_member',
  changeMembership: 'update_workspace_member',
  changeProvider: 'update_oauth_provider',
  connectAccount: 'start_oauth_flow',
  connectIntegration: 'create_integration',
  createListenerKey: 'create_api_key',
  createOrganizationKey: 'create_api_key',
  createProvider: 'create_oauth_provider',
  createRegistryToken: 'create_push_token',
  createWorkspaceKey: 'create_api_key',
  deleteDeployments: 'delete_deployment',
  deleteProvider: 'delete_oauth_provider',
  disconnectAccount: 'delete_oauth_token',
  endSession: 'delete_session',
  openSession: 'create_session',
  patchDeployment: 'update_deployment',
  poll: 'poll_listener',
  recheckIntegration: 'check_integration',
  recheckProvider: 'check_oauth_provider',
  redeployRevision: 'redeploy_deployment',
  releaseHold: 'release_deployment_hold',
  removeMember: 'delete_org_member',
  removeMembership: 'delete_workspace_member',
  removeTag: 'delete_tagging',
  report: 'report_revisions',
  revokeOrganizationKey: 'delete_api_key',
  revokeOwnKey: 'delete_api_key',
  revokeWorkspaceKey: 'delete_api_key',
  rollBackDeployment: 'rollback_deployment',
  setPreviewPolicy: 'update_preview_policy',
  signOut: 'delete_session',
  startInstallation: 'start_integration_install',
}

const VERBS: Record<string, string> = {
  ...{ change: 'update', rename: 'update', set: 'update' },
  ...{ add: 'create', remove: 'delete', revoke: 'delete' },
}
const toSnakeCase = (camelCase: string): string => camelCase.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)

/** A type that the table lacks keeps its words in the same order of verb and noun. */
export const nameEventOperation = (type: string): string =>
  EVENT_OPERATIONS[type] ?? type.split('.').toReversed().join('_')

export function nameRouteOperation(id: string): string {
  const known = ROUTE_OPERATIONS[id]
  if (known) return known
  const [verb = '', ...noun] = toSnakeCase(id).split('_')
  return [VERBS[verb] ?? verb, ...noun].join('_')
}

/** What `GET /v1/audit-logs/operations` lists. */
export const listOperationNames = (operations: Operation[]): string[] =>
  [
    ...new Set([
      ...Object.values(EVENT_OPERATIONS),
      ...operations.filter(({ verb }) => verb).map(({ id }) => nameRouteOperation(id)),
    ]),
  ].sort()

export const eventTypesOf = (names: readonly string[]): string[] =>
  Object.keys(EVENT_OPERATIONS).filter(type => names.includes(EVENT_OPERATIONS[type]!))
