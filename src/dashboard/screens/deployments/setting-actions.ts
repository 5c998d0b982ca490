// Actions that take effect at once, without a plan: tags, and the verification of a host.
import { type Action, request } from '../../api/actions.ts'
import type { Deployment } from '../../format/state.ts'

type Named = Pick<Deployment, 'id' | 'name'>

export const addTag = (
  { id, name }: Named,
  key: string,
  { id: tag, value }: { id: string; value: string },
): Action => ({
  label: `Add tag ${key}: ${value}`,
  request: request('POST /v2/deployments/{deployment_id}/tags', {
    params: { deployment_id: id },
    body: { tag_value_ids: [tag] },
  }),
  done: `${name} has the tag ${key}: ${value}.`,
})

type Tag = { tag_value_id: string; key: string; value: string }
export const removeTag = ({ id, name }: Named, { tag_value_id, key, value }: Tag): Action => ({
  label: `Remove ${value}`,
  request: request('DELETE /v2/deployments/{deployment_id}/tags/{tag_value_id}', {
    params: { deployment_id: id, tag_value_id },
  }),
  done: `${name} no longer has the tag ${key}: ${value}.`,
})

export const createTagKey = (key: string): Action => ({
  label: `Create key ${key}`,
  request: request('POST /v2/tag-keys', { body: { key } }),
  done: `The tag key ${key} exists. Choose it to add a value.`,
})

export const createTagValue = ({ id, key }: { id: string; key: string }, value: string): Action => ({
  label: `Create value ${value} of ${key}`,
  request: request('POST /v2/tag-keys/{tag_key_id}/values', { params: { tag_key_id: id }, body: { value } }),
  done: `${key} has the value ${value}. Choose it to tag the deployment.`,
})

export const verifyHost = (host: string): Action => ({
  label: `Verify ${host}`,
  request: request('POST /v2/custom-hosts/{host}/verification', { params: { host } }),
  done: `${host} is verified, and served.`,
})
