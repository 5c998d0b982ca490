// The fields of a role, for a new one and for one that changes.
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Action } from '../../api/actions.ts'
import type { Me } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { useRead } from '../../api/queries.ts'
import { ALL_PERMISSIONS } from '../../format/permissions.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { TextField } from '../../parts/form.tsx'
import { Choices, Form } from '../../parts/form-frame.tsx'
import { Problem } from '../../parts/problem.tsx'
import type { Role } from '../members/actions.ts'
import type { RoleDraft } from './actions.ts'
import { PermissionPicker } from './permission-list.tsx'

type RoleFormProps = {
  workspace: string
  me: Me
  initial: RoleDraft
  isNew: boolean
  toAction: (draft: RoleDraft) => Action
  onDone: (role: Role) => void
  cancel: ComponentChildren
}
export function RoleForm({ workspace, me, initial, isNew, toAction, onDone, cancel }: RoleFormProps) {
  const [draft, setDraft] = useState(initial)
  const set = (change: Partial<RoleDraft>) => setDraft(before => ({ ...before, ...change }))
  const { start, busy, error } = useAction({ onDone: reply => onDone(reply as unknown as Role), showsError: true })
  const faults = listFaults(error)
  const all = useRead(workspace, 'GET /orgs/current/permissions', {})
  const isLocked = (name: string) =>
    draft.scope === 'workspace' && all.data?.resources.find(one => one.name === name)?.scope === 'organization'
  const permissions = draft.permissions.filter(name => !isLocked(name))
  const action = toAction({ ...draft, display_name: draft.display_name.trim(), permissions })
  return (
    <Form
      label={isNew ? 'Create a role' : 'Change the role'}
      onSubmit={() => start(action)}
      footer={
        <>
          <Button type="submit" look="primary" busy={busy} unavailable={action.unavailable}>
            {action.label}
          </Button>
          {cancel}
          <CopyAs action={action} />
        </>
      }
    >
      {isNew && (
        <Choices
          legend="Scope"
          value={draft.scope}
          onChange={scope => set({ scope })}
          options={[
            { value: 'workspace', label: 'One workspace', detail: 'For members and keys of a workspace.' },
            {
              value: 'organization',
              label: me.organization.display_name,
              detail: 'For members and keys of the organization. Applies to every workspace.',
            },
          ]}
        />
      )}
      <TextField
        label="Name"
        value={draft.display_name}
        onChange={display_name => set({ display_name })}
        placeholder="Operator"
        fault={faultAt(faults, 'display_name')}
      />
      <TextField
        label="Description"
        value={draft.description}
        onChange={description => set({ description })}
        placeholder="Rolls back and restarts, changes no configuration"
        hint="Optional. Shown in lists of roles."
        fault={faultAt(faults, 'description')}
      />
      <PermissionPicker
        chosen={permissions}
        onChange={chosen => set({ permissions: ALL_PERMISSIONS.filter(name => chosen.includes(name)) })}
        explainLocked={name => (isLocked(name) ? 'Only organization roles can have this permission.' : undefined)}
      />
      {error && <Problem error={error} />}
    </Form>
  )
}
