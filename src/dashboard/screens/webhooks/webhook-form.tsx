// The fields of a webhook: its URL, which events it gets, and of which deployments.
import { useState } from 'preact/hooks'
import { type Faults, faultAt } from '../../api/faults.ts'
import { Button } from '../../parts/button.tsx'
import { ChipSet, Inside, toggle } from '../../parts/chip-set.tsx'
import { Chip } from '../../parts/field.tsx'
import { TextField } from '../../parts/form.tsx'
import { Choices } from '../../parts/form-frame.tsx'
import { EMPTY_SCOPE, fromScope, type Scope, toScope } from '../scope.ts'
import { ScopeFields } from '../scope-fields.tsx'
import type { NewBody } from './actions.ts'
import styles from './webhook-form.module.css'
import { COMMON, RESOURCES, type Webhook } from './webhook-state.ts'

export type Draft = {
  url: string
  description: string
  allTypes: boolean
  types: string[]
  scope: Scope
}
export const EMPTY_DRAFT: Draft = {
  url: '',
  description: '',
  allTypes: true,
  types: [],
  scope: EMPTY_SCOPE,
}
export const toDraft = (webhook: Webhook): Draft => {
  const { url, description, event_types } = webhook
  const allTypes = event_types.includes('*')
  return { url, description, allTypes, types: allTypes ? [] : event_types, scope: toScope(webhook) }
}
export const toBody = (draft: Draft): NewBody & Required<Pick<NewBody, 'description'>> => ({
  url: draft.url.trim(),
  description: draft.description.trim(),
  event_types: draft.allTypes ? ['*'] : draft.types,
  ...fromScope(draft.scope),
})

type Props = { workspace: string; draft: Draft; onChange: (part: Partial<Draft>) => void; faults: Faults }
export function WebhookFields({ workspace, draft, onChange, faults }: Props) {
  return (
    <>
      <TextField
        label="URL"
        mono
        inputMode="url"
        value={draft.url}
        onChange={url => onChange({ url })}
        placeholder="https://ci.example.com/slipway"
        hint={
          <>
            An https address with a public name. Some installations also allow http on their own machine, such as{' '}
            <code>npm run dev</code>. Redirects are not followed.
          </>
        }
        fault={faultAt(faults, 'url')}
      />
      <TextField
        label="Description"
        value={draft.description}
        onChange={description => onChange({ description })}
        placeholder="Notifies the CI"
        fault={faultAt(faults, 'description')}
      />
      <Choices
        legend="Events"
        value={draft.allTypes ? 'all' : 'some'}
        onChange={value => onChange({ allTypes: value === 'all' })}
        options={[
          { value: 'all', label: 'All events of the workspace' },
          { value: 'some', label: 'Selected types', detail: 'From the list, or with your own patterns.' },
        ]}
      />
      {!draft.allTypes && <Types draft={draft} onChange={onChange} fault={faultAt(faults, 'event_types')} />}
      <ScopeFields
        workspace={workspace}
        scope={draft.scope}
        onChange={scope => onChange({ scope })}
        faults={faults}
        all="All deployments and all other resources"
        some="Only events about selected deployments, or deployments with a tag."
      />
    </>
  )
}

type TypesProps = { draft: Draft; onChange: Props['onChange']; fault: string | undefined }
function Types({ draft: { types }, onChange, fault }: TypesProps) {
  const [text, setText] = useState('')
  const listed = new Set([...RESOURCES.map(([name]) => `${name}.*`), ...COMMON.map(([pattern]) => pattern)])
  const add = () => {
    const pattern = text.trim()
    if (pattern && !types.includes(pattern)) onChange({ types: [...types, pattern] })
    setText('')
  }
  return (
    <Inside>
      <ChipSet legend="Common events">
        {COMMON.map(([pattern, label]) => (
          <Chip
            key={pattern}
            pressed={types.includes(pattern)}
            onPress={() => onChange({ types: toggle(types, pattern) })}
          >
            {label} <code>{pattern}</code>
          </Chip>
        ))}
      </ChipSet>
      <fieldset class={styles.types}>
        <legend>By resource</legend>
        {RESOURCES.map(([name, about]) => (
          <label key={name}>
            <input
              type="checkbox"
              checked={types.includes(`${name}.*`)}
              onChange={() => onChange({ types: toggle(types, `${name}.*`) })}
            />
            <span>
              <code>{name}.*</code>
              <span>{about}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <div class={styles.add}>
        <TextField
          label="Custom pattern"
          mono
          value={text}
          onChange={setText}
          placeholder="*.deleted"
          hint={
            <>
              <code>*</code> matches any text.
            </>
          }
          fault={fault}
        />
        <Button onClick={add}>Add pattern</Button>
      </div>
      {types.some(pattern => !listed.has(pattern)) && (
        <ChipSet>
          {types
            .filter(pattern => !listed.has(pattern))
            .map(pattern => (
              <Chip key={pattern} pressed onPress={() => onChange({ types: toggle(types, pattern) })}>
                <code>{pattern}</code> ×
              </Chip>
            ))}
        </ChipSet>
      )}
    </Inside>
  )
}
