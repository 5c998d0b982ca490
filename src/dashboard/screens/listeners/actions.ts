// Actions on a listener, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { Item } from '../../api/client.ts'
import type { Listener } from './listener-state.ts'

type Key = Item<'GET /workspaces/current/api-keys'>
type Unavailable = string | undefined

type NewListener = { compute_type: Listener['compute_type']; compute_id: string; namespaces: string[] }
export const createListener = ({ compute_type, compute_id, namespaces }: NewListener): Action => ({
  label: 'Register listener',
  request: request('POST /v2/listeners', {
    body: { compute_type, compute_id, compute_config: { k8s_namespaces: namespaces } },
  }),
  done: `The listener ${compute_id} is registered. Create agent key.`,
})

export const createKey = ({ id, compute_id }: Listener, unavailable: Unavailable): Action => ({
  label: 'Create agent key',
  request: request('POST /v2/listeners/{listener_id}/keys', {
    params: { listener_id: id },
    body: { description: `Agent of ${compute_id}` },
  }),
  command: `slipway listeners key ${compute_id}`,
  unavailable,
  done: `The agent key of ${compute_id} is created. Copy it now.`,
})

export const changeNamespaces = ({ id, compute_id }: Listener, k8s_namespaces: string[]): Action => ({
  label: 'Save namespaces',
  request: request('PATCH /v2/listeners/{listener_id}', {
    params: { listener_id: id },
    body: { compute_config: { k8s_namespaces } },
  }),
  done: `The namespaces of ${compute_id} are saved.`,
})

export const revokeKey = ({ id, description, hint }: Key, unavailable: Unavailable): Action => ({
  label: 'Revoke key',
  request: request('DELETE /workspaces/current/api-keys/{key_id}', { params: { key_id: id } }),
  command: `slipway keys revoke ${id}`,
  unavailable,
  confirm: {
    title: `Revoke the key ${hint}?`,
    body:
      `“${description}” stops working immediately. An agent with this key cannot deploy until it has another ` +
      'key. Running applications keep running.',
    isDestructive: true,
  },
  done: `The key ${hint} is revoked.`,
})

export const deleteListener = ({ id, compute_id }: Listener, unavailable: Unavailable): Action => ({
  label: 'Delete listener',
  request: request('DELETE /v2/listeners/{listener_id}', { params: { listener_id: id } }),
  command: `slipway listeners delete ${compute_id}`,
  unavailable,
  confirm: {
    title: `Delete the listener ${compute_id}?`,
    body:
      'The agent keys are deleted too, so running agents are refused. Delete its deployments first. The machine ' +
      'or cluster is not changed.',
    isDestructive: true,
  },
  done: `The listener ${compute_id} is deleted.`,
})
