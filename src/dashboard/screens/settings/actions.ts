// Actions on a workspace, its tags, its organization and one's sessions, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { Item, Me, Reply } from '../../api/client.ts'
import { explainMissing } from '../../api/permissions.ts'
import { explainMissingInOrganization } from '../members/actions.ts'

export type Workspace = Reply<'GET /workspaces/{workspace_id}'>
export type Organization = Reply<'GET /orgs/current/info'>
export type TagKey = Item<'GET /v2/tag-keys'>
export type TagValue = Item<'GET /v2/tag-keys/{tag_key_id}/values'>
export type Session = Item<'GET /v2/me/sessions'>

export const changeWorkspace = (
  me: Me,
  { id }: Workspace,
  body: { display_name: string; require_if_match: boolean },
): Action => ({
  label: 'Save workspace',
  unavailable: explainMissing(me, id, 'workspaces:update'),
  request: request('PATCH /workspaces/{workspace_id}', { params: { workspace_id: id }, body }),
  done: `The workspace ${body.display_name} is saved.`,
})

export const createWorkspace = (me: Me, display_name: string): Action => ({
  label: 'Create workspace',
  unavailable: explainMissingInOrganization(me, 'workspaces:create'),
  request: request('POST /workspaces', { body: { display_name } }),
  done: `Created the workspace ${display_name}.`,
})

export const deleteWorkspace = (me: Me, { id, display_name }: Workspace, deployments: number | undefined): Action => ({
  label: 'Delete workspace',
  unavailable: explainMissingInOrganization(me, 'workspaces:delete'),
  request: request('DELETE /workspaces/{workspace_id}', { params: { workspace_id: id } }),
  confirm: {
    title: `Delete the workspace ${display_name}?`,
    body:
      `All deployments${deployments ? ` (${deployments})` : ''} with their revisions, logs and secrets, ` +
      'and all listeners, webhooks, git hosts, keys and memberships are deleted immediately. This cannot be ' +
      'undone: export the workspace first. The members of the organization and the audit log stay.',
    isDestructive: true,
    typed: display_name,
  },
  done: `The workspace ${display_name} is deleted.`,
})

export const changeOrganization = (
  me: Me,
  body: { display_name: string; rbac_enabled: boolean; assume_s256: string[] },
): Action => ({
  label: 'Save organization',
  unavailable: explainMissingInOrganization(me, 'organization:update'),
  request: request('PATCH /orgs/current', { body }),
  done: `The organization ${body.display_name} is saved.`,
})

// ---- tags

type Caller = { me: Me; workspace: string }
const mayTag = ({ me, workspace }: Caller) => explainMissing(me, workspace, 'deployments:update')

export const createTagKey = (caller: Caller, key: string): Action => ({
  label: 'Add key',
  unavailable: mayTag(caller),
  request: request('POST /v2/tag-keys', { body: { key } }),
  done: `Created the tag key ${key}.`,
})
export const renameTagKey = (caller: Caller, { id, key: old }: TagKey, key: string): Action => ({
  label: 'Rename key',
  unavailable: mayTag(caller),
  request: request('PATCH /v2/tag-keys/{tag_key_id}', { params: { tag_key_id: id }, body: { key } }),
  done: `The tag key ${old} is now ${key}.`,
})
export const deleteTagKey = (caller: Caller, { id, key }: TagKey, values: number): Action => ({
  label: 'Delete key',
  unavailable: mayTag(caller),
  request: request('DELETE /v2/tag-keys/{tag_key_id}', { params: { tag_key_id: id } }),
  confirm: {
    title: `Delete the tag key ${key}?`,
    body:
      `Its ${values === 1 ? 'value is' : `${values} values are`} deleted too, and removed from all deployments. ` +
      'The deployments stay. Webhooks that are limited to these tags no longer send events for them.',
    isDestructive: true,
  },
  done: `The tag key ${key} is deleted.`,
})
export const createTagValue = (caller: Caller, { id, key }: TagKey, value: string): Action => ({
  label: 'Add value',
  unavailable: mayTag(caller),
  request: request('POST /v2/tag-keys/{tag_key_id}/values', { params: { tag_key_id: id }, body: { value } }),
  done: `Created the tag ${key}=${value}.`,
})
export const deleteTagValue = (caller: Caller, { key }: TagKey, { id, value }: TagValue): Action => ({
  label: `Delete ${key}=${value}`,
  unavailable: mayTag(caller),
  request: request('DELETE /v2/tag-values/{tag_value_id}', { params: { tag_value_id: id } }),
  confirm: {
    title: `Delete the tag ${key}=${value}?`,
    body: 'The tag is removed from all deployments. The deployments stay.',
    isDestructive: true,
  },
  done: `The tag ${key}=${value} is deleted.`,
})

// ---- the person

export const endSession = ({ id }: Session, name: string): Action => ({
  label: 'End session',
  request: request('DELETE /v2/me/sessions/{own_session_id}', { params: { own_session_id: id } }),
  confirm: {
    title: `End the session in ${name}?`,
    body: 'The session is signed out with its next request. Unsaved input is lost.',
    isDestructive: true,
  },
  done: `The session in ${name} has ended.`,
})
