// A webhook: its health, what can be done with it, and its deliveries.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Reply } from '../../api/client.ts'
import { explainMissing } from '../../api/permissions.ts'
import { isMissing, useRead } from '../../api/queries.ts'
import { useCommands } from '../../commands/commands.ts'
import { formatExact, formatShort } from '../../format/time.ts'
import { ActionButton, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { SelectField, TimeField, toLocalInput } from '../../parts/form.tsx'
import { Icon } from '../../parts/icon.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Foot, Note } from '../../parts/sections.tsx'
import { ShownOnce } from '../../parts/shown-once.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress, useFilter } from '../../router/links.tsx'
import { ActionForm } from '../action-form.tsx'
import { HealthCard, TestResult } from '../receiver-cards.tsx'
import { explainScope } from '../scope.ts'
import type { ScreenProps } from '../screen-props.ts'
import { changeWebhook, deleteWebhook, pause, ping, recoverSince, resume, rotateSecret } from './actions.ts'
import { Deliveries } from './deliveries.tsx'
import { Exchange } from './exchange.tsx'
import { Verify } from './verify.tsx'
import styles from './webhook.module.css'
import { toBody, toDraft, WebhookFields } from './webhook-form.tsx'
import { describeError, explainHealth, stateOfWebhook, type Webhook } from './webhook-state.ts'

/** The first failure has no event. */
const READ_EVERY_MS = 10_000

export default function WebhookPage({ workspace, params, me }: ScreenProps<{ webhook: string }>) {
  const ref = { params: { webhook_id: params.webhook } }
  const {
    data: webhook,
    error,
    refetch,
  } = useRead(workspace, 'GET /v2/webhooks/{webhook_id}', ref, { everyMs: READ_EVERY_MS })
  const [open, setOpen] = useFilter('open')
  const [pinged, setPinged] = useState<Reply<'POST /v2/webhooks/{webhook_id}/ping'>>()
  const [, navigate] = useLocation()
  const missing = explainMissing(me, workspace, 'webhooks:manage')
  const { start, question } = useAction({ onDone: reply => setPinged(reply as typeof pinged) })
  useCrumbs({ label: 'Webhooks', to: '/webhooks' }, { label: webhook?.url ?? '…' })
  useCommands(
    webhook
      ? [{ id: 'ping', label: 'Send test event', kind: 'action', keys: 't', run: () => start(ping(webhook, missing)) }]
      : [],
  )
  if (isMissing(error))
    return (
      <Empty
        title="Webhook not found"
        action={<ButtonLink href={toAddress('/webhooks')}>Open the webhooks</ButtonLink>}
      >
        The webhook was deleted, or it is in another workspace.
      </Empty>
    )
  if (error && !webhook) return <Problem error={error} onRetry={() => void refetch()} />
  if (!webhook) return <Skeleton lines={9} />
  const state = stateOfWebhook(webhook)
  const isOff = !webhook.enabled || webhook.health.status === 'disabled'
  const why = explainHealth(webhook)
  const since = webhook.health.disabled_at ?? webhook.health.failing_since
  return (
    <>
      <PageHead
        title={webhook.url}
        state={<StateLabel state={state} large />}
        actions={
          <>
            <ActionButton
              action={ping(webhook, missing)}
              look={isOff ? 'default' : 'primary'}
              onDone={reply => setPinged(reply as typeof pinged)}
            />
            <ActionButton
              action={isOff ? resume(webhook, missing) : pause(webhook, missing)}
              look={isOff ? 'primary' : 'default'}
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
            <Icon name="hook" />
            {webhook.description || 'No description'}
          </>,
          <code>{webhook.event_types.join(', ')}</code>,
          since && (
            <span>
              {state.word} since{' '}
              <time dateTime={since} title={formatExact(since)}>
                {formatShort(since)}
              </time>
            </span>
          ),
        ]}
      />
      {question}
      <Stack>
        <HealthCard state={state} why={why} />
        {pinged && <PingResult pinged={pinged} onClose={() => setPinged(undefined)} />}
        {open === 'edit' && !missing && (
          <EditCard workspace={workspace} webhook={webhook} key={webhook.updated_at} onClose={() => setOpen('')} />
        )}
        <Deliveries workspace={workspace} webhook={webhook} missing={missing} />
        <Recover webhook={webhook} missing={missing} />
        <Secret webhook={webhook} missing={missing} />
        <Card title="Verify the signature">
          <Body>
            <Verify webhook={webhook} />
          </Body>
        </Card>
      </Stack>
      <Foot>
        <p>
          Created <Ago time={webhook.created_at} suffix=" ago" />. Id <code>{webhook.id}</code>
        </p>
        <ActionButton
          small
          look="bare"
          action={deleteWebhook(webhook, missing)}
          onDone={() => navigate(toAddress('/webhooks'))}
        />
      </Foot>
    </>
  )
}

