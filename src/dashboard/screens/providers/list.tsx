// The OAuth providers of the organization: servers where people connect their accounts.
import { useLocation } from 'wouter-preact'
import { useReadList } from '../../api/offset-pages.ts'
import { explainMissing } from '../../api/permissions.ts'
import { useReadEach } from '../../api/read-each.ts'
import { useCommands } from '../../commands/commands.ts'
import { hostOf } from '../../format/source.ts'
import { ButtonLink } from '../../parts/button.tsx'
import { Icon } from '../../parts/icon.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { toAddress } from '../../router/links.tsx'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { isUnchecked, stateOfProvider } from './discovery-steps.ts'

export const NEW_BY_DISCOVERY = '/providers/new/discovery'
export const NEW_BY_HAND = '/providers/new/by-hand'

export default function ProviderList({ workspace, me }: ScreenProps) {
  const [, navigate] = useLocation()
  const query = useReadList(workspace, 'GET /v2/auth/providers', {})
  // The list has no health: it is read for each.
  const details = useReadEach(
    workspace,
    'GET /v2/auth/providers/{provider_id}',
    (query.items ?? []).map(({ provider_id }) => ({ params: { provider_id } })),
  )
  const healthOf = (id: string) => details.data?.find(one => one.id === id)
  const unavailable = explainMissing(me, workspace, 'deployments:create')
  useCommands(
    unavailable
      ? []
      : [
          {
            id: 'new-by-hand',
            label: 'Create provider by hand',
            kind: 'action',
            run: () => navigate(toAddress(NEW_BY_HAND)),
          },
        ],
  )
  return (
    <ResourceList
      title="Providers"
      thing="provider"
      caption="OAuth providers, newest first"
      query={query}
      reads={[details]}
      create={{ label: 'Discover provider', to: NEW_BY_DISCOVERY, unavailable }}
      actions={!unavailable && <ButtonLink href={toAddress(NEW_BY_HAND)}>Create by hand</ButtonLink>}
      filter={{
        by: 'name or address',
        texts: one => [one.name, one.provider_id, one.mcp_server_url],
      }}
      views={[
        {
          name: 'attention',
          label: 'Needs attention',
          has: ({ id }) => (healthOf(id)?.health ?? 'healthy') !== 'healthy',
        },
      ]}
      empty={{
        title: 'No OAuth providers yet',
        command: 'slipway providers discover https://mcp.example.com/mcp',
        text:
          'People connect their accounts at a provider, and applications get tokens for them. Slipway discovers the ' +
          'settings from the address of an MCP server.',
      }}
      columns={[
        {
          label: 'Provider',
          width: '30%',
          icon: () => <Icon name="plug" />,
          to: ({ provider_id }) => `/providers/${provider_id}`,
          name: one => one.name,
          detail: ({ provider_id }) => <code>{provider_id}</code>,
        },
        {
          label: 'Health',
          width: '28%',
          cell: ({ id }) => {
            const known = healthOf(id)
            return known ? <StateLabel state={stateOfProvider(known)} /> : '…'
          },
          detail: ({ id }) => {
            const known = healthOf(id)
            return (
              known &&
              !isUnchecked(known) && (
                <>
                  Checked <Ago time={known.checked_at} suffix=" ago" />
                </>
              )
            )
          },
        },
        {
          label: 'Server',
          isWideOnly: true,
          cell: ({ mcp_server_url, auth_url }) => (
            <span title={mcp_server_url ?? auth_url}>{mcp_server_url ?? auth_url}</span>
          ),
          detail: ({ mcp_server_url, auth_url }) =>
            mcp_server_url ? `Discovered, signs in at ${hostOf(auth_url)}` : 'Created by hand',
        },
        { label: 'Created', width: '96', isEnd: true, cell: ({ created_at }) => <Ago time={created_at} /> },
      ]}
    />
  )
}
