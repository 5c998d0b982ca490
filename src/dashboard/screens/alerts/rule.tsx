// An alert rule: its condition, its channels, and what can be done with it.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { explainMissing } from '../../api/permissions.ts'
import { isMissing, usePages, useRead } from '../../api/queries.ts'
import { plural } from '../../format/amount.ts'
import { formatSeconds } from '../../format/time.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Facts, Foot } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress, useFilter } from '../../router/links.tsx'
import { ActionForm } from '../action-form.tsx'
import { describeLevel } from '../log-levels.ts'
import { describeScope } from '../scope.ts'
import type { ScreenProps } from '../screen-props.ts'
import { changeRule, deleteRule, muteForAnHour, setRuleEnabled } from './actions.ts'
import { type AlertRule, describeCondition, SEVERITIES, stateOfRule } from './alert-state.ts'
import { METRICS, TRACE_METRICS, toWritten } from './metrics.ts'
import { explainDraft, toBody, toDraft } from './rule-draft.ts'
import { RuleFields } from './rule-form.tsx'

export default function AlertRulePage({ workspace, params, me }: ScreenProps<{ rule: string }>) {
  const ref = { params: { alert_rule_id: params.rule } }
  const { data: rule, error, refetch } = useRead(workspace, 'GET /v2/alert-rules/{alert_rule_id}', ref)
  const [open, setOpen] = useFilter('open')
  const [, navigate] = useLocation()
  useCrumbs({ label: 'Alerts', to: '/alerts' }, { label: 'Rules', to: '/alerts/rules' }, { label: rule?.name ?? '…' })
  if (isMissing(error))
    return (
      <Empty
        title="Alert rule not found"
        action={<ButtonLink href={toAddress('/alerts/rules')}>Open the alert rules</ButtonLink>}
      >
        The rule was deleted, or it belongs to another workspace.
      </Empty>
    )
  if (error && !rule) return <Problem error={error} onRetry={() => void refetch()} />
  if (!rule) return <Skeleton lines={9} />
  const missing = explainMissing(me, workspace, 'alerts:manage')
  return (
    <>
      <PageHead
        title={rule.name}
        state={<StateLabel state={stateOfRule(rule)} large />}
        actions={
          <>
            <ActionButton action={muteForAnHour([rule.id], missing)} />
            <ButtonLink href={toAddress(`/alerts/mutes/new?rule=${rule.id}`)} unavailable={missing}>
              Mute …
            </ButtonLink>
            <ActionButton action={setRuleEnabled(rule, !rule.enabled, missing)} />
            <Button
              aria-expanded={open === 'edit'}
              unavailable={missing}
              onClick={() => setOpen(open === 'edit' ? '' : 'edit')}
            >
              Edit
            </Button>
          </>
        }
        meta={[SEVERITIES[rule.severity], rule.built_in && 'Built in']}
      />
      <Stack>
        {open === 'edit' && !missing && (
          <EditCard workspace={workspace} rule={rule} key={rule.updated_at} onClose={() => setOpen('')} />
        )}
        <Settings workspace={workspace} rule={rule} />
      </Stack>
      <Foot>
        <p>
          Created <Ago time={rule.created_at} suffix=" ago" />. Id <code>{rule.id}</code>
        </p>
        {!rule.built_in && (
          <ActionButton
            small
            look="bare"
            action={deleteRule(rule, missing)}
            onDone={() => navigate(toAddress('/alerts/rules'))}
          />
        )}
      </Foot>
    </>
  )
}

type EditProps = { workspace: string; rule: AlertRule; onClose: () => void }
function EditCard({ workspace, rule, onClose }: EditProps) {
  const [draft, setDraft] = useState(() => toDraft(rule))
  return (
    <ActionForm
      title="Edit the alert rule"
      action={changeRule(rule, toBody(draft), explainDraft(draft))}
      cancel={onClose}
      onDone={onClose}
    >
      {faults => (
        <RuleFields
          workspace={workspace}
          rule={rule}
          draft={draft}
          onChange={part => setDraft(current => ({ ...current, ...part }))}
          faults={faults}
        />
      )}
    </ActionForm>
  )
}

/** A role without `channels:read` sees their number. */
function Settings({ workspace, rule }: { workspace: string; rule: AlertRule }) {
  const { condition, channel_ids, for_seconds, resolve_after_seconds } = rule
  const { items } = usePages(workspace, 'GET /v2/channels', { query: { limit: 100 } })
  const names = channel_ids.flatMap(id => items?.find(one => one.id === id)?.name ?? [])
  return (
    <Card title="Condition">
      <Body>
        <Facts
          facts={[
            ['Holds', describeCondition(rule)],
            ['Is over', describeEnd(rule)],
            ['Only from', describeLeast(rule)],
            ['Level', condition.kind === 'log' && condition.level && describeLevel(condition.level)],
            ['Process type', condition.kind === 'log' && condition.process],
            ['Filter', condition.kind === 'trace' && condition.filter && <code>{condition.filter}</code>],
            ['Deployments', condition.kind !== 'trace' && describeScope(rule)],
            ['Opens after', for_seconds === 0 ? 'At once' : formatSeconds(for_seconds)],
            ['Is resolved after', resolve_after_seconds === 0 ? 'At once' : formatSeconds(resolve_after_seconds)],
            [
              'Who is told',
              channel_ids.length === 0
                ? 'The default channels'
                : names.length === channel_ids.length
                  ? names.join(', ')
                  : plural(channel_ids.length, 'channel'),
            ],
          ]}
        />
      </Body>
    </Card>
  )
}

function describeEnd({ condition }: AlertRule): string | undefined {
  if (condition.kind === 'event') return condition.ends.join(', ') || undefined
  if (condition.kind === 'log' || condition.clear_threshold == null) return undefined
  const { unit, scale } = (condition.kind === 'metric' ? METRICS : TRACE_METRICS)[condition.metric]!
  const side = condition.operator === 'above' ? 'Below' : 'Above'
  return `${side} ${toWritten(condition.clear_threshold, scale)} ${unit}`.trim()
}

function describeLeast({ condition }: AlertRule): string | undefined {
  if (condition.kind === 'metric' && condition.min_requests) return plural(condition.min_requests, 'request')
  if (condition.kind === 'trace' && condition.min_traces) return plural(condition.min_traces, 'trace')
  return undefined
}
