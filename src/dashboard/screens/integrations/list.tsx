// The git hosts that the workspace is connected to.
import { useReadList } from '../../api/offset-pages.ts'
import { explainMissing } from '../../api/permissions.ts'
import { hostOf } from '../../format/source.ts'
import { Icon } from '../../parts/icon.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useDeploymentsWhere } from '../deployments-where.tsx'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { HOST_NAMES, stateOfIntegration } from './integration-state.ts'

export default function IntegrationList({ workspace, me }: ScreenProps) {
  const { deployments, read } = useDeploymentsWhere(workspace, { source: 'githost' })
  return (
    <ResourceList
      title="Git hosts"
      thing="git host"
      caption="Git hosts, newest first"
      query={useReadList(workspace, 'GET /v1/integrations/forge/githost/install', {})}
      reads={[read]}
      create={{
        label: 'Connect git host',
        to: '/integrations/new',
        unavailable: explainMissing(me, workspace, 'integrations:manage'),
      }}
      filter={{ by: 'account or address', texts: one => [one.name, one.base_url, one.host] }}
      views={[{ name: 'attention', label: 'Needs attention', has: ({ state }) => state !== 'active' }]}
      empty={{
        title: 'No git host is connected',
        command: 'slipway api POST /v1/integrations/forge/githost --input git-host.json',
        text:
          'Connect an account of GitHub, GitLab, Gitea or Forgejo, or any git server. Deployments then build its repositories, every push can ' +
          'deploy, and pull requests get previews.',
      }}
      columns={[
        {
          label: 'Account',
          width: '32%',
          icon: () => <Icon name="branch" />,
          to: ({ id }) => `/integrations/${id}`,
          name: one => one.name,
          detail: ({ host, base_url }) => `${HOST_NAMES[host]}, ${hostOf(base_url)}`,
        },
        { label: 'State', width: '26%', cell: one => <StateLabel state={stateOfIntegration(one)} /> },
        {
          label: 'Deployments',
          isWideOnly: true,
          cell: ({ id }) =>
            deployments ? deployments.filter(one => one.source_config.integration_id === id).length || 'None' : '…',
        },
        { label: 'Connected', width: '104', isEnd: true, cell: ({ created_at }) => <Ago time={created_at} /> },
      ]}
    />
  )
}
