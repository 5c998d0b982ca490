// A rule: what it is about, what can be done with it, and what it did.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Reply } from '../../api/client.ts'
import { listFaults } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { useRead } from '../../api/queries.ts'
import { formatCost, formatShare } from '../../format/amount.ts'
import { formatExact } from '../../format/time.ts'
import { ActionButton, CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { Icon } from '../../parts/icon.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Facts, Foot } from '../../parts/sections.tsx'
import { ShownOnce } from '../../parts/shown-once.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { changeRule, deleteRule, pauseRule, type Rule, resumeRule, triggerRule } from './actions.ts'
import { RuleFields, toDraft, toPatch } from './rule-form.tsx'
import { RuleLogs } from './rule-logs.tsx'
import { describeActions, describeSampling, describeScope, listKeys, stateOfRule } from './rule-state.ts'

const READ_EVERY_MS = 10_000

export default function RulePage({ workspace, params, me }: ScreenProps<{ rule: string }>) {
  const { data, error, refetch } = useRead(
    workspace,
    'GET /runs/rules',
    { query: { id: [params.rule] } },
    { everyMs: READ_EVERY_MS },
  )
  const rule = data?.[0]
  const [open, setOpen] = useFilter('open')
  const [secret, setSecret] = useState<string>()
  const [, navigate] = useLocation()
  useCrumbs({ label: 'Rules', to: '/rules' }, { label: rule?.display_name ?? '…' })
  const missing = explainMissing(me, workspace, 'rules:update')
  if (error && !data) return <Problem error={error} onRetry={() => void refetch()} />
  if (!data) return <Skeleton lines={9} />
  if (!rule)
    return (
      <Empty title="Rule not found" action={<ButtonLink href={toAddress('/rules')}>Open the rules</ButtonLink>}>
        The rule was deleted, or it is in another workspace.
      </Empty>
    )
  return (
    <>
      <PageHead
        title={rule.display_name}
        state={<StateLabel state={stateOfRule(rule)} large />}
        actions={
          <>
            {rule.is_enabled && <ActionButton action={triggerRule(rule)} />}
            <ActionButton
              action={rule.is_enabled ? pauseRule(rule) : resumeRule(rule)}
              look={rule.is_enabled ? 'default' : 'primary'}
            />
            <Button
              aria-expanded={open === 'edit'}
              unavailable={missing}
              onClick={() => setOpen(open === 'edit' ? '' : 'edit')}
            >
              Edit
            </Button>
          </>
        }
        meta={[
          <>
            <Icon name="bolt" />
            {rule.session_id ? (
              <Link to={`/traces/${rule.session_id}`}>{describeScope(rule)}</Link>
            ) : (
              <Link to={`/datasets/${rule.dataset_id}`}>{describeScope(rule)}</Link>
            )}
          </>,
          describeSampling(rule),
          rule.backfill_progress !== null && rule.backfill_status !== 'completed' && (
            <span>Earlier runs: {formatShare(rule.backfill_progress)} done</span>
          ),
        ]}
      />
      <Stack>
        {secret && (
          <ShownOnce title="Copy the new secret now. It is not shown again" secret={secret}>
            Receivers must verify new messages with this secret.
          </ShownOnce>
        )}
        {open === 'edit' && !missing ? (
          <EditCard
            key={rule.updated_at}
            workspace={workspace}
            rule={rule}
            onClose={() => setOpen('')}
            onSecret={setSecret}
          />
        ) : (
          <About rule={rule} />
        )}
        <RuleLogs workspace={workspace} rule={rule} />
      </Stack>
      <Foot>
        <p>
          Created <Ago time={rule.created_at} suffix=" ago" />. Id <code>{rule.id}</code>
        </p>
        <ActionButton small look="bare" action={deleteRule(rule)} onDone={() => navigate(toAddress('/rules'))} />
      </Foot>
    </>
  )
}

const About = ({ rule }: { rule: Rule }) => (
  <Card title="Filters and actions">
    <Body>
      <Facts
        facts={[
          ['Filter', rule.filter ? <code>{rule.filter}</code> : 'All runs'],
          ['Trace filter', rule.trace_filter && <code>{rule.trace_filter}</code>],
          ['Any run in the trace', rule.tree_filter && <code>{rule.tree_filter}</code>],
          ['Actions', describeActions(rule).join(', ') || 'No actions. Edit the rule to add one.'],
          [
            'Dataset',
            rule.add_to_dataset_id && (
              <Link to={`/datasets/${rule.add_to_dataset_id}`}>{rule.add_to_dataset_name ?? 'Open'}</Link>
            ),
          ],
          [
            'Queue',
            rule.add_to_annotation_queue_id && (
              <Link to={`/annotation/${rule.add_to_annotation_queue_id}`}>
                {rule.add_to_annotation_queue_name ?? 'Open'}
              </Link>
            ),
          ],
          [
            'Spent this week',
            listKeys(rule).length > 0 &&
              `${formatCost(rule.spend_usd)}${rule.spend_limit ? ` of ${formatCost(Number(rule.spend_limit.limit_usd))}` : ''}`,
          ],
          ['URLs', rule.webhooks.length > 0 && <code>{rule.webhooks.map(({ url }) => url).join(', ')}</code>],
          ['Earlier runs', rule.backfill_from && `Since ${formatExact(rule.backfill_from)}`],
        ]}
      />
    </Body>
  </Card>
)

type EditProps = { workspace: string; rule: Rule; onClose: () => void; onSecret: (secret: string) => void }
function EditCard({ workspace, rule, onClose, onSecret }: EditProps) {
  const [draft, setDraft] = useState(() => toDraft(rule))
  const { start, busy, error } = useAction({
    showsError: true,
    onDone: reply => {
      const { webhook_secret } = reply as Reply<'PATCH /runs/rules/{rule_id}'>
      if (webhook_secret) onSecret(webhook_secret)
      onClose()
    },
  })
  const action = changeRule(rule, toPatch(rule, draft))
  return (
    <Card title="Edit the rule">
      <Form
        label="Edit the rule"
        error={error}
        onSubmit={() => start(action)}
        footer={
          <>
            <Button type="submit" look="primary" busy={busy}>
              {action.label}
            </Button>
            <Button onClick={onClose}>Discard changes</Button>
            <CopyAs action={action} />
          </>
        }
      >
        <RuleFields
          workspace={workspace}
          draft={draft}
          onChange={part => setDraft(before => ({ ...before, ...part }))}
          faults={listFaults(error)}
          rule={rule}
        />
      </Form>
    </Card>
  )
}
