// A role: what it may do in words, and who has it.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { isMissing, useRead } from '../../api/queries.ts'
import { readAgain } from '../../api/read-again.ts'
import type { Permission } from '../../format/permissions.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Facts, Foot, Note } from '../../parts/sections.tsx'
import { Badge } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { toast } from '../../parts/toast.ts'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, toAddress } from '../../router/links.tsx'
import { explainMissingInOrganization, type Role } from '../members/actions.ts'
import type { ScreenProps } from '../screen-props.ts'
import { changeRole, deleteRole, type RoleDraft } from './actions.ts'
import { PermissionList } from './permission-list.tsx'
import { RoleForm } from './role-form.tsx'
import { useHolders } from './use-holders.ts'

export default function RolePage({ workspace, params, me }: ScreenProps<{ role: string }>) {
  const ref = { params: { role_id: params.role } }
  const { data: role, error, refetch } = useRead(workspace, 'GET /orgs/current/roles/{role_id}', ref)
  const holdersOf = useHolders(workspace, me)
  const [isEdited, setEdited] = useState(false)
  const [, navigate] = useLocation()
  useCrumbs({ label: 'Roles', to: '/roles' }, { label: role?.display_name ?? '…' })
  if (isMissing(error))
    return (
      <Empty title="Role not found" action={<ButtonLink href={toAddress('/roles')}>Open the roles</ButtonLink>}>
        The role was deleted, or it belongs to another organization.
      </Empty>
    )
  if (error && !role) return <Problem error={error} onRetry={() => void refetch()} />
  if (!role) return <Skeleton lines={8} />
  const isBuiltIn = role.organization_id === null
  const missing = isBuiltIn
    ? 'A built-in role cannot be changed. Create a custom role instead.'
    : explainMissingInOrganization(me, 'organization:manage-roles')
  const holders = holdersOf?.(role.id)
  const edit = () => (missing ? toast('bad', 'Change role is not possible', missing) : setEdited(true))
  return (
    <Stack>
      <PageHead
        title={role.display_name}
        state={<Badge tone={isBuiltIn ? 'idle' : 'busy'}>{isBuiltIn ? 'Built in' : 'Custom'}</Badge>}
        actions={
          !isEdited && (
            <Button unavailable={missing} onClick={edit}>
              Change role
            </Button>
          )
        }
        meta={[
          role.scope === 'workspace'
            ? 'Grants its permissions in one workspace'
            : 'Grants its permissions in the organization and all its workspaces',
          role.description,
        ]}
      />
      {isEdited ? (
        <Card title="Permissions">
          <RoleForm
            workspace={workspace}
            me={me}
            isNew={false}
            initial={toDraft(role)}
            toAction={draft => changeRole(me, role, draft)}
            onDone={() => {
              setEdited(false)
              void readAgain('/orgs/current/roles')
            }}
            cancel={<Button onClick={() => setEdited(false)}>Cancel</Button>}
          />
        </Card>
      ) : (
        <Card title="Permissions" aside={`${role.permissions.length} permissions`}>
          <Body>
            <PermissionList permissions={role.permissions} />
          </Body>
        </Card>
      )}
      <Card title="Holders" aside="Visible to you">
        <Body>
          {holders && holders.people.length + holders.keys.length > 0 ? (
            <Facts
              facts={[
                ['People', linkAll(holders.people, '/members')],
                ['Keys', linkAll(holders.keys, '/keys')],
              ]}
            />
          ) : (
            <Note>{holders ? 'No holders in this workspace.' : '…'}</Note>
          )}
        </Body>
      </Card>
      <Foot>
        <p>
          {!isBuiltIn && (
            <>
              Created <Ago time={role.created_at} suffix=" ago" />.{' '}
            </>
          )}
          Id <code>{role.id}</code>
          {' · '}
          <Link to={`/audit?subject_id=${role.id}`}>History of this</Link>
        </p>
        {!isBuiltIn && (
          <ActionButton
            small
            look="bare"
            action={deleteRole(me, role)}
            onDone={() => {
              void readAgain('/orgs/current/roles')
              navigate(toAddress('/roles'))
            }}
          />
        )}
      </Foot>
    </Stack>
  )
}

const toDraft = ({ scope, display_name, description, permissions }: Role): RoleDraft => ({
  scope,
  display_name,
  description,
  permissions: permissions as Permission[],
})

const linkAll = (all: { id: string; name: string }[], to: string) =>
  all.length > 0 &&
  all.map(({ id, name }) => (
    <Link key={id} to={`${to}/${id}`}>
      {name}
    </Link>
  ))
