// Creates an annotation queue.
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
import { createQueue } from './actions.ts'
import { readRubric } from './rubric.ts'

export default function NewQueuePage() {
  useCrumbs({ label: 'Annotation', to: '/annotation' }, { label: 'Create' })
  const [name, setName] = useState('')
  const [instructions, setInstructions] = useState('')
  const [rubric, setRubric] = useState('')
  const [, navigate] = useLocation()
  const { start, busy, error } = useAction({
    onDone: reply => navigate(toAddress(`/annotation/${(reply as Reply<'POST /annotation-queues'>).id}`)),
    showsError: true,
  })
  const faults = listFaults(error)
  const action = createQueue({
    name: name.trim(),
    ...(instructions.trim() && { rubric_instructions: instructions.trim() }),
    rubric_items: readRubric(rubric),
  })
  return (
    <>
      <PageHead title="Create an annotation queue" />
      <Card title="Questions for reviewers">
        <Form
          label="Create an annotation queue"
          error={error}
          onSubmit={() => start(action)}
          footer={
            <>
              <Button type="submit" look="primary" busy={busy} unavailable={action.unavailable}>
                {action.label}
              </Button>
              <ButtonLink href={toAddress('/annotation')}>Cancel</ButtonLink>
              <CopyAs action={action} />
            </>
          }
        >
          <TextField
            label="Name"
            value={name}
            onChange={setName}
            placeholder="Answers to review"
            fault={faultAt(faults, 'name')}
          />
          <TextField
            label="Feedback"
            rows={4}
            value={rubric}
            onChange={setRubric}
            placeholder={'correct: Is the answer correct?\ntone: Is it friendly?'}
            hint="One feedback key per line, then a colon and the question."
            fault={faultAt(faults, 'rubric_items')}
          />
          <TextField
            label="Instructions"
            rows={3}
            value={instructions}
            onChange={setInstructions}
            placeholder="Compare the answer with the order in the shop"
            fault={faultAt(faults, 'rubric_instructions')}
          />
        </Form>
      </Card>
    </>
  )
}
