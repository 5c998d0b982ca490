// The API keys of the workspace, and those of the whole organization.
import { useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { explainMissing } from '../../api/permissions.ts'
import { usePages } from '../../api/queries.ts'
import { useCommands, useRowKeys } from '../../commands/commands.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Chip, FilterField } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { ListCard, Toolbar } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Badge } from '../../parts/state.tsx'
import { Cell, More, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago, now } from '../../parts/time.tsx'
import { toast } from '../../parts/toasts.tsx'
import { Link, setFilters, toAddress, useFilter } from '../../router/links.tsx'
import { useRoles } from '../members/use-roles.ts'
import type { ScreenProps } from '../screen-props.ts'
import { describeOwner, endOf, isSoon, type Key, mayManageOrganizationKeys } from './actions.ts'
import { Expiry } from './expiry.tsx'
import { KeysFrame } from './frame.tsx'

const NEW = '/keys/new'
/** A request with a key has no event. */
const READ_EVERY_MS = 60_000

export default function KeyList({ workspace, me }: ScreenProps) {
  const [name, setName] = useFilter('name')
  const [of, setOf] = useFilter('of')
  const [view, setView] = useFilter('view')
  const [, navigate] = useLocation()
  const mayManageAll = mayManageOrganizationKeys(me)
  const isOrganization = of === 'organization' && mayManageAll
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = usePages(
    workspace,
    isOrganization ? 'GET /orgs/current/api-keys' : 'GET /workspaces/current/api-keys',
    { query: { limit: 100 } },
    { everyMs: READ_EVERY_MS },
  )
  const roles = useRoles(workspace)
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'key')
  const missing = explainMissing(me, workspace, 'api-keys:create')
  const mayCreate = !missing || mayManageAll
  const create = () => navigate(toAddress(NEW))
  useCommands(mayCreate ? [{ id: 'new', label: 'Create a key', kind: 'action', keys: 'n', run: create }] : [])
  const wanted = name.toLowerCase()
  const shown = items?.filter(
    key =>
      `${key.description} ${key.hint} ${key.member?.email ?? ''}`.toLowerCase().includes(wanted) &&
      (view !== 'unused' || key.last_used_at === null) &&
      (view !== 'ending' || isSoon(endOf(key), now.value)),
  )
  const toggle = (name: string) => setView(view === name ? '' : name)
  return (
    <KeysFrame
      tab=""
      actions={
        mayCreate ? (
          <ButtonLink href={toAddress(NEW)} look="primary" icon="plus" hint="N">
            Create key
          </ButtonLink>
        ) : (
          <Button
            icon="plus"
            unavailable
            title={missing}
            onClick={() => toast('bad', 'You cannot create keys', missing)}
          >
            Create key
          </Button>
        )
      }
    >
      <Toolbar
        views={
          <>
            {mayManageAll && (
              <Chip pressed={isOrganization} onPress={() => setOf(isOrganization ? '' : 'organization')}>
                All of {me.organization.display_name}
              </Chip>
            )}
            <Chip pressed={view === 'unused'} onPress={() => toggle('unused')}>
              Never used
            </Chip>
            <Chip pressed={view === 'ending'} onPress={() => toggle('ending')}>
              Ending soon
            </Chip>
          </>
        }
      >
        <FilterField
          label="Filter keys by description, hint or member"
          placeholder="Filter by description, hint or member"
          value={name}
          onChange={setName}
          aside={items && shown && `${shown.length} of ${items.length}${hasNextPage ? '+' : ''}`}
          hint="/"
        />
      </Toolbar>
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      <ListCard>
        {!items && !error && <Skeleton lines={5} />}
        {items?.length === 0 && (
          <Empty title="No keys of this workspace" command="slipway keys create ci --role Editor --expires-in 90d">
            A program needs a key to use the API: a pipeline, an agent, the command line. People sign in without one.
          </Empty>
        )}
        {items && items.length > 0 && shown?.length === 0 && (
          <Empty
            title="No key matches"
            action={<Button onClick={() => setFilters({ name: '', view: '' })}>Show all keys</Button>}
          >
            The filter is in the address, so a link to it shows the same.
          </Empty>
        )}
        {shown && shown.length > 0 && (
          <Table
            caption="API keys, newest first"
            tableRef={table}
            columns={[
              { label: 'Key', width: '42%' },
              { label: 'Role' },
              { label: 'Expires', width: '112' },
              { label: 'Last used', width: '104', isEnd: true },
            ]}
          >
            {shown.map(key => (
              <Row key={key.id}>
                <Cell
                  icon={<Icon name="key" />}
                  detail={
                    <>
                      <code>{key.hint}</code> {describePlace(key, me)}
                    </>
                  }
                >
                  <Link to={`/keys/${key.id}`} data-row class={rowLink}>
                    {key.description}
                  </Link>{' '}
                  {key.id === me.api_key?.id && <Badge tone="idle">This session</Badge>}
                </Cell>
                <Cell detail={describeExtent(key)}>{roles.nameOf(key.role_id)}</Cell>
                <Cell isWideOnly={!isSoon(endOf(key), now.value)}>
                  <Expiry time={endOf(key)} />
                </Cell>
                <Cell isEnd>{key.last_used_at ? <Ago time={key.last_used_at} /> : 'never'}</Cell>
              </Row>
            ))}
          </Table>
        )}
      </ListCard>
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </KeysFrame>
  )
}

const describeExtent = ({ permissions }: Key): string => {
  if (!permissions) return 'All of the role'
  return permissions.length === 1 ? 'Limited to one permission' : `Limited to ${permissions.length} permissions`
}

function describePlace(key: Key, me: ScreenProps['me']): string {
  const workspace = me.workspaces.find(({ id }) => id === key.tenant_id)
  return key.member || key.listener_id || !workspace ? describeOwner(key) : `Of ${workspace.display_name}`
}
