// Creates a webhook, and shows its secret once.
import { useState } from 'preact/hooks'
import type { Reply } from '../../api/client.ts'
import { explainMissing } from '../../api/permissions.ts'
import { ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { PageHead } from '../../parts/page.tsx'
import { Body } from '../../parts/sections.tsx'
import { ShownOnce } from '../../parts/shown-once.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import { ActionForm } from '../action-form.tsx'
import { explainScope } from '../scope.ts'
import type { ScreenProps } from '../screen-props.ts'
import { createWebhook } from './actions.ts'
import { Verify } from './verify.tsx'
import { EMPTY_DRAFT, toBody, WebhookFields } from './webhook-form.tsx'

export default function NewWebhook({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Webhooks', to: '/webhooks' }, { label: 'Create' })
  const [draft, setDraft] = useState(EMPTY_DRAFT)
  const [created, setCreated] = useState<Reply<'POST /v2/webhooks'>>()
  const missing = explainMissing(me, workspace, 'webhooks:manage')
  if (created)
    return (
      <>
        <PageHead title="The webhook is created" />
        <Card title={created.url}>
          <Body>
            <ShownOnce title="Copy the secret now. It is not shown again" secret={created.secret}>
              The receiver verifies each message with the secret. If it is lost, rotate it.
            </ShownOnce>
            <Verify webhook={created} />
            <p>
              <ButtonLink href={toAddress(`/webhooks/${created.id}`)} look="primary">
                Open the webhook and send a test event
              </ButtonLink>
            </p>
          </Body>
        </Card>
      </>
    )
  return (
    <>
      <PageHead title="Create a webhook" />
      <ActionForm
        title="Webhook"
        action={createWebhook(toBody(draft), missing ?? explainScope(draft.scope))}
        cancel="/webhooks"
        onDone={reply => setCreated(reply as Reply<'POST /v2/webhooks'>)}
      >
        {faults => (
          <WebhookFields
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
