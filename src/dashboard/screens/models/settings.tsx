// What the organization allows for calls of models, and what the operator of the other side needs to know.
import { useState } from 'preact/hooks'
import type { Me } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { readAgain, useRead } from '../../api/queries.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import { CheckField, TextField } from '../../parts/form.tsx'
import { Choices, Form } from '../../parts/form-frame.tsx'
import { Body, Facts, Note, Stack } from '../../parts/page.tsx'
import { Card, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
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
          <Card title={`What ${me.organization.display_name} allows`}>
            <SettingsForm key={data.updated_at} me={me} settings={data} />
          </Card>
          <Card title="For an authentication proxy of yours">
            <Body>
              <Note>
                Models with the authentication “Token of this installation” get a signed token with each call. The proxy
                in front of them verifies it, and reads who calls.
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
      label="What the organization allows"
      error={error}
      onSubmit={() => isChanged && start(action)}
      footer={
        <>
          <Button
            type="submit"
            look="primary"
            busy={busy}
            disabled={!isChanged && !locked}
            unavailable={locked !== undefined}
            title={locked}
          >
            {action.label}
          </Button>
          <CopyAs action={action} />
        </>
      }
    >
      <CheckField
        label="Models can be called"
        hint="If off, each call in this organization is refused, from the next one on."
        checked={enabled}
        onChange={setEnabled}
        locked={locked}
        isChanged={enabled !== settings.enabled}
      />
      <Choices
        legend="Which URLs calls may address"
        value={mode}
        onChange={setMode}
        options={[
          { value: 'configurations', label: 'Those of the models', detail: 'Each call stays below a base URL.' },
          { value: 'list', label: 'Of these, the ones that a pattern matches' },
          { value: 'all', label: 'All', detail: 'Calls still stay below the base URL of their model.' },
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
          hint="One in each line. A * at the end stands for any rest of the path, or for the first label of the host."
          locked={locked}
          fault={faultAt(faults, 'allowed_urls')}
        />
      )}
      <TextField
        label="Audience of tokens"
        mono
        value={audience}
        onChange={setAudience}
        placeholder="The origin of the base URL"
        locked={locked}
        isChanged={audience !== (settings.audience ?? '')}
        fault={faultAt(faults, 'audience')}
      />
    </Form>
  )
}
