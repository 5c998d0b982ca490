// The deployments that something is about: all of them, or chosen ones and those with a tag.
import { useState } from 'preact/hooks'
import type { Reply } from '../api/client.ts'
import { type Faults, faultAt } from '../api/faults.ts'
import { usePages } from '../api/queries.ts'
import { ChipSet, Inside, toggle } from '../parts/chip-set.tsx'
import { Chip } from '../parts/field.tsx'
import { TextField } from '../parts/form.tsx'
import { Choices } from '../parts/form-frame.tsx'
import type { Scope } from './scope.ts'

type Props = {
  workspace: string
  scope: Scope
  onChange: (scope: Scope) => void
  faults: Faults
  all?: string
  some: string
}
export function ScopeFields({ workspace, scope, onChange, faults, all = 'All deployments', some }: Props) {
  return (
    <>
      <Choices
        legend="Deployments"
        value={scope.isAll ? 'all' : 'some'}
        onChange={value => onChange({ ...scope, isAll: value === 'all' })}
        options={[
          { value: 'all', label: all },
          { value: 'some', label: 'Some', detail: some },
        ]}
      />
      {!scope.isAll && <Targets workspace={workspace} scope={scope} onChange={onChange} faults={faults} />}
    </>
  )
}

const SUGGESTED = 20

type TargetsProps = Pick<Props, 'workspace' | 'scope' | 'onChange' | 'faults'>
function Targets({ workspace, scope, onChange, faults }: TargetsProps) {
  const { deployments, tags } = scope
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
  const others = items.filter(({ id }) => !deployments.includes(id))
  const press = (id: string) => onChange({ ...scope, deployments: toggle(deployments, id) })
  return (
    <Inside>
      <TextField
        label="Find a deployment"
        value={text}
        onChange={setText}
        placeholder="Part of the name"
        hint="Press a deployment to select or deselect it."
        fault={faultAt(faults, 'deployment_ids')}
      />
      <ChipSet>
        {[...deployments, ...others.map(({ id }) => id)].map(id => (
          <Chip key={id} pressed={deployments.includes(id)} onPress={() => press(id)}>
            {nameOf(id)}
          </Chip>
        ))}
      </ChipSet>
      {keys && keys.length > 0 && (
        <ChipSet legend="Or deployments with one of these tags">
          {keys.map(key => (
            <TagChips
              key={key.id}
              tagKey={key}
              workspace={workspace}
              tags={tags}
              onPress={id => onChange({ ...scope, tags: toggle(tags, id) })}
            />
          ))}
        </ChipSet>
      )}
    </Inside>
  )
}

type TagKey = Reply<'GET /v2/tag-keys'>['resources'][number]
type TagProps = { tagKey: TagKey; workspace: string; tags: string[]; onPress: (id: string) => void }
function TagChips({ tagKey, workspace, tags, onPress }: TagProps) {
  const { items = [] } = usePages(workspace, 'GET /v2/tag-keys/{tag_key_id}/values', {
    params: { tag_key_id: tagKey.id },
    query: { limit: 100 },
  })
  return (
    <>
      {items.map(({ id, value }) => (
        <Chip key={id} pressed={tags.includes(id)} onPress={() => onPress(id)}>
          {tagKey.key}: {value}
        </Chip>
      ))}
    </>
  )
}
