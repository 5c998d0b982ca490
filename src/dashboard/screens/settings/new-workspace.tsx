// Creates a workspace, and opens it.
import { useState } from 'preact/hooks'
import { faultAt, listFaults } from '../../api/faults.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { TextField } from '../../parts/form.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { PageHead } from '../../parts/page.tsx'
import { Problem } from '../../parts/problem.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { createWorkspace, type Workspace } from './actions.ts'

export default function NewWorkspace({ me }: ScreenProps) {
  useCrumbs({ label: 'Workspace', to: '/settings' }, { label: 'New' })
  const [name, setName] = useState('')
  const action = createWorkspace(me, name.trim())
  const { start, busy, error } = useAction({
    // The page has to learn of the workspace before it can show it.
    onDone: reply => location.assign(`/ui/${(reply as unknown as Workspace).id}`),
    showsError: true,
  })
  return (
    <>
      <PageHead title="New workspace" />
      <Card title={`In ${me.organization.display_name}`}>
        <Form
          label="New workspace"
          onSubmit={() => start(action)}
          footer={
            <>
              <Button type="submit" look="primary" busy={busy} unavailable={action.unavailable}>
                {action.label}
              </Button>
              <ButtonLink href={toAddress('/settings')}>Cancel</ButtonLink>
              <CopyAs action={action} />
            </>
          }
        >
          <TextField
            label="Name"
            value={name}
            onChange={setName}
            placeholder="Staging"
            hint="A workspace has its own deployments, members, keys and connections. Other workspaces cannot see them."
            fault={faultAt(listFaults(error), 'display_name')}
          />
          {error && <Problem error={error} />}
        </Form>
      </Card>
    </>
  )
}
