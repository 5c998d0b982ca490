// Invites a member with a role, and creates a sign-in link.
import { useState } from 'preact/hooks'
import { perform } from '../../api/actions.ts'
import type { Reply } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { SelectField, TextField } from '../../parts/form.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Note } from '../../parts/sections.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import { PermissionList } from '../roles/permission-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { addToWorkspace, createSignInLink, type Membership, nameOf, type SignInLink } from './actions.ts'
import { SignInLinkBox } from './sign-in-link.tsx'
import { useRoles } from './use-roles.ts'

const VIEWER = 'Viewer'

export default function NewMember({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Members', to: '/members' }, { label: 'Invite' })
  const roles = useRoles(workspace)
  const [email, setEmail] = useState('')
  const [fullName, setFullName] = useState('')
  const [chosen, setChosen] = useState('')
  const [added, setAdded] = useState<Membership>()
  const [link, setLink] = useState<SignInLink>()
  const [linkError, setLinkError] = useState<Error>()
  const choices = roles.of('workspace')
  const role = choices.find(({ id }) => id === chosen) ?? choices.find(one => one.display_name === VIEWER) ?? choices[0]
  const action = addToWorkspace(
    { me, workspace },
    { email: email.trim(), full_name: fullName.trim(), role_id: role?.id ?? '' },
  )
  async function askForLink(membership: Membership): Promise<void> {
    setAdded(membership)
    const { unavailable, request } = createSignInLink(me, { ...membership, id: membership.member_id })
    if (unavailable) return
    try {
      setLink((await perform(request)) as SignInLink)
    } catch (error) {
      setLinkError(error as Error)
    }
  }
  const { start, busy, error } = useAction({
    onDone: reply => void askForLink(reply as Reply<'POST /workspaces/current/members'>),
    showsError: true,
  })
  const faults = listFaults(error)
  if (added) {
    const missing = createSignInLink(me, { ...added, id: added.member_id }).unavailable
    return (
      <Stack>
        <PageHead title={`${nameOf(added)} is a member`} />
        {link && <SignInLinkBox link={link} name={nameOf(added)} />}
        {linkError && <Problem error={linkError} />}
        <Card title="Sign in">
          <Body>
            <Note>
              {missing
                ? `An Admin of ${me.organization.display_name} can create a sign-in link. ${missing}`
                : 'The link can be used once. Create new links on the page of the member.'}{' '}
              Where an identity provider is set up, signing in with <b>{added.email}</b> leads here too.
            </Note>
            <p>
              <ButtonLink href={toAddress(`/members/${added.member_id}`)}>Open the page of {nameOf(added)}</ButtonLink>
            </p>
          </Body>
        </Card>
      </Stack>
    )
  }
  return (
    <>
      <PageHead title="Invite a member" />
      <Card title="Member">
        <Form
          label="Invite a member"
          onSubmit={() => start(action)}
          footer={
            <>
              <Button type="submit" look="primary" busy={busy} unavailable={action.unavailable}>
                {action.label}
              </Button>
              <ButtonLink href={toAddress('/members')}>Cancel</ButtonLink>
              <CopyAs action={action} />
            </>
          }
        >
          <TextField
            label="E-mail address"
            inputMode="email"
            value={email}
            onChange={setEmail}
            placeholder="ada@example.com"
            hint="No message is sent. You get a sign-in link to pass on."
            fault={faultAt(faults, 'email')}
          />
          <TextField
            label="Name"
            value={fullName}
            onChange={setFullName}
            placeholder="Ada Lovelace"
            hint="Optional. Shown in lists and in the audit log."
            fault={faultAt(faults, 'full_name')}
          />
          <SelectField
            label="Role in this workspace"
            value={role?.id ?? ''}
            onChange={setChosen}
            options={choices.map(({ id, display_name }) => ({ value: id, label: display_name }))}
            hint={role?.description}
            fault={faultAt(faults, 'role_id')}
          />
          {role && <PermissionList permissions={role.permissions} />}
          {error && <Problem error={error} />}
        </Form>
      </Card>
    </>
  )
}
