// An alert rule: its condition, and what can be done with it.
import { useLocation } from 'wouter-preact'
import { explainMissing } from '../../api/permissions.ts'
import { isMissing, useRead } from '../../api/queries.ts'
import { ActionButton } from '../../parts/action.tsx'
import { ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Facts, Foot } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { deleteRule, muteForAnHour, setRuleEnabled } from './actions.ts'
import { describeCondition, SEVERITIES, stateOfRule } from './alert-state.ts'

export default function AlertRulePage({ workspace, params, me }: ScreenProps<{ rule: string }>) {
  const ref = { params: { alert_rule_id: params.rule } }
  const { data: rule, error, refetch } = useRead(workspace, 'GET /v2/alert-rules/{alert_rule_id}', ref)
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
            <ActionButton action={setRuleEnabled(rule, !rule.enabled, missing)} />
          </>
        }
        meta={[SEVERITIES[rule.severity], rule.built_in && 'Built in']}
      />
      <Stack>
        <Card title="Condition">
          <Body>
            <Facts
              facts={[
                ['Holds', describeCondition(rule)],
                ['Before it opens', `${rule.for_seconds} s`],
                ['Before it is resolved', `${rule.resolve_after_seconds} s`],
                ['Deployments', rule.deployment_ids.length + rule.tag_value_ids.length === 0 ? 'All' : 'Some'],
                ['Channels', rule.channel_ids.length === 0 ? 'The default channels' : `${rule.channel_ids.length}`],
              ]}
            />
          </Body>
        </Card>
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
