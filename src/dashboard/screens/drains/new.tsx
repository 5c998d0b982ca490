// Creates a drain.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Reply } from '../../api/client.ts'
import { explainMissing } from '../../api/permissions.ts'
import { PageHead } from '../../parts/page.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import { ActionForm } from '../action-form.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { createDrain } from './actions.ts'
import { DrainFields, EMPTY_DRAFT, explainDraft, toBody } from './drain-form.tsx'

export default function NewDrain({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Drains', to: '/drains' }, { label: 'Create' })
  const [draft, setDraft] = useState(EMPTY_DRAFT)
  const [, navigate] = useLocation()
  const missing = explainMissing(me, workspace, 'drains:manage')
  return (
    <>
      <PageHead title="Create a drain" />
      <ActionForm
        title="Drain"
        action={createDrain(toBody(draft), missing ?? explainDraft(draft))}
        cancel="/drains"
        onDone={reply => navigate(toAddress(`/drains/${(reply as Reply<'POST /v2/drains'>).id}`))}
      >
        {faults => (
          <DrainFields
            workspace={workspace}
            draft={draft}
            onChange={part => setDraft(current => ({ ...current, ...part }))}
            faults={faults}
          />
        )}
      </ActionForm>
    </>
  )
}
