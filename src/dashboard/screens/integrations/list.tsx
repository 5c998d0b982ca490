// The git hosts that the workspace is connected to.
import { useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { explainMissing } from '../../api/permissions.ts'
import { useRead } from '../../api/queries.ts'
import { useCommands, useRowKeys } from '../../commands/commands.ts'
import { hostOf } from '../../format/source.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Chip, FilterField } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { CreateLink, ListCard, PageHead, Toolbar } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, setFilters, toAddress, useFilter } from '../../router/links.tsx'
import { useDeploymentsWhere } from '../deployments-where.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { HOST_NAMES, stateOfIntegration } from './integration-state.ts'

const NEW = '/integrations/new'
const COMMAND = 'slipway api POST /v1/integrations/forge/githost --input git-host.json'

export default function IntegrationList({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Git hosts' })
  const [name, setName] = useFilter('name')
  const [view, setView] = useFilter('view')
  const [, navigate] = useLocation()
  const { data: all, error, refetch } = useRead(workspace, 'GET /v1/integrations/forge/githost/install', {})
  const { deployments } = useDeploymentsWhere(workspace, { source: 'githost' })
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'git host')
  const missing = explainMissing(me, workspace, 'integrations:manage')
  useCommands(
    missing
      ? []
      : [{ id: 'new', label: 'Connect a git host', kind: 'action', keys: 'n', run: () => navigate(toAddress(NEW)) }],
  )
  const words = name.toLowerCase()
  const shown = all?.filter(
    one =>
      [one.name, one.base_url, one.host].some(text => text.toLowerCase().includes(words)) &&
      (view === '' || one.state !== 'active'),
  )
  return (
    <>
      <PageHead
        title="Git hosts"
        actions={
          <CreateLink href={toAddress(NEW)} missing={missing}>
            Connect git host
          </CreateLink>
        }
      />
      <Toolbar
        views={
          <>
            <Chip pressed={view === ''} onPress={() => setView('')}>
              All
            </Chip>
            <Chip pressed={view === 'attention'} onPress={() => setView('attention')}>
              Needs attention
            </Chip>
          </>
        }
      >
        <FilterField
          label="Filter git hosts by account or address"
          placeholder="Filter by account or address"
          value={name}
          onChange={setName}
          aside={all && all.length > 0 && shown && `${shown.length} of ${all.length}`}
          hint="/"
        />
      </Toolbar>
      {error && !all && <Problem error={error} onRetry={() => void refetch()} />}
      <ListCard>
        {!all && !error && <Skeleton lines={4} />}
        {all?.length === 0 && (
          <Empty
            title="No git host is connected"
            command={COMMAND}
            action={!missing && <ButtonLink href={toAddress(NEW)}>Connect a git host</ButtonLink>}
          >
            Connect an account of GitHub, Gitea or Forgejo. Deployments then build its repositories, every push can
            deploy, and pull requests get previews.
          </Empty>
        )}
        {all && all.length > 0 && shown?.length === 0 && (
          <Empty
            title="No git host matches"
            action={<Button onClick={() => setFilters({ name: '', view: '' })}>Show all git hosts</Button>}
          >
            The filter is in the address, so a link to it shows the same.
          </Empty>
        )}
        {shown && shown.length > 0 && (
          <Table
            caption="Git hosts, newest first"
            tableRef={table}
            columns={[
              { label: 'Account', width: '32%' },
              { label: 'State', width: '26%' },
              { label: 'Deployments' },
              { label: 'Connected', width: '104', isEnd: true },
            ]}
          >
            {shown.map(one => {
              const count = deployments?.filter(({ source_config }) => source_config.integration_id === one.id).length
              return (
                <Row key={one.id}>
                  <Cell icon={<Icon name="branch" />} detail={`${HOST_NAMES[one.host]}, ${hostOf(one.base_url)}`}>
                    <Link to={`/integrations/${one.id}`} data-row class={rowLink}>
                      {one.name}
                    </Link>
                  </Cell>
                  <Cell>
                    <StateLabel state={stateOfIntegration(one)} />
                  </Cell>
                  <Cell isWideOnly>{count === undefined ? '…' : count === 0 ? 'None' : count}</Cell>
                  <Cell isEnd>
                    <Ago time={one.created_at} />
                  </Cell>
                </Row>
              )
            })}
          </Table>
        )}
      </ListCard>
    </>
  )
}
