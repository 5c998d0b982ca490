// The fields of a webhook: its URL, which events it gets, and of which deployments.
import { useState } from 'preact/hooks'
import type { Reply } from '../../api/client.ts'
import { type Faults, faultAt } from '../../api/faults.ts'
import { usePages } from '../../api/queries.ts'
import { Button } from '../../parts/button.tsx'
import { Chip } from '../../parts/field.tsx'
import { TextField } from '../../parts/form.tsx'
import { Choices } from '../../parts/form-frame.tsx'
import type { NewBody } from './actions.ts'
import styles from './webhook-form.module.css'
import { COMMON, RESOURCES, type Webhook } from './webhook-state.ts'

export type Draft = {
  url: string
  description: string
  allTypes: boolean
  types: string[]
  allDeployments: boolean
  deployments: string[]
  tags: string[]
}
export const EMPTY_DRAFT: Draft = {
  url: '',
  description: '',
  allTypes: true,
  types: [],
  allDeployments: true,
  deployments: [],
  tags: [],
}
export const toDraft = ({ url, description, event_types, deployment_ids, tag_value_ids }: Webhook): Draft => {
  const allTypes = event_types.includes('*')
  return {
    url,
    description,
    allTypes,
    types: allTypes ? [] : event_types,
    allDeployments: deployment_ids.length + tag_value_ids.length === 0,
    deployments: deployment_ids,
    tags: tag_value_ids,
  }
}
export const toBody = (draft: Draft): NewBody & Required<Pick<NewBody, 'description'>> => ({
  url: draft.url.trim(),
  description: draft.description.trim(),
  event_types: draft.allTypes ? ['*'] : draft.types,
  deployment_ids: draft.allDeployments ? [] : draft.deployments,
  tag_value_ids: draft.allDeployments ? [] : draft.tags,
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
      <Choices
        legend="Deployments"
        value={draft.allDeployments ? 'all' : 'some'}
        onChange={value => onChange({ allDeployments: value === 'all' })}
        options={[
          { value: 'all', label: 'All deployments and all other resources' },
          {
            value: 'some',
            label: 'Some',
            detail: 'Only events about selected deployments, or deployments with a tag.',
          },
        ]}
      />
      {!draft.allDeployments && <Targets workspace={workspace} draft={draft} onChange={onChange} faults={faults} />}
    </>
  )
}

const toggle = (all: string[], one: string): string[] =>
  all.includes(one) ? all.filter(other => other !== one) : [...all, one]

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
    <div class={styles.inside}>
      <fieldset class={styles.chips}>
        <legend>Common events</legend>
        {COMMON.map(([pattern, label]) => (
          <Chip
            key={pattern}
            pressed={types.includes(pattern)}
            onPress={() => onChange({ types: toggle(types, pattern) })}
          >
            {label} <code>{pattern}</code>
          </Chip>
        ))}
      </fieldset>
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
        <div class={styles.chips}>
          {types
            .filter(pattern => !listed.has(pattern))
            .map(pattern => (
              <Chip key={pattern} pressed onPress={() => onChange({ types: toggle(types, pattern) })}>
                <code>{pattern}</code> ×
              </Chip>
            ))}
        </div>
      )}
    </div>
  )
}

const SUGGESTED = 20

function Targets({ workspace, draft: { deployments, tags }, onChange, faults }: Props) {
  const [text, setText] = useState('')
  const name = text.trim()
  const { items = [] } = usePages(workspace, 'GET /v2/deployments', {
    query: { limit: SUGGESTED, ...(name && { name_contains: name }) },
  })
  const chosen = usePages(
    workspace,
    'GET /v2/deployments',
    { query: { limit: 100, deployment_ids: deployments.join(',') as never } },
    { enabled: deployments.length > 0 },
  )
  const { items: keys } = usePages(workspace, 'GET /v2/tag-keys', { query: { limit: 100 } })
  const nameOf = (id: string) => [...items, ...(chosen.items ?? [])].find(one => one.id === id)?.name ?? id
  return (
    <div class={styles.inside}>
      <TextField
        label="Find a deployment"
        value={text}
        onChange={setText}
        placeholder="Part of the name"
        hint="Press a deployment to select or deselect it."
        fault={faultAt(faults, 'deployment_ids')}
      />
      <div class={styles.chips}>
        {deployments.map(id => (
          <Chip key={id} pressed onPress={() => onChange({ deployments: toggle(deployments, id) })}>
            {nameOf(id)}
          </Chip>
        ))}
        {items
          .filter(({ id }) => !deployments.includes(id))
          .map(({ id, name }) => (
            <Chip key={id} pressed={false} onPress={() => onChange({ deployments: toggle(deployments, id) })}>
              {name}
            </Chip>
          ))}
      </div>
      {keys && keys.length > 0 && (
        <fieldset class={styles.chips}>
          <legend>Or deployments with one of these tags</legend>
          {keys.map(key => (
            <TagChips key={key.id} tagKey={key} workspace={workspace} tags={tags} onChange={onChange} />
          ))}
        </fieldset>
      )}
    </div>
  )
}

type TagKey = Reply<'GET /v2/tag-keys'>['resources'][number]
type TagProps = { tagKey: TagKey; workspace: string; tags: string[]; onChange: Props['onChange'] }
function TagChips({ tagKey, workspace, tags, onChange }: TagProps) {
  const { items = [] } = usePages(workspace, 'GET /v2/tag-keys/{tag_key_id}/values', {
    params: { tag_key_id: tagKey.id },
    query: { limit: 100 },
  })
  return (
    <>
      {items.map(({ id, value }) => (
        <Chip key={id} pressed={tags.includes(id)} onPress={() => onChange({ tags: toggle(tags, id) })}>
          {tagKey.key}: {value}
        </Chip>
      ))}
    </>
  )
}
