// How HTTP reaches git hosts of a workspace.

import { statusOf } from '../kernel/codes.ts'
import { pageHeaders, readSingleParameter } from '../kernel/html-page.ts'
import { requestOrigin } from '../kernel/origin.ts'
import { type Operation, slice } from '../kernel/routes.ts'
import { beginInstall, completeInstall, type SetupParameters } from './install.ts'
import { setupPage } from './install-page.ts'
import { listRepositories } from './repositories.ts'
import { HOST_ERRORS } from './request.ts'
import * as s from './schema.ts'
import * as integrations from './service.ts'

const handleSetup: Operation['open'] = async (c, services) => {
  const headers = await pageHeaders()
  // Whoever only looks at where an address leads has not come back.
  if (c.req.method === 'HEAD') return c.body(null, 200, headers)
  const url = new URL(c.req.url)
  const answer: SetupParameters = {}
  for (const name of ['installation_id', 'setup_action', 'state', 'code'] as const) {
    const value = readSingleParameter(url.searchParams, name)
    if (value !== undefined) answer[name] = value
  }
  const origin = requestOrigin(services.config, c.req.url)
  const arrival = await completeInstall(services, c.get('requestId'), origin, answer)
  if (arrival.failure) c.get('requestInfo').code = arrival.failure
  const status = arrival.failure === null ? 200 : statusOf(arrival.failure)
  return c.body(setupPage(arrival), status as 200, headers)
}

const BASE_PATH = '/v1/integrations/forge/githost'

export const integrationRoutes = slice('Git hosts', 'Where the repositories of a workspace’s deployments are.')
  .post(`${BASE_PATH}/install`, {
    id: 'beginInstall',
    summary: 'Where a person installs this installation’s own GitHub App',
    description:
      'The person comes back to a page of ours, and the App’s installation is then an integration of this workspace.',
    body: s.InstallWish,
    reply: s.Install,
    errors: ['githost_app_missing', 'workspace_not_found'],
    verb: beginInstall,
  })
  .get(`${BASE_PATH}/setup`, {
    id: 'setUpInstallation',
    summary: 'Where GitHub sends people back to: a page that says what happened',
    description: [
      'It is the App’s callback URL, and the App requests user authorization during installation.',
      'The `state` of the address stands in for a key and works once, for an hour. The `code` proves whose the installation is: GitHub has to list it for that person, who may see no less of it than the App does.',
    ].join('\n\n'),
    pageMediaType: 'text/html',
    errors: [
      ...(['state_invalid', 'installation_requested', 'installation_unproven', 'integration_taken'] as const),
      ...(['integration_claimed', 'integration_suspended', 'integration_revoked', 'database_unavailable'] as const),
      ...HOST_ERRORS,
    ],
    open: handleSetup,
  })
  .get(`${BASE_PATH}/install`, {
    id: 'listIntegrations',
    summary: 'The git hosts that this workspace is connected to, newest first',
    reply: s.Integrations,
    verb: integrations.listIntegrations,
  })
  .post(BASE_PATH, {
    id: 'connectIntegration',
    summary: 'Connect a git host with credentials: an installation of your own GitHub App, or an account of a Gitea',
    description:
      'The credentials prove themselves at the host, which is asked. Let the host send its events to the `webhook_url` of the answer, as JSON, signed with the `webhook_secret`.',
    body: s.NewIntegration,
    status: 201,
    reply: s.Integration,
    location: ({ id }) => `${BASE_PATH}/${id}`,
    errors: ['integration_taken', 'integration_claimed', 'workspace_not_found', ...HOST_ERRORS],
    asksForeignServers: true,
    verb: integrations.connectIntegration,
  })
  .get(`${BASE_PATH}/{integration_id}`, {
    id: 'readIntegration',
    summary: 'One git host that this workspace is connected to',
    params: s.IntegrationRef,
    reply: s.Integration,
    errors: ['integration_not_found'],
    versioned: true,
    verb: integrations.readIntegration,
  })
  .delete(`${BASE_PATH}/{integration_id}`, {
    id: 'deleteIntegration',
    summary: 'Part from a git host',
    description:
      'The credentials are forgotten. Deployments that come through it serve on; pushes reach them no more, and their `explain` says so. The App stays installed until it is removed at the host.',
    params: s.IntegrationRef,
    errors: ['integration_not_found'],
    versioned: true,
    verb: integrations.deleteIntegration,
  })
  .post(`${BASE_PATH}/{integration_id}/recheck`, {
    id: 'recheckIntegration',
    summary: 'Ask the git host how the integration is, and tell it',
    description: 'Events of the host keep the state true; this is for when one was lost.',
    params: s.IntegrationRef,
    reply: s.Integration,
    errors: [
      'integration_not_found',
      'integration_taken',
      'integration_claimed',
      'githost_app_missing',
      ...HOST_ERRORS,
    ],
    asksForeignServers: true,
    verb: integrations.recheckIntegration,
  })
  .get(`${BASE_PATH}/{integration_id}/repos`, {
    id: 'listRepositories',
    summary: 'The repositories that the integration reaches, by owner and name',
    description:
      'As the host lists them, at most a minute old, and at most ten thousand. An error of the host says which it is and, in `Retry-After`, when to ask again.',
    params: s.IntegrationRef,
    query: s.RepositoryQuery,
    reply: s.Repositories,
    errors: [
      ...(['integration_not_found', 'integration_suspended', 'integration_revoked', 'githost_app_missing'] as const),
      ...HOST_ERRORS,
    ],
    asksForeignServers: true,
    verb: listRepositories,
  })
