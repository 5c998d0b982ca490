// Creates a channel of the workspace, or of the person.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Reply } from '../../api/client.ts'
import { type Faults, faultAt } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { CheckField, SelectField, TextField } from '../../parts/form.tsx'
import { Choices, SecretField } from '../../parts/form-frame.tsx'
import { PageHead } from '../../parts/page.tsx'
import { Body } from '../../parts/sections.tsx'
import { ShownOnce } from '../../parts/shown-once.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import { ActionForm } from '../action-form.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { createChannel, createOwnChannel, type NewBody } from './actions.ts'
import { DEPLOYS } from './channel-state.ts'

type Way = 'own' | 'email' | 'bot' | 'incoming' | 'pagerduty' | 'webhook'
const EMPTY = {
  way: 'own' as Way,
  name: '',
  address: '',
  slackChannel: '',
  secret: '',
  region: 'us' as 'us' | 'eu',
  url: '',
  deploys: 'failed' as keyof typeof DEPLOYS,
  isDefault: true,
}
type Draft = typeof EMPTY

const WAYS: { value: Way; label: string; detail: string }[] = [
  { value: 'own', label: 'My e-mail', detail: 'Only you see it. It takes no permission.' },
  { value: 'email', label: 'Another address', detail: 'Its owner confirms it by a link.' },
  { value: 'bot', label: 'Slack, by a bot', detail: 'An incident is one message, which changes.' },
  { value: 'incoming', label: 'Slack, by an incoming webhook', detail: 'Each change is a message.' },
  { value: 'pagerduty', label: 'PagerDuty', detail: 'Events API v2: opened, acknowledged, resolved.' },
  { value: 'webhook', label: 'Signed webhook', detail: 'Everything else: messages to a URL of yours.' },
]

function toTarget({ way, address, slackChannel, secret, region, url }: Draft): NewBody['target'] {
  if (way === 'bot') return { kind: 'slack', bot_token: secret.trim(), slack_channel: slackChannel.trim() }
  if (way === 'incoming') return { kind: 'slack', webhook_url: secret.trim() }
  if (way === 'pagerduty') return { kind: 'pagerduty', routing_key: secret.trim(), region }
  if (way === 'webhook') return { kind: 'webhook', url: url.trim() }
  return { kind: 'email', address: address.trim() }
}

export default function NewChannel({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Channels', to: '/channels' }, { label: 'Create' })
  const [draft, setDraft] = useState(EMPTY)
  const [created, setCreated] = useState<Reply<'POST /v2/channels'>>()
  const [, navigate] = useLocation()
  const common = { deploys: draft.deploys, is_default: draft.isDefault }
  const name = draft.name.trim()
  const action =
    draft.way === 'own'
      ? createOwnChannel({ ...common, ...(name && { name }) })
      : createChannel({ ...common, name, target: toTarget(draft) }, explainMissing(me, workspace, 'channels:manage'))
  const change = (part: Partial<Draft>) => setDraft(current => ({ ...current, ...part }))
  if (created?.secret)
    return (
      <>
        <PageHead title="The channel is created" />
        <Card title={created.name}>
          <Body>
            <ShownOnce title="Copy the secret now. It is not shown again" secret={created.secret}>
              The receiver verifies each message with the secret.
            </ShownOnce>
            <p>
              <ButtonLink href={toAddress(`/channels/${created.id}`)} look="primary">
                Open the channel and send a test notice
              </ButtonLink>
            </p>
          </Body>
        </Card>
      </>
    )
  return (
    <>
      <PageHead title="Create a channel" />
      <ActionForm
        title="Channel"
        action={action}
        cancel="/channels"
        onDone={reply => {
          const channel = reply as Reply<'POST /v2/channels'>
          if (channel.secret) setCreated(channel)
          else navigate(toAddress(`/channels/${channel.id}`))
        }}
      >
        {faults => (
          <>
            <Choices legend="Receiver" value={draft.way} onChange={way => change({ way, secret: '' })} options={WAYS} />
            <Fields draft={draft} change={change} faults={faults} />
          </>
        )}
      </ActionForm>
    </>
  )
}

type Props = { draft: Draft; change: (part: Partial<Draft>) => void; faults: Faults }
function Fields({ draft, change, faults }: Props) {
  return (
    <>
      <TextField
        label="Name"
        value={draft.name}
        onChange={value => change({ name: value })}
        placeholder={draft.way === 'own' ? 'My e-mail' : 'On call'}
        fault={faultAt(faults, 'name')}
      />
      <Receiver draft={draft} change={change} faults={faults} />
      <SelectField
        label="Deployments"
        value={draft.deploys}
        options={Object.entries(DEPLOYS).map(([value, label]) => ({ value, label }))}
        onChange={deploys => change({ deploys: deploys as Draft['deploys'] })}
      />
      <CheckField
        label="Default for alerts"
        hint="Alerts that name no channel are told here."
        checked={draft.isDefault}
        onChange={isDefault => change({ isDefault })}
      />
    </>
  )
}

function Receiver({ draft, change, faults }: Props) {
  const secret = { value: draft.secret, onChange: (value: string) => change({ secret: value }) }
  if (draft.way === 'email')
    return (
      <TextField
        label="Address"
        inputMode="email"
        value={draft.address}
        onChange={address => change({ address })}
        fault={faultAt(faults, 'target.address')}
      />
    )
  if (draft.way === 'bot')
    return (
      <>
        <TextField
          label="Slack channel"
          mono
          value={draft.slackChannel}
          onChange={slackChannel => change({ slackChannel })}
          placeholder="C024BE91L"
          hint="The id at the end of the channel’s details. Invite the bot to the channel."
          fault={faultAt(faults, 'target.slack_channel')}
        />
        <SecretField label="Bot token" {...secret} fault={faultAt(faults, 'target.bot_token')} />
      </>
    )
  if (draft.way === 'incoming')
    return <SecretField label="Incoming webhook" {...secret} fault={faultAt(faults, 'target.webhook_url')} />
  if (draft.way === 'pagerduty')
    return (
      <>
        <SecretField label="Integration key" {...secret} fault={faultAt(faults, 'target.routing_key')} />
        <SelectField
          label="Service region"
          value={draft.region}
          options={[
            { value: 'us', label: 'US' },
            { value: 'eu', label: 'EU' },
          ]}
          onChange={region => change({ region: region as 'us' })}
        />
      </>
    )
  if (draft.way === 'webhook')
    return (
      <TextField
        label="URL"
        mono
        inputMode="url"
        value={draft.url}
        onChange={url => change({ url })}
        placeholder="https://ci.example.com/notices"
        fault={faultAt(faults, 'target.url')}
      />
    )
  return null
}