type Ping = Reply<'POST /v2/webhooks/{webhook_id}/ping'>
const PingResult = ({ pinged, onClose }: { pinged: Ping; onClose: () => void }) => (
  <TestResult
    thing="test event"
    tested={pinged}
    answer={
      pinged.error
        ? `${describeError(pinged.error)}. Test events are not retried.`
        : `The receiver responded with ${pinged.answer?.status}.`
    }
    onClose={onClose}
  >
    <details class={styles.exchange} open={pinged.error !== null}>
      <summary>Response and request</summary>
      <Exchange request={pinged.request} answer={pinged.answer} />
    </details>
  </TestResult>
)

type EditProps = { workspace: string; webhook: Webhook; onClose: () => void }
function EditCard({ workspace, webhook, onClose }: EditProps) {
  const [draft, setDraft] = useState(() => toDraft(webhook))
  return (
    <ActionForm
      title="Edit the webhook"
      action={changeWebhook(webhook, toBody(draft), explainScope(draft.scope))}
      cancel={onClose}
      onDone={onClose}
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
  )
}

type CardProps = { webhook: Webhook; missing: string | undefined }

const HOUR_MS = 3_600_000

/** Deliveries whose attempts are used up start again from a time. */
function Recover({ webhook, missing }: CardProps) {
  const [since, setSince] = useState(() => toLocalInput(Date.now() - 24 * HOUR_MS))
  const [recovered, setRecovered] = useState<number>()
  const time = new Date(since)
  const isTime = !Number.isNaN(time.getTime())
  return (
    <Card title="Retry failed deliveries">
      <Body>
        <Note>After an outage, retry all failed deliveries since a given time, with ten new attempts each.</Note>
        <div class={styles.recover}>
          <TimeField label="Failed since" value={since} onChange={setSince} />
          {isTime && (
            <ActionButton
              action={recoverSince(webhook, time.toISOString(), missing)}
              onDone={reply => setRecovered((reply as Reply<'POST /v2/webhooks/{webhook_id}/recover'>).recovered)}
            />
          )}
          {recovered !== undefined && (
            <span role="status">
              {recovered === 0 ? 'No failed deliveries since then.' : `${recovered} are retried.`}
              {recovered === 1000 && ' There may be more. Retry again.'}
            </span>
          )}
        </div>
      </Body>
    </Card>
  )
}

const OVERLAPS = [
  { value: '24', label: 'After one day' },
  { value: '168', label: 'After one week' },
  { value: '0', label: 'Immediately (the secret has leaked)' },
]

function Secret({ webhook, missing }: CardProps) {
  const [overlap, setOverlap] = useState('24')
  const [secret, setSecret] = useState<string>()
  return (
    <Card title="Secret">
      <Body>
        <Note>
          The secret was shown once and cannot be shown again.
          {webhook.previous_secret_until && (
            <>
              {' '}
              The previous secret is valid until <Until time={webhook.previous_secret_until} />.
            </>
          )}
        </Note>
        {secret ? (
          <ShownOnce title="Copy the new secret now. It is not shown again" secret={secret}>
            Update the receiver before the previous secret ends.
          </ShownOnce>
        ) : (
          <div class={styles.rotate}>
            <SelectField label="Current secret is valid" value={overlap} onChange={setOverlap} options={OVERLAPS} />
            <ActionButton
              action={rotateSecret(webhook, Number(overlap), missing)}
              onDone={reply => setSecret((reply as Reply<'POST /v2/webhooks/{webhook_id}/rotate_secret'>).secret)}
            />
          </div>
        )}
      </Body>
    </Card>
  )
}

const Until = ({ time }: { time: string }) => (
  <time dateTime={time} title={formatExact(time)}>
    {formatShort(time)}
  </time>
)
