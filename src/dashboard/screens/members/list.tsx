// The people of the workspace, and those of the organization.
import { useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { explainMissing } from '../../api/permissions.ts'
import { usePages } from '../../api/queries.ts'
import { useCommands, useRowKeys } from '../../commands/commands.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Chip, FilterField } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { ListCard, PageHead, Toolbar } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Badge } from '../../parts/state.tsx'
import { Cell, More, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { toast } from '../../parts/toasts.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, setFilters, toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { nameOf } from './actions.ts'
import { useRoles } from './use-roles.ts'

const NEW = '/members/new'
/** A request of somebody else has no event. */
const READ_EVERY_MS = 60_000

export default function MemberList({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Members' })
  const [name, setName] = useFilter('name')
  const [of, setOf] = useFilter('of')
  const [, navigate] = useLocation()
  const isOrganization = of === 'organization'
  const query = { query: { limit: 100 } }
  const here = usePages(workspace, 'GET /workspaces/current/members', query, {
    enabled: !isOrganization,
    everyMs: READ_EVERY_MS,
  })
  const all = usePages(workspace, 'GET /orgs/current/members', query, {
    enabled: isOrganization,
    everyMs: READ_EVERY_MS,
  })
  const { error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = isOrganization ? all : here
  const people = isOrganization
    ? all.items?.map(one => ({ ...one, member_id: one.id }))
    : here.items?.map(({ id: _, ...one }) => one)
  const roles = useRoles(workspace)
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'member')
  const missing = explainMissing(me, workspace, 'workspaces:manage-members')
  useCommands(
    missing
      ? []
      : [{ id: 'new', label: 'Invite a member', kind: 'action', keys: 'n', run: () => navigate(toAddress(NEW)) }],
  )
  const wanted = name.toLowerCase()
  const shown = people?.filter(one => `${one.full_name ?? ''} ${one.email}`.toLowerCase().includes(wanted))
  return (
    <>
      <PageHead
        title="Members"
        actions={
          missing ? (
            <Button icon="plus" unavailable title={missing} onClick={() => toast('bad', 'You cannot invite', missing)}>
              Invite member
            </Button>
          ) : (
            <ButtonLink href={toAddress(NEW)} look="primary" icon="plus" hint="N">
              Invite member
            </ButtonLink>
          )
        }
      />
      <Toolbar
        views={
          <>
            <Chip pressed={!isOrganization} onPress={() => setOf('')}>
              This workspace
            </Chip>
            <Chip pressed={isOrganization} onPress={() => setOf('organization')}>
              {me.organization.display_name}
            </Chip>
          </>
        }
      >
        <FilterField
          label="Filter members by name or address"
          placeholder="Filter by name or address"
          value={name}
          onChange={setName}
          aside={people && shown && `${shown.length} of ${people.length}${hasNextPage ? '+' : ''}`}
          hint="/"
        />
      </Toolbar>
      {error && !people && <Problem error={error} onRetry={() => void refetch()} />}
      <ListCard>
        {!people && !error && <Skeleton lines={5} />}
        {people?.length === 0 && (
          <Empty title="Nobody is a member of this workspace">
            Its people are here by their role in {me.organization.display_name}. Invite someone to give a role here.
          </Empty>
        )}
        {people && people.length > 0 && shown?.length === 0 && (
          <Empty
            title="No member matches"
            action={<Button onClick={() => setFilters({ name: '' })}>Show all members</Button>}
          >
            The filter is in the address, so a link to it shows the same.
          </Empty>
        )}
        {shown && shown.length > 0 && (
          <Table
            caption={isOrganization ? 'Members of the organization' : 'Members of this workspace'}
            tableRef={table}
            columns={[
              { label: 'Person', width: '42%' },
              { label: isOrganization ? 'Role in the organization' : 'Role here' },
              { label: 'Joined', width: '120' },
              { label: 'Last seen', width: '120', isEnd: true },
            ]}
          >
            {shown.map(one => (
              <Row key={one.member_id}>
                <Cell icon={<Icon name="person" />} detail={one.full_name ? one.email : undefined}>
                  <Link to={`/members/${one.member_id}`} data-row class={rowLink}>
                    {nameOf(one)}
                  </Link>{' '}
                  {one.member_id === me.member?.id && <Badge tone="idle">You</Badge>}
                </Cell>
                <Cell>{roles.nameOf(one.role_id)}</Cell>
                <Cell isWideOnly>
                  <Ago time={one.created_at} suffix=" ago" />
                </Cell>
                <Cell isEnd>
                  {one.last_seen_at ? (
                    <Ago time={one.last_seen_at} />
                  ) : (
                    <span title="Not in the last 30 days, in a browser">–</span>
                  )}
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </ListCard>
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </>
  )
}
