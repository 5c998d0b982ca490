// Routes of git host integrations.
import { readOpenRequest } from '../../kernel/http/caller.ts'
import { statusOf } from '../../kernel/http/codes.ts'
import { type OpenOperation, slice } from '../../kernel/http/routes.ts'
import { pageHeaders, readSingleParameter } from '../../kernel/pages/html-page.ts'
import { beginInstall, completeInstall, type SetupParameters } from './install.ts'
import { setupPage } from './install-page.ts'
import { listRepositories } from './repositories.ts'
import { HOST_ERRORS } from './request.ts'
import * as s from './schema.ts'
import * as integrations from './service.ts'

const handleSetup: OpenOperation['open'] = async (c, services, operation) => {
  const headers = await pageHeaders()
  // A link preview sends HEAD. It must not use up the state.
  if (c.req.method === 'HEAD') return c.body(null, 200, headers)
  const url = new URL(c.req.url)
  const answer: SetupParameters = {}
  for (const name of ['installation_id', 'setup_action', 'state', 'code'] as const) {
    const value = readSingleParameter(url.searchParams, name)
    if (value !== undefined) answer[name] = value
  }
  const arrival = await completeInstall(services, readOpenRequest(c, operation, services), answer)
  if (arrival.failure) c.get('requestInfo').code = arrival.failure
  const status = arrival.failure === null ? 200 : statusOf(arrival.failure)
  return c.body(setupPage(arrival), status as 200, headers)
}

const BASE_PATH = '/v1/integrations/forge/githost'

export const integrationRoutes = slice('Git hosts', 'Connections of a workspace to GitHub, Gitea and Forgejo.')
  .post(`${BASE_PATH}/install`, {
    id: 'startInstallation',
    summary: 'Start installing the operator’s GitHub App',
    description:
      'Returns a URL for a person. After they install the App, the installation is an integration of this workspace.',
    body: s.InstallInput,
    reply: s.Install,
    errors: ['githost_app_missing', 'workspace_not_found'],
    verb: beginInstall,
  })
  .get(`${BASE_PATH}/setup`, {
    id: 'finishInstallation',
    summary: 'Finish installing the GitHub App: the page to which GitHub sends people back',
    description: [
      'Set this as the callback URL of the App, and let the App request user authorization during installation.',
      '`state` authenticates the request. It works once, within an hour.',
      '`code` proves ownership: the person must see the installation and all its repositories at GitHub.',
    ].join(' '),
    pageMediaType: 'text/html',
    errors: [
      ...(['state_invalid', 'installation_requested', 'installation_unproven', 'integration_taken'] as const),
      ...(['integration_claimed', 'integration_suspended', 'integration_revoked'] as const),
      ...(['address_rate_limited', 'database_unavailable'] as const),
      ...HOST_ERRORS,
    ],
    open: handleSetup,
  })
  .get(`${BASE_PATH}/install`, {
    id: 'listIntegrations',
    toleratesUnknown: true,
    summary: 'List the git hosts of the workspace, newest first',
    description:
      'All of them in one answer. Each has its state at the host, and the id that `source_config.integration_id` of ' +
      'a deployment takes. Credentials are never shown.',
    reply: s.Integrations,
    verb: integrations.listIntegrations,
  })
  .post(BASE_PATH, {
    id: 'connectIntegration',
    summary: 'Connect your own GitHub App, or an account at another host by its token',
    description: [
      'The credentials are checked at the host.',
      'With a token, the webhook of each repository is made when a deployment follows it. For your own App,',
      'configure its webhook: JSON to the `webhook_url` of the answer, signed with `webhook_secret`.',
    ].join(' '),
    body: s.NewIntegration,
    status: 201,
    reply: s.Integration,
    location: ({ id }) => `${BASE_PATH}/${id}`,
    errors: ['integration_taken', 'integration_claimed', 'workspace_not_found', ...HOST_ERRORS],
    callsExternalServers: true,
    verb: integrations.connectIntegration,
  })
  .get(`${BASE_PATH}/{integration_id}`, {
    id: 'readIntegration',
    summary: 'Read a git host integration',
    description:
      '`suspended` and `revoked` mean that the host no longer accepts it: its deployments get no pushes. Credentials ' +
      'are never shown.',
    params: s.IntegrationRef,
    reply: s.Integration,
    errors: ['integration_not_found'],
    versioned: true,
    verb: integrations.readIntegration,
  })
  .patch(`${BASE_PATH}/{integration_id}`, {
    id: 'updateIntegration',
    summary: 'Replace the token or the private key of an integration',
    description: [
      'The new credential is checked at the host, and must be of the same account or App.',
      'Then it takes the place of the old one at once: pushes and builds go on.',
    ].join(' '),
    params: s.IntegrationRef,
    body: s.IntegrationPatch,
    reply: s.Integration,
    errors: ['integration_not_found', 'integration_other_account', 'integration_taken', ...HOST_ERRORS],
    callsExternalServers: true,
    versioned: true,
    verb: integrations.updateIntegration,
  })
  .delete(`${BASE_PATH}/{integration_id}`, {
    id: 'deleteIntegration',
    summary: 'Disconnect a git host',
    description: [
      'Deletes the credentials, and the webhooks that Slipway made.',
      'Deployments that use the integration keep serving, but pushes no longer reach them.',
      'Their `explain` says so. The App stays installed at the host until you remove it there.',
    ].join(' '),
    params: s.IntegrationRef,
    errors: ['integration_not_found'],
    versioned: true,
    verb: integrations.deleteIntegration,
  })
  .post(`${BASE_PATH}/{integration_id}/recheck`, {
    id: 'recheckIntegration',
    summary: 'Update the state of an integration from its git host',
    description: 'Webhooks keep the state up to date. Use this if one was lost.',
    params: s.IntegrationRef,
    reply: s.Integration,
    errors: [
      'integration_not_found',
      'integration_taken',
      'integration_claimed',
      'githost_app_missing',
      ...HOST_ERRORS,
    ],
    callsExternalServers: true,
    verb: integrations.recheckIntegration,
  })
  .get(`${BASE_PATH}/{integration_id}/repos`, {
    id: 'listRepositories',
    toleratesUnknown: true,
    summary: 'List the repositories of an integration, by owner and name',
    description: 'At most a minute old, and at most 10,000. If the host fails, `Retry-After` says when to retry.',
    params: s.IntegrationRef,
    query: s.RepositoryQuery,
    reply: s.Repositories,
    errors: [
      ...(['integration_not_found', 'integration_suspended', 'integration_revoked', 'githost_app_missing'] as const),
      ...HOST_ERRORS,
    ],
    callsExternalServers: true,
    verb: listRepositories,
  })
