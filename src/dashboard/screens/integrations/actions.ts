// Actions on a git host, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { CallOptions } from '../../api/client.ts'
import type { Integration } from './integration-state.ts'

export type ConnectBody = CallOptions<'POST /v1/integrations/forge/githost'>['body']
type Unavailable = string | undefined

const refOf = ({ id }: Integration) => ({ params: { integration_id: id } })

export const startInstall = (installation_id: string, unavailable: Unavailable): Action => ({
  label: 'Get installation URL',
  request: request('POST /v1/integrations/forge/githost/install', {
    body: installation_id ? { installation_id } : {},
  }),
  unavailable,
  done: 'The installation URL is ready. It can be used once, within one hour.',
})

export const connect = (body: ConnectBody, unavailable: Unavailable): Action => {
  const route = 'POST /v1/integrations/forge/githost'
  const hidden = {
    ...body,
    webhook_secret: 'YOUR-WEBHOOK-SECRET',
    ...(body.token && { token: 'YOUR-TOKEN' }),
    ...(body.private_key && { private_key: 'YOUR-PRIVATE-KEY' }),
  }
  return {
    label: 'Connect git host',
    request: request(route, { body }),
    copied: request(route, { body: hidden }),
    unavailable,
    done: 'The git host is connected.',
  }
}

export const replaceCredential = (integration: Integration, credential: string, unavailable: Unavailable): Action => {
  const route = 'PATCH /v1/integrations/forge/githost/{integration_id}'
  const isToken = integration.host !== 'github'
  const ref = refOf(integration)
  return {
    label: isToken ? 'Replace token' : 'Replace private key',
    request: request(route, { ...ref, body: isToken ? { token: credential.trim() } : { private_key: credential } }),
    copied: request(route, { ...ref, body: isToken ? { token: 'YOUR-TOKEN' } : { private_key: 'YOUR-PRIVATE-KEY' } }),
    unavailable,
    done: `${integration.name} is connected again. Nothing else has to change.`,
  }
}

const CHANGE = 'PATCH /v1/integrations/forge/githost/{integration_id}'

export const newDeployKey = (integration: Integration, unavailable: Unavailable): Action => ({
  label: 'Make a new deploy key',
  request: request(CHANGE, { ...refOf(integration), body: { new_deploy_key: true } }),
  unavailable,
  done: 'Add the new key at the host. The old one stays in use until then.',
})

export const acceptHostKey = (integration: Integration, fingerprint: string, unavailable: Unavailable): Action => ({
  label: 'Accept host key',
  request: request(CHANGE, { ...refOf(integration), body: { accept_host_key: fingerprint } }),
  unavailable,
  confirm: {
    title: 'Accept this host key?',
    body: `Compare ${fingerprint} with what the operator of the host says. Somebody else could answer in its place.`,
    isDestructive: true,
  },
  done: 'The host key is accepted. An agent looks at the repository again.',
})

export const recheck = (integration: Integration, unavailable: Unavailable): Action => ({
  label: 'Check again',
  request: request('POST /v1/integrations/forge/githost/{integration_id}/recheck', refOf(integration)),
  unavailable,
  done: `The state of ${integration.name} is up to date.`,
})

const describeUse = (deployments: number | undefined): string => {
  if (!deployments) return ''
  return `${deployments} ${deployments === 1 ? 'deployment builds' : 'deployments build'} from it. `
}

export const disconnect = (
  integration: Integration,
  deployments: number | undefined,
  unavailable: Unavailable,
): Action => ({
  label: 'Disconnect git host',
  request: request('DELETE /v1/integrations/forge/githost/{integration_id}', refOf(integration)),
  unavailable,
  confirm: {
    title: `Disconnect ${integration.name}?`,
    body:
      describeUse(deployments) +
      'Serving revisions keep serving, but pushes and pull requests no longer deploy. The stored credentials ' +
      'are deleted and cannot be restored. ' +
      (integration.host === 'github'
        ? 'The App stays installed at GitHub until you remove it there.'
        : integration.ssh
          ? 'The deploy key stays at the host until you remove it there.'
          : 'The token stays valid at the host until you revoke it there.'),
    isDestructive: true,
  },
  done: `${integration.name} is disconnected.`,
})
