// How HTTP reaches custom hosts.
import { slice } from '../kernel/routes.ts'
import { CustomHost, CustomHostList, CustomHostRef } from '../protocol/custom-url.schema.ts'
import { Page } from '../protocol/wire.ts'
import { listCustomHosts, verifyCustomHost } from './custom-hosts.ts'

export const customHostRoutes = slice(
  'Custom hosts',
  'Hosts of your own for deployments. Each belongs to one workspace of the installation.',
)
  .get('/v2/custom-hosts', {
    id: 'listCustomHosts',
    summary: 'The custom hosts of this workspace, newest first',
    query: Page,
    reply: CustomHostList,
    verb: listCustomHosts,
  })
  .post('/v2/custom-hosts/{host}/verification', {
    id: 'verifyCustomHost',
    summary: 'Prove by a DNS record that a host belongs to this workspace',
    description: [
      'Looks up the TXT record `_slipway.<host>`. While the record is missing, the answer is `custom_host_unproven` and says which value the record needs.',
      'A host that another workspace claimed without proof moves to this one. A host that another workspace has proved moves only when that workspace’s record is gone.',
    ].join('\n\n'),
    params: CustomHostRef,
    reply: CustomHost,
    errors: [
      ...(['custom_host_unproven', 'custom_host_reserved', 'custom_host_taken', 'workspace_not_found'] as const),
      ...(['upstream_error', 'upstream_timeout'] as const),
    ],
    asksForeignServers: true,
    verb: verifyCustomHost,
  })
