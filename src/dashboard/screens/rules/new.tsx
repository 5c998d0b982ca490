// Creates a rule.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Reply } from '../../api/client.ts'
import { listFaults } from '../../api/faults.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { PageHead } from '../../parts/page.tsx'
import { Body } from '../../parts/sections.tsx'
import { ShownOnce } from '../../parts/shown-once.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { createRule } from './actions.ts'
import { EMPTY_DRAFT, RuleFields, toNewRule } from './rule-form.tsx'

export default function NewRule({ workspace }: ScreenProps) {
  useCrumbs({ label: 'Rules', to: '/rules' }, { label: 'Create' })
  const [project] = useFilter('project')
  const [draft, setDraft] = useState({ ...EMPTY_DRAFT, project })
  const [created, setCreated] = useState<Reply<'POST /runs/rules'>>()
  const [, navigate] = useLocation()
  const { start, busy, error } = useAction({
    onDone: reply => {
      const rule = reply as Reply<'POST /runs/rules'>
      // A secret is shown once.
      if (rule.webhook_secret && rule.webhooks.length > 0) setCreated(rule)
      else navigate(toAddress(`/rules/${rule.id}`))
    },
    showsError: true,
  })
  const action = createRule(toNewRule(draft))
  if (created)
    return (
      <>
        <PageHead title="The rule is created" />
        <Card title={created.display_name}>
          <Body>
            <ShownOnce title="Copy the secret now. It is not shown again" secret={created.webhook_secret ?? ''}>
              The receiver verifies each message with the secret. If you set the URLs again, a new secret is created.
            </ShownOnce>
            <p>
              <ButtonLink href={toAddress(`/rules/${created.id}`)} look="primary">
                Open the rule
              </ButtonLink>
            </p>
          </Body>
        </Card>
      </>
    )
  return (
    <>
      <PageHead title="Create a rule" />
      <Card title="Rule">
        <Form
          label="Create a rule"
          error={error}
          onSubmit={() => start(action)}
          footer={
            <>
              <Button type="submit" look="primary" busy={busy} unavailable={action.unavailable}>
                {action.label}
              </Button>
              <ButtonLink href={toAddress('/rules')}>Cancel</ButtonLink>
              <CopyAs action={action} />
            </>
          }
        >
          <RuleFields
            workspace={workspace}
            draft={draft}
            onChange={part => setDraft(before => ({ ...before, ...part }))}
            faults={listFaults(error)}
          />
        </Form>
      </Card>
    </>
  )
}
