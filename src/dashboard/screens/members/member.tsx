// A person: roles here and in the organization, keys, and a way to sign in.
import { useState } from 'preact/hooks'
import type { Action } from '../../api/actions.ts'
import { isMissing, usePages, useRead } from '../../api/queries.ts'
import { readAgain } from '../../api/read-again.ts'
import { ActionButton } from '../../parts/action.tsx'
import { ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { SelectField } from '../../parts/form.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Facts, Foot, Note } from '../../parts/sections.tsx'
import { Badge } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, toAddress } from '../../router/links.tsx'
import { PermissionList } from '../roles/permission-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import {
  changeOrganizationRole,
  changeRoleHere,
  createSignInLink,
  nameOf,
  type Role,
  removeFromOrganization,
  removeFromWorkspace,
  type SignInLink,
} from './actions.ts'
import { SignInLinkBox } from './sign-in-link.tsx'
import { useRoles } from './use-roles.ts'

export default function MemberPage({ workspace, params, me }: ScreenProps<{ member: string }>) {
  const member = useRead(workspace, 'GET /orgs/current/members/{member_id}', { params: { member_id: params.member } })
  const memberships = usePages(workspace, 'GET /workspaces/current/members', { query: { limit: 100 } })
  const mayReadKeys = me.workspaces.find(({ id }) => id === workspace)?.permissions.includes('api-keys:read') === true
  const keys = usePages(
    workspace,
    'GET /workspaces/current/api-keys',
    { query: { limit: 100 } },
    { enabled: mayReadKeys },
  )
  const roles = useRoles(workspace)
  const [link, setLink] = useState<SignInLink>()
  const person = member.data
  useCrumbs({ label: 'Members', to: '/members' }, { label: person ? nameOf(person) : '…' })
  if (isMissing(member.error))
    return (
      <Empty title="Member not found" action={<ButtonLink href={toAddress('/members')}>Open the members</ButtonLink>}>
        This person is not a member. The audit log keeps earlier entries.
      </Empty>
    )
  if (member.error && !person) return <Problem error={member.error} onRetry={() => void member.refetch()} />
  if (!person) return <Skeleton lines={8} />
  const here = memberships.items?.find(one => one.member_id === person.id)
  const own = keys.items?.filter(one => one.member?.id === person.id)
  const isYou = person.id === me.member?.id
  const caller = { me, workspace }
  const readOrganizationAgain = () => void readAgain('/orgs/current/members')
  return (
    <Stack>
      <PageHead
        title={nameOf(person)}
        state={isYou && <Badge tone="idle">You</Badge>}
        actions={
          <ActionButton
            action={createSignInLink(me, person)}
            onDone={reply => setLink(reply as unknown as SignInLink)}
          />
        }
        meta={[
          person.email,
          person.last_seen_at ? (
            <span key="seen">
              Last seen <Ago time={person.last_seen_at} suffix=" ago" />
            </span>
          ) : (
            'Not seen in the last 30 days'
          ),
          isYou && (
            <Link key="account" to="/account">
              Your account and sessions
            </Link>
          ),
        ]}
      />
      {link && <SignInLinkBox link={link} name={nameOf(person)} />}
      <Card title="This workspace" aside={here && roles.nameOf(here.role_id)}>
        <Body>
          {here ? (
            <>
              <RoleChoice
                label="Role in this workspace"
                roles={roles.of('workspace')}
                current={here.role_id}
                toAction={role => changeRoleHere(caller, here, role)}
              />
              <ActionButton small look="bare" action={removeFromWorkspace(caller, here)} />
            </>
          ) : (
            memberships.items && <Note>No role in this workspace. The role in the organization applies here too.</Note>
          )}
        </Body>
      </Card>
      <Card title={`In ${me.organization.display_name}`} aside={roles.nameOf(person.role_id)}>
        <Body>
          <RoleChoice
            label="Role in the organization"
            roles={roles.of('organization')}
            current={person.role_id}
            toAction={role => changeOrganizationRole(me, person, role)}
            onDone={readOrganizationAgain}
          />
          <ActionButton small look="bare" action={removeFromOrganization(me, person)} onDone={readOrganizationAgain} />
        </Body>
      </Card>
      {own && own.length > 0 && (
        <Card title="Keys">
          <Body>
            <Facts
              facts={own.map(({ id, hint, description, last_used_at }) => [
                description,
                <>
                  <Link to={`/keys/${id}`}>
                    <code>{hint}</code>
                  </Link>
                  <span>{last_used_at ? <Ago time={last_used_at} suffix=" ago" /> : 'never used'}</span>
                </>,
              ])}
            />
          </Body>
        </Card>
      )}
      <Foot>
        <p>
          Joined <Ago time={person.created_at} suffix=" ago" />. Id <code>{person.id}</code>
        </p>
        <p>
          <Link to={`/audit?actor_id=${person.id}`}>Activity</Link>
          {' · '}
          <Link to={`/audit?subject_id=${person.id}`}>History of this</Link>
        </p>
      </Foot>
    </Stack>
  )
}

type RoleChoiceProps = {
  label: string
  roles: Role[]
  current: string
  toAction: (role: Role) => Action
  onDone?: () => void
}
/** The role, what it may do, and a button once another one is chosen. */
function RoleChoice({ label, roles, current, toAction, onDone }: RoleChoiceProps) {
  const [chosen, setChosen] = useState(current)
  const role = roles.find(({ id }) => id === chosen) ?? roles.find(({ id }) => id === current)
  if (!role) return null
  const action = toAction(role)
  return (
    <>
      <SelectField
        label={label}
        value={role.id}
        onChange={setChosen}
        options={roles.map(({ id, display_name }) => ({ value: id, label: display_name }))}
        hint={role.description}
        isChanged={role.id !== current}
        unavailable={action.unavailable}
      />
      <PermissionList permissions={role.permissions} />
      {role.id !== current && (
        <div>
          <ActionButton look="primary" action={action} onDone={() => onDone?.()} />
        </div>
      )}
    </>
  )
}
