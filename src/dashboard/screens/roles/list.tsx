// The built-in roles and those of the organization.
import { useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { useRead } from '../../api/queries.ts'
import { useCommands, useRowKeys } from '../../commands/commands.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { FilterField } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { ListCard, PageHead, Toolbar } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Badge } from '../../parts/state.tsx'
import { Cell, Row, rowLink, Table } from '../../parts/table.tsx'
import { toast } from '../../parts/toasts.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, setFilters, toAddress, useFilter } from '../../router/links.tsx'
import { explainMissingInOrganization } from '../members/actions.ts'
import { useRoles } from '../members/use-roles.ts'
import type { ScreenProps } from '../screen-props.ts'
import { describeHolders, useHolders } from './use-holders.ts'

const NEW = '/roles/new'

export default function RoleList({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Roles' })
  const [name, setName] = useFilter('name')
  const [, navigate] = useLocation()
  const { error, data, refetch } = useRead(workspace, 'GET /orgs/current/roles', { query: { limit: 100 } })
  const roles = useRoles(workspace)
  const holdersOf = useHolders(workspace, me)
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'role')
  const missing = explainMissingInOrganization(me, 'organization:manage-roles')
  useCommands(
    missing
      ? []
      : [{ id: 'new', label: 'Create a role', kind: 'action', keys: 'n', run: () => navigate(toAddress(NEW)) }],
  )
  const shown = roles.all.filter(one => one.display_name.toLowerCase().includes(name.toLowerCase()))
  return (
    <>
      <PageHead
        title="Roles"
        actions={
          missing ? (
            <Button
              icon="plus"
              unavailable
              title={missing}
              onClick={() => toast('bad', 'You cannot create roles', missing)}
            >
              Create role
            </Button>
          ) : (
            <ButtonLink href={toAddress(NEW)} look="primary" icon="plus" hint="N">
              Create role
            </ButtonLink>
          )
        }
      />
      <Toolbar>
        <FilterField
          label="Filter roles by name"
          placeholder="Filter by name"
          value={name}
          onChange={setName}
          aside={data && `${shown.length} of ${roles.all.length}`}
          hint="/"
        />
      </Toolbar>
      {error && !data && <Problem error={error} onRetry={() => void refetch()} />}
      <ListCard>
        {!data && !error && <Skeleton lines={6} />}
        {data && shown.length === 0 && (
          <Empty
            title="No role matches"
            action={<Button onClick={() => setFilters({ name: '' })}>Show all roles</Button>}
          >
            The filter is in the address, so a link to it shows the same.
          </Empty>
        )}
        {shown.length > 0 && (
          <Table
            caption="Roles, the built-in ones first"
            tableRef={table}
            columns={[
              { label: 'Role', width: '44%' },
              { label: 'Scope' },
              { label: 'Permissions', width: '104' },
              { label: 'Holders', width: '168', isEnd: true },
            ]}
          >
            {shown.map(role => (
              <Row key={role.id}>
                <Cell icon={<Icon name="role" />} detail={<span title={role.description}>{role.description}</span>}>
                  <Link to={`/roles/${role.id}`} data-row class={rowLink}>
                    {role.display_name}
                  </Link>{' '}
                  <Badge tone={role.organization_id ? 'busy' : 'idle'}>
                    {role.organization_id ? 'Own' : 'Built in'}
                  </Badge>
                </Cell>
                <Cell>{role.scope === 'workspace' ? 'One workspace' : 'The organization'}</Cell>
                <Cell isWideOnly>{role.permissions.length}</Cell>
                <Cell isEnd>{holdersOf ? describeHolders(holdersOf(role.id)) : '…'}</Cell>
              </Row>
            ))}
          </Table>
        )}
      </ListCard>
    </>
  )
}
