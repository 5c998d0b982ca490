// Actions on an OAuth provider and its connections, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { CallOptions, Item } from '../../api/client.ts'
import type { Provider } from './discovery-steps.ts'

export type DiscoveryBody = CallOptions<'POST /v2/auth/providers/mcp-discover'>['body']
export type HandBody = CallOptions<'POST /v2/auth/providers'>['body']
export type PatchBody = NonNullable<CallOptions<'PATCH /v2/auth/providers/{provider_id}'>['body']>
export type Connection = Item<'GET /v2/auth/tokens'>
type Unavailable = string | undefined

/** A secret must not get into the history of a shell by way of the clipboard. */
const withoutSecret = <Body extends { client_secret?: string | null | undefined }>(body: Body): Body =>
  body.client_secret == null ? body : { ...body, client_secret: 'YOUR-SECRET' }

export const createDiscovered = (body: DiscoveryBody): Action => {
  const route = 'POST /v2/auth/providers/mcp-discover'
  return {
    label: `Create ${body.name}`,
    request: request(route, { body }),
    copied: request(route, { body: withoutSecret(body) }),
    done: `The provider ${body.name} is created. People can connect.`,
  }
}

export const createByHand = (body: HandBody): Action => ({
  label: 'Create provider',
  request: request('POST /v2/auth/providers', { body }),
  copied: request('POST /v2/auth/providers', { body: withoutSecret(body) }),
  done: `The provider ${body.name} is created. People can connect.`,
})

const refOf = ({ provider_id }: Pick<Provider, 'provider_id'>) => ({ params: { provider_id } })

export const changeProvider = (provider: Provider, body: PatchBody, unavailable: Unavailable): Action => {
  const route = 'PATCH /v2/auth/providers/{provider_id}'
  const movesEndpoint = [
    [body.auth_url, provider.auth_url],
    [body.token_url, provider.token_url],
    [body.revocation_url, provider.revocation_url],
  ].some(([next, current]) => next != null && next !== current)
  const movesClient = body.client_id != null && body.client_id !== provider.client_id
  return {
    label: 'Save provider',
    request: request(route, { ...refOf(provider), body }),
    copied: request(route, { ...refOf(provider), body: withoutSecret(body) }),
    unavailable,
    done: `The provider ${provider.name} is saved.`,
    ...((movesEndpoint || movesClient) && {
      confirm: {
        title: `Disconnect everyone from ${provider.name}?`,
        body:
          `A new ${movesEndpoint ? 'endpoint' : 'client'} ends all connections in every workspace. ` +
          'Each person has to connect again. Earlier tokens are not revoked at the server.',
        isDestructive: true,
      },
    }),
  }
}

export const recheckProvider = (provider: Provider, unavailable: Unavailable): Action => ({
  label: 'Check again',
  request: request('POST /v2/auth/providers/{provider_id}/recheck', refOf(provider)),
  unavailable,
  done: `The servers of ${provider.name} were checked.`,
})

export const deleteProvider = (
  provider: Provider,
  connections: number | undefined,
  unavailable: Unavailable,
): Action => ({
  label: 'Delete provider',
  request: request('DELETE /v2/auth/providers/{provider_id}', refOf(provider)),
  command: `slipway providers delete ${provider.provider_id}`,
  unavailable,
  confirm: {
    title: `Delete the provider ${provider.name}?`,
    body:
      `${connections ? `This workspace has ${connections} connections through it. ` : ''}` +
      'The connections of all workspaces are deleted, and applications no longer get tokens. The newest 100 ' +
      'tokens are revoked at the server. Others stay valid until they expire. If you create the provider again, ' +
      'people have to reconnect.',
    isDestructive: true,
  },
  done: `The provider ${provider.name} is deleted.`,
})

export const disconnect = ({ id, user_id, provider_id }: Connection): Action => ({
  label: 'Disconnect',
  request: request('DELETE /v2/auth/tokens', { query: { token_id: id } }),
  confirm: {
    title: `Disconnect ${user_id} from ${provider_id}?`,
    body:
      'The tokens are deleted, and revoked at the server if it supports revocation. The person has to connect ' +
      'again.',
    isDestructive: true,
  },
  done: `${user_id} is disconnected from ${provider_id}.`,
})
