// Routes of custom hosts.
import { slice } from '../../kernel/http/routes.ts'
import { CustomHost, CustomHostList, CustomHostRef } from '../../protocol/custom-url.schema.ts'
import { Page } from '../../protocol/wire.ts'
import { listCustomHosts, verifyCustomHost } from './custom-hosts.ts'

export const customHostRoutes = slice(
  'Custom hosts',
  'Your own hosts for deployments. Each belongs to one workspace of the installation.',
)
  .get('/v2/custom-hosts', {
    id: 'listCustomHosts',
    summary: 'List the custom hosts of this workspace, newest first',
    description:
      'Hosts of the `custom_url` of a deployment, and hosts that were verified before. Each has the TXT record that ' +
      'proves it, and says whether agents serve it.',
    query: Page,
    reply: CustomHostList,
    verb: listCustomHosts,
  })
  .post('/v2/custom-hosts/{host}/verification', {
    id: 'verifyCustomHost',
    summary: 'Verify by a DNS record that a host belongs to this workspace',
    description: [
      'Looks up the TXT record `_slipway.<host>`.',
      'While the record is missing, the answer is `custom_host_unproven` and says which value the record needs.',
      '\n\nA host that another workspace claimed without proof moves to this workspace.',
      'A host that another workspace has proved moves only when that workspace’s record is gone.',
    ].join(' '),
    params: CustomHostRef,
    reply: CustomHost,
    errors: [
      'custom_host_unproven',
      'custom_host_reserved',
      'custom_host_taken',
      'workspace_not_found',
      'upstream_error',
      'upstream_timeout',
    ] as const,
    callsExternalServers: true,
    verb: verifyCustomHost,
  })
