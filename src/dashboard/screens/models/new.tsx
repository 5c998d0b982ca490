// Creates a model.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { listFaults } from '../../api/faults.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { PageHead } from '../../parts/page.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { createModel, explainMissingManagement } from './actions.ts'
import { EMPTY_DRAFT, ModelFields, toBody } from './model-form.tsx'
import type { Model } from './model-state.ts'

export default function NewModel({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Models', to: '/models' }, { label: 'Create' })
  const [draft, setDraft] = useState(EMPTY_DRAFT)
  const [, navigate] = useLocation()
  const { start, busy, error } = useAction({
    onDone: reply => navigate(toAddress(`/models/${(reply as Model).id}`)),
    showsError: true,
  })
  const action = createModel(toBody(draft), explainMissingManagement(me, workspace))
  return (
    <>
      <PageHead title="Create a model" />
      <Card title="Model">
        <Form
          error={error}
          label="Create a model"
          onSubmit={() => start(action)}
          footer={
            <>
              <Button type="submit" look="primary" busy={busy} unavailable={action.unavailable}>
                {action.label}
              </Button>
              <ButtonLink href={toAddress('/models')}>Cancel</ButtonLink>
              <CopyAs action={action} />
            </>
          }
        >
          <ModelFields
            workspace={workspace}
            draft={draft}
            onChange={part => setDraft(current => ({ ...current, ...part }))}
            faults={listFaults(error)}
          />
        </Form>
      </Card>
    </>
  )
}
