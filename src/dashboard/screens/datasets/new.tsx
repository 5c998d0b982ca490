// Creates a dataset.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Reply } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { TextField } from '../../parts/form.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { PageHead } from '../../parts/page.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import { createDataset } from './actions.ts'

export default function NewDataset() {
  useCrumbs({ label: 'Datasets', to: '/datasets' }, { label: 'Create' })
  const [name, setName] = useState('')
  const [description, setDescription] = useState('')
  const [, navigate] = useLocation()
  const { start, busy, error } = useAction({
    onDone: reply => navigate(toAddress(`/datasets/${(reply as Reply<'POST /datasets'>).id}`)),
    showsError: true,
  })
  const faults = listFaults(error)
  const action = createDataset({
    name: name.trim(),
    ...(description.trim() && { description: description.trim() }),
  })
  return (
    <>
      <PageHead title="Create a dataset" />
      <Card title="Name and description">
        <Form
          label="Create a dataset"
          error={error}
          onSubmit={() => start(action)}
          footer={
            <>
              <Button type="submit" look="primary" busy={busy} unavailable={action.unavailable}>
                {action.label}
              </Button>
              <ButtonLink href={toAddress('/datasets')}>Cancel</ButtonLink>
              <CopyAs action={action} />
            </>
          }
        >
          <TextField
            label="Name"
            value={name}
            onChange={setName}
            placeholder="hard-questions"
            fault={faultAt(faults, 'name')}
          />
          <TextField
            label="Description"
            rows={2}
            value={description}
            onChange={setDescription}
            placeholder="Questions about orders"
            fault={faultAt(faults, 'description')}
          />
        </Form>
      </Card>
    </>
  )
}
