// Creates an alert rule on a metric, on log lines, on traces or on events.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Reply } from '../../api/client.ts'
import { explainMissing } from '../../api/permissions.ts'
import { PageHead } from '../../parts/page.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import { ActionForm } from '../action-form.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { createRule } from './actions.ts'
import { EMPTY_DRAFT, explainDraft, toBody } from './rule-draft.ts'
import { RuleFields } from './rule-form.tsx'

export default function NewAlertRule({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Alerts', to: '/alerts' }, { label: 'Rules', to: '/alerts/rules' }, { label: 'Create' })
  const [draft, setDraft] = useState(EMPTY_DRAFT)
  const [, navigate] = useLocation()
  const missing = explainMissing(me, workspace, 'alerts:manage')
  return (
    <>
      <PageHead title="Create an alert rule" />
      <ActionForm
        title="Alert rule"
        action={createRule(toBody(draft), missing ?? explainDraft(draft))}
        cancel="/alerts/rules"
        onDone={reply => navigate(toAddress(`/alerts/rules/${(reply as Reply<'POST /v2/alert-rules'>).id}`))}
      >
        {faults => (
          <RuleFields
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
