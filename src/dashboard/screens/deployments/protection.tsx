// The protection of a deployment, with its share links and bypass tokens. It takes effect at once, without a revision.
import { useState } from 'preact/hooks'
import { type Action, request } from '../../api/actions.ts'
import type { Me, Reply } from '../../api/client.ts'
import { explainMissing } from '../../api/permissions.ts'
import { usePages } from '../../api/queries.ts'
import type { Deployment } from '../../format/state.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Card } from '../../parts/card.tsx'
import { Fields, SelectField, TextField, unlessChanged } from '../../parts/form.tsx'
import { ShownOnce } from '../../parts/shown-once.tsx'
import { Ago } from '../../parts/time.tsx'
import styles from './settings.module.css'

export type ProtectionProps = { workspace: string; me: Me; deployment: Deployment }
type Bypass = Reply<'GET /v2/deployments/{deployment_id}/bypasses'>['resources'][number]
type Created = Reply<'POST /v2/deployments/{deployment_id}/bypasses'>
type Kind = Bypass['kind']

const DAY_MS = 86_400_000
const LIST = 'GET /v2/deployments/{deployment_id}/bypasses'

export default function ProtectionCard({ workspace, me, deployment }: ProtectionProps) {
  const unavailable = explainMissing(me, workspace, 'deployments:update')
  const { protection } = deployment
  const [mode, setMode] = useState(protection.mode)
  const [paths, setPaths] = useState(protection.open_paths.join('\n'))
  const open_paths = paths.split('\n').flatMap(line => line.trim() || [])
  const isChanged = mode !== protection.mode || open_paths.join('\n') !== protection.open_paths.join('\n')
  const save: Action = {
    label: 'Apply protection',
    request: request('PUT /v2/deployments/{deployment_id}/protection', {
      params: { deployment_id: deployment.id },
      body: { mode, open_paths },
    }),
    unavailable: unavailable ?? unlessChanged(isChanged),
    done: `${deployment.name}: the protection is set.`,
  }
  return (
    <Card title="Protection">
      <p class={styles.about}>Takes effect within seconds, without a revision.</p>
      <Fields>
        <SelectField
          label="Who may see it"
          value={mode}
          options={[
            { value: 'none', label: 'Everyone who knows the address' },
            { value: 'members', label: 'Members, and holders of a link' },
          ]}
          onChange={value => setMode(value as typeof mode)}
          isChanged={mode !== protection.mode}
          unavailable={unavailable}
        />
        {mode === 'members' && (
          <TextField
            label="Open paths"
            value={paths}
            onChange={setPaths}
            rows={3}
            mono
            hint="Open to everyone, one per line, for webhooks: /hooks/stripe, or /hooks/* for all below."
            unavailable={unavailable}
          />
        )}
      </Fields>
      <p class={styles.tagAction}>
        <ActionButton small action={save} />
      </p>
      {protection.mode === 'members' && (
        <Bypasses workspace={workspace} deployment={deployment} unavailable={unavailable} />
      )}
    </Card>
  )
}

type BypassesProps = Pick<ProtectionProps, 'workspace' | 'deployment'> & { unavailable: string | undefined }

function Bypasses({ workspace, deployment, unavailable }: BypassesProps) {
  const params = { deployment_id: deployment.id }
  const { items } = usePages(workspace, LIST, { params, query: { limit: 50 } } as never)
  const [kind, setKind] = useState<Kind>('link')
  const [description, setDescription] = useState('')
  const [days, setDays] = useState('7')
  const [created, setCreated] = useState<Created>()
  const [openedAt] = useState(Date.now)
  const create: Action = {
    label: kind === 'link' ? 'Make a share link' : 'Make a bypass token',
    request: request('POST /v2/deployments/{deployment_id}/bypasses', {
      params,
      body: {
        kind,
        description: description.trim(),
        ...(days && { expires_at: new Date(openedAt + Number(days) * DAY_MS).toISOString() }),
      },
    }),
    unavailable: unavailable ?? (description.trim() === '' ? 'Say who gets it first.' : undefined),
    done: `${deployment.name}: it is made.`,
  }
  const revoke = ({ id, description: whose }: Bypass): Action => ({
    label: 'Revoke',
    request: request('DELETE /v2/deployments/{deployment_id}/bypasses/{bypass_id}', {
      params: { ...params, bypass_id: id },
    }),
    unavailable,
    confirm: {
      title: `Revoke what ${whose} has?`,
      body: 'It stops working within seconds, also for browsers that have used it.',
      isDestructive: true,
    },
    done: 'It is revoked.',
  })
  return (
    <>
      {created && (
        <ShownOnce
          title={created.kind === 'link' ? 'The share link is shown only now' : 'The bypass token is shown only now'}
          secret={created.url ?? created.secret}
        />
      )}
      <ul class={styles.tags}>
        {((items ?? []) as Bypass[]).map(one => (
          <li key={one.id}>
            <span>
              {one.kind === 'link' ? 'Link' : 'Token'}: <b>{one.description}</b>{' '}
              {one.expires_at ? <>until {one.expires_at.slice(0, 10)}</> : <Ago time={one.created_at} suffix=" old" />}
            </span>
            <ActionButton small look="bare" action={revoke(one)} />
          </li>
        ))}
      </ul>
      <Fields>
        <SelectField
          label="Kind"
          value={kind}
          options={[
            { value: 'link', label: 'Share link, for people' },
            { value: 'token', label: 'Bypass token, for machines' },
          ]}
          onChange={value => {
            setKind(value as Kind)
            if (value === 'link' && !days) setDays('7')
          }}
          unavailable={unavailable}
        />
        <TextField
          label="For"
          value={description}
          onChange={setDescription}
          hint="Who gets it."
          unavailable={unavailable}
        />
        <SelectField
          label="Ends"
          value={days}
          options={[
            { value: '1', label: 'In a day' },
            { value: '7', label: 'In 7 days' },
            { value: '30', label: 'In 30 days' },
            ...(kind === 'token' ? [{ value: '', label: 'When it is revoked' }] : []),
          ]}
          onChange={setDays}
          unavailable={unavailable}
        />
      </Fields>
      <p class={styles.tagAction}>
        <ActionButton small action={create} onDone={reply => setCreated(reply as unknown as Created)} />
      </p>
    </>
  )
}
