// Creates a key, and shows it once with the command that uses it.
import { useState } from 'preact/hooks'
import { faultAt, listFaults } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { isReading, type Permission } from '../../format/permissions.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { SelectField, TextField } from '../../parts/form.tsx'
import { Choices, Form } from '../../parts/form-frame.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { CommandLine } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Note } from '../../parts/sections.tsx'
import { ShownOnce } from '../../parts/shown-once.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import { useRoles } from '../members/use-roles.ts'
import { PermissionList, PermissionPicker } from '../roles/permission-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { createKey, mayManageOrganizationKeys, type NewKey } from './actions.ts'

const DAY_MS = 86_400_000
const EXPIRIES = [
  { value: '7', label: 'In 7 days' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In a year' },
  { value: '', label: 'Never' },
]
type Extent = 'all' | 'read' | 'some'

export default function NewKeyPage({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Keys', to: '/keys' }, { label: 'Create' })
  const mayManageAll = mayManageOrganizationKeys(me)
  const [place, setPlace] = useState<'workspace' | 'organization'>(
    explainMissing(me, workspace, 'api-keys:create') && mayManageAll ? 'organization' : 'workspace',
  )
  const isOrganization = place === 'organization'
  const roles = useRoles(workspace)
  const [description, setDescription] = useState('')
  const [chosenRole, setChosenRole] = useState('')
  const [extent, setExtent] = useState<Extent>('all')
  const [picked, setPicked] = useState<Permission[]>([])
  const [days, setDays] = useState('90')
  const [openedAt] = useState(Date.now)
  const [created, setCreated] = useState<NewKey>()
  const choices = isOrganization ? roles.all : roles.of('workspace')
  const role =
    choices.find(({ id }) => id === chosenRole) ??
    choices.find(one => one.display_name === (isOrganization ? 'Auditor' : 'Editor')) ??
    choices[0]
  const ofRole = (role?.permissions ?? []) as Permission[]
  const permissions =
    extent === 'all' ? null : ofRole.filter(name => (extent === 'read' ? isReading(name) : picked.includes(name)))
  const action = createKey(
    { me, workspace },
    {
      isOrganization,
      description: description.trim(),
      role_id: role?.id ?? '',
      permissions,
      expires_at: days ? new Date(openedAt + Number(days) * DAY_MS).toISOString() : null,
    },
  )
  const { start, busy, error } = useAction({
    onDone: reply => setCreated(reply as unknown as NewKey),
    showsError: true,
  })
  const faults = listFaults(error)
  if (created) return <Created created={created} workspace={workspace} />
  return (
    <>
      <PageHead title="Create a key" />
      <Card title="Key">
        <Form
          label="Create a key"
          onSubmit={() => start(action)}
          footer={
            <>
              <Button type="submit" look="primary" busy={busy} unavailable={action.unavailable}>
                {action.label}
              </Button>
              <ButtonLink href={toAddress('/keys')}>Cancel</ButtonLink>
              <CopyAs action={action} />
            </>
          }
        >
          <TextField
            label="Description"
            value={description}
            onChange={setDescription}
            placeholder="CI of the shop"
            hint="The program that uses the key. Shown in lists and in the audit log."
            fault={faultAt(faults, 'description')}
          />
          {mayManageAll && (
            <Choices
              legend="Scope"
              value={place}
              onChange={setPlace}
              options={[
                { value: 'workspace', label: 'This workspace', detail: 'The key has no access to other workspaces.' },
                {
                  value: 'organization',
                  label: `All of ${me.organization.display_name}`,
                  detail: 'Requests name the workspace in X-Tenant-Id.',
                },
              ]}
            />
          )}
          <SelectField
            label="Role"
            value={role?.id ?? ''}
            onChange={setChosenRole}
            options={choices.map(({ id, display_name }) => ({ value: id, label: display_name }))}
            hint={role?.description}
            fault={faultAt(faults, 'role_id')}
          />
          <Choices
            legend="Permissions"
            value={extent}
            onChange={setExtent}
            options={[
              { value: 'all', label: 'All permissions of the role', detail: 'Changes of the role apply to the key.' },
              { value: 'read', label: 'Read-only' },
              {
                value: 'some',
                label: 'Selected permissions',
                detail: 'Grant only the permissions that the program needs.',
              },
            ]}
          />
          {extent === 'some' ? (
            <PermissionPicker from={ofRole} chosen={picked} onChange={setPicked} />
          ) : (
            role && <PermissionList permissions={permissions ?? role.permissions} />
          )}
          <SelectField
            label="Expires"
            value={days}
            onChange={setDays}
            options={EXPIRIES}
            hint="Requests with an expired key are refused. A key that never expires is valid until it is revoked."
            fault={faultAt(faults, 'expires_at')}
          />
          {error && <Problem error={error} />}
        </Form>
      </Card>
    </>
  )
}

function Created({ created, workspace }: { created: NewKey; workspace: string }) {
  const command = [
    `export SLIPWAY_URL=${location.origin}`,
    ...(created.tenant_id ? [] : [`SLIPWAY_WORKSPACE=${workspace}`]),
    `SLIPWAY_API_KEY=${created.key}`,
  ].join(' ')
  return (
    <Stack>
      <PageHead title={`Key “${created.description}”`} />
      <ShownOnce title="Copy the key now. It is not shown again" secret={created.key}>
        Store it as a secret of the program. If it is lost, revoke it and create another key.
      </ShownOnce>
      <Card title="Use in a shell">
        <Body>
          <CommandLine command={command} />
          <CommandLine command="slipway whoami" />
          <Note>The first command sets the URL and the key. The second command shows the permissions of the key.</Note>
          <p>
            <ButtonLink href={toAddress(`/keys/${created.id}`)}>Open the page of the key</ButtonLink>
          </p>
        </Body>
      </Card>
    </Stack>
  )
}
