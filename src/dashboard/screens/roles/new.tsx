// Creates a role.
import { useLocation } from 'wouter-preact'
import { readAgain } from '../../api/read-again.ts'
import { ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { PageHead } from '../../parts/page.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { createRole } from './actions.ts'
import { RoleForm } from './role-form.tsx'

export default function NewRole({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Roles', to: '/roles' }, { label: 'Create' })
  const [, navigate] = useLocation()
  return (
    <>
      <PageHead title="Create a role" />
      <Card title="Role">
        <RoleForm
          workspace={workspace}
          me={me}
          isNew
          initial={{ scope: 'workspace', display_name: '', description: '', permissions: [] }}
          toAction={draft => createRole(me, draft)}
          onDone={({ id }) => {
            void readAgain('/orgs/current/roles')
            navigate(toAddress(`/roles/${id}`))
          }}
          cancel={<ButtonLink href={toAddress('/roles')}>Cancel</ButtonLink>}
        />
      </Card>
    </>
  )
}
