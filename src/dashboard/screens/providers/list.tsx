// The OAuth providers of the organization: servers where people connect their accounts.
import { useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { explainMissing } from '../../api/permissions.ts'
import { useRead } from '../../api/queries.ts'
import { useReadEach } from '../../api/read-each.ts'
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
import type { ScreenProps } from '../screen-props.ts'
import { isUnchecked, stateOfProvider } from './discovery-steps.ts'

export const NEW_BY_DISCOVERY = '/providers/new/discovery'
export const NEW_BY_HAND = '/providers/new/by-hand'
const COMMAND = 'slipway providers discover https://mcp.example.com/mcp'

export default function ProviderList({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Providers' })
  const [name, setName] = useFilter('name')
  const [view, setView] = useFilter('view')
  const [, navigate] = useLocation()
  const { data: all, error, refetch } = useRead(workspace, 'GET /v2/auth/providers', {})
  // The list has no health: it is read for each.
  const { data: details } = useReadEach(
    workspace,
    'GET /v2/auth/providers/{provider_id}',
    (all ?? []).map(({ provider_id }) => ({ params: { provider_id } })),
  )
  const healthOf = (id: string) => details?.find(one => one.id === id)
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'provider')
  const missing = explainMissing(me, workspace, 'deployments:create')
  const discover = () => navigate(toAddress(NEW_BY_DISCOVERY))
  useCommands(
    missing
      ? []
      : [
          { id: 'new', label: 'Discover a provider', kind: 'action', keys: 'n', run: discover },
          {
            id: 'new-by-hand',
            label: 'Create a provider by hand',
            kind: 'action',
            run: () => navigate(toAddress(NEW_BY_HAND)),
          },
        ],
  )
  const words = name.toLowerCase()
  const shown = all?.filter(
    one =>
      [one.name, one.provider_id, one.mcp_server_url ?? ''].some(text => text.toLowerCase().includes(words)) &&
      (view === '' || (healthOf(one.id)?.health ?? 'healthy') !== 'healthy'),
  )
  return (
    <>
      <PageHead
        title="Providers"
        actions={
          <>
            {!missing && <ButtonLink href={toAddress(NEW_BY_HAND)}>Create by hand</ButtonLink>}
            <CreateLink href={toAddress(NEW_BY_DISCOVERY)} missing={missing}>
              Discover provider
            </CreateLink>
          </>
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
          label="Filter providers by name or address"
          placeholder="Filter by name or address"
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
            title="No OAuth providers yet"
            command={COMMAND}
            action={!missing && <ButtonLink href={toAddress(NEW_BY_DISCOVERY)}>Discover a provider</ButtonLink>}
          >
            A provider is a server where people connect their accounts, so that applications get tokens for them. Its
            settings are discovered from the address of an MCP server.
          </Empty>
        )}
        {all && all.length > 0 && shown?.length === 0 && (
          <Empty
            title="No provider matches"
            action={<Button onClick={() => setFilters({ name: '', view: '' })}>Show all providers</Button>}
          >
            The filter is in the address, so a link to it shows the same.
          </Empty>
        )}
        {shown && shown.length > 0 && (
          <Table
            caption="OAuth providers, newest first"
            tableRef={table}
            columns={[
              { label: 'Provider', width: '30%' },
              { label: 'Health', width: '28%' },
              { label: 'Server' },
              { label: 'Created', width: '96', isEnd: true },
            ]}
          >
            {shown.map(one => {
              const known = healthOf(one.id)
              return (
                <Row key={one.id}>
                  <Cell icon={<Icon name="plug" />} detail={<code>{one.provider_id}</code>}>
                    <Link to={`/providers/${one.provider_id}`} data-row class={rowLink}>
                      {one.name}
                    </Link>
                  </Cell>
                  <Cell
                    detail={
                      known && !isUnchecked(known) && <>Checked {<Ago time={known.checked_at} suffix=" ago" />}</>
                    }
                  >
                    {known ? <StateLabel state={stateOfProvider(known)} /> : '…'}
                  </Cell>
                  <Cell
                    isWideOnly
                    detail={one.mcp_server_url ? `Discovered, signs in at ${hostOf(one.auth_url)}` : 'Made by hand'}
                  >
                    <span title={one.mcp_server_url ?? one.auth_url}>{one.mcp_server_url ?? one.auth_url}</span>
                  </Cell>
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
