// The organization's settings for model calls, and the values for an authentication proxy.
import { useState } from 'preact/hooks'
import type { Me } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { useRead } from '../../api/queries.ts'
import { readAgain } from '../../api/read-again.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import { CheckField, TextField, unlessChanged } from '../../parts/form.tsx'
import { Choices, Form } from '../../parts/form-frame.tsx'
import { Stack } from '../../parts/page.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Facts, Note } from '../../parts/sections.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { changeSettings, type SettingsBody } from './actions.ts'
import { ModelsFrame } from './frame.tsx'
import type { Settings } from './model-state.ts'

export default function SettingsPage({ workspace, me }: ScreenProps) {
  const { data, error, refetch } = useRead(workspace, 'GET /orgs/current/model-proxy', {})
  return (
    <ModelsFrame tab="/settings">
      {error && !data && <Problem error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Skeleton lines={9} />}
      {data && (
        <Stack>
          <Card title={`Settings of ${me.organization.display_name}`}>
            <SettingsForm key={data.updated_at} me={me} settings={data} />
          </Card>
          <Card title="Authentication proxy">
            <Body>
              <Note>
                Calls to models with the authentication “Token of this installation” have a signed token. Your proxy
                verifies the token and reads the caller from it.
              </Note>
              <Facts
                facts={[
                  [
                    'Public keys',
                    <>
                      <code>{data.jwks_url}</code>{' '}
                      <CopyButton text={() => data.jwks_url} label="Copy the URL of the keys" />
                    </>,
                  ],
                  ['Header', <code>{data.header}</code>],
                  ['Issuer', <code>{data.issuer}</code>],
                  ['Audience', data.audience ? <code>{data.audience}</code> : 'The origin of the base URL'],
                ]}
              />
            </Body>
          </Card>
        </Stack>
      )}
    </ModelsFrame>
  )
}

type Mode = Settings['allowed_urls']['mode']

function SettingsForm({ me, settings }: { me: Me; settings: Settings }) {
  const [enabled, setEnabled] = useState(settings.enabled)
  const [audience, setAudience] = useState(settings.audience ?? '')
  const [mode, setMode] = useState<Mode>(settings.allowed_urls.mode)
  const [patterns, setPatterns] = useState(settings.allowed_urls.patterns.join('\n'))
  const body: SettingsBody = {
    enabled,
    audience: audience.trim() || null,
    allowed_urls: { mode, patterns: patterns.split(/\s+/).filter(Boolean) },
  }
  const action = changeSettings(me, body)
  const { start, busy, error } = useAction({
    onDone: () => void readAgain('/orgs/current/model-proxy'),
    showsError: true,
  })
  const faults = listFaults(error)
  const locked = action.unavailable
  const { audience: before, allowed_urls } = settings
  const isChanged =
    JSON.stringify(body) !== JSON.stringify({ enabled: settings.enabled, audience: before, allowed_urls })
  return (
    <Form
      label="Settings"
      error={error}
      onSubmit={() => isChanged && start(action)}
      footer={
        <>
          <Button type="submit" look="primary" busy={busy} unavailable={locked ?? unlessChanged(isChanged)}>
            {action.label}
          </Button>
          <CopyAs action={action} />
        </>
      }
    >
      <CheckField
        label="Enable model calls"
        hint="If disabled, all calls in this organization are refused."
        checked={enabled}
        onChange={setEnabled}
        unavailable={locked}
        isChanged={enabled !== settings.enabled}
      />
      <Choices
        legend="Allowed URLs"
        value={mode}
        onChange={setMode}
        options={[
          {
            value: 'configurations',
            label: 'URLs of the models',
            detail: 'Each call must be below the base URL of a model.',
          },
          { value: 'list', label: 'URLs of the models that a pattern matches' },
          { value: 'all', label: 'All', detail: 'Calls must still be below the base URL of their model.' },
          { value: 'none', label: 'None' },
        ]}
      />
      {mode === 'list' && (
        <TextField
          label="Patterns"
          mono
          rows={4}
          value={patterns}
          onChange={setPatterns}
          placeholder="https://api.openai.com/v1/*"
          hint="One pattern per line. * matches the rest of the path, or the first label of the host."
          unavailable={locked}
          fault={faultAt(faults, 'allowed_urls')}
        />
      )}
      <TextField
        label="Audience of tokens"
        mono
        value={audience}
        onChange={setAudience}
        placeholder="The origin of the base URL"
        unavailable={locked}
        isChanged={audience !== (settings.audience ?? '')}
        fault={faultAt(faults, 'audience')}
      />
    </Form>
  )
}
