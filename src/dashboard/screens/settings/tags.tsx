// The tag keys of the workspace with their values.
import { useState } from 'preact/hooks'
import type { Action } from '../../api/actions.ts'
import type { Me } from '../../api/client.ts'
import { usePages } from '../../api/queries.ts'
import { useReadEach } from '../../api/read-each.ts'
import { useAction } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { CommandLine, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Note } from '../../parts/sections.tsx'
import {
  createTagKey,
  createTagValue,
  deleteTagKey,
  deleteTagValue,
  renameTagKey,
  type TagKey,
  type TagValue,
} from './actions.ts'
import styles from './settings.module.css'

const VALUES = 'GET /v2/tag-keys/{tag_key_id}/values'
type Caller = { me: Me; workspace: string }

export function TagsCard(caller: Caller) {
  const { items: keys, error } = usePages(caller.workspace, 'GET /v2/tag-keys', { query: { limit: 100 } })
  const { data: values } = useReadEach(
    caller.workspace,
    VALUES,
    (keys ?? []).map(({ id }) => ({ params: { tag_key_id: id }, query: { limit: 100 } })),
  )
  const ordered = keys?.toSorted((a, b) => a.key.localeCompare(b.key))
  const all = values?.flatMap(({ resources }) => resources) ?? []
  return (
    <Card
      title="Tags"
      aside={<AddField label="Add key" placeholder="team" toAction={key => createTagKey(caller, key)} />}
    >
      {error && !keys && <Problem error={error} />}
      {!keys && !error && <Skeleton lines={3} />}
      {ordered?.length === 0 && (
        <Body>
          <Note>
            No tags yet. Use tags to find deployments and to limit webhooks, for example by team, stage or customer. Add
            a key, then values.
          </Note>
          <CommandLine command="slipway list --tag team=payments" />
        </Body>
      )}
      {ordered?.map(key => (
        <TagRow key={key.id} caller={caller} tagKey={key} values={all.filter(one => one.tag_key_id === key.id)} />
      ))}
    </Card>
  )
}

type TagRowProps = { caller: Caller; tagKey: TagKey; values: TagValue[] }
function TagRow({ caller, tagKey, values }: TagRowProps) {
  const [isRenamed, setRenamed] = useState(false)
  const { start, question } = useAction()
  return (
    <section class={styles.tag} aria-label={`Tag key ${tagKey.key}`}>
      {isRenamed ? (
        <AddField
          label="Rename key"
          initial={tagKey.key}
          placeholder={tagKey.key}
          toAction={key => renameTagKey(caller, tagKey, key)}
          onDone={() => setRenamed(false)}
        />
      ) : (
        <b>{tagKey.key}</b>
      )}
      <div class={styles.values}>
        {values
          .toSorted((a, b) => a.value.localeCompare(b.value))
          .map(value => (
            <span key={value.id} class={styles.value}>
              {value.value}
              <Button
                small
                look="bare"
                icon="cross"
                aria-label={`Delete ${tagKey.key}=${value.value}`}
                onClick={() => start(deleteTagValue(caller, tagKey, value))}
              />
            </span>
          ))}
        <AddField label="Add value" placeholder="payments" toAction={value => createTagValue(caller, tagKey, value)} />
      </div>
      <div class={styles.buttons}>
        <Button small look="bare" onClick={() => setRenamed(before => !before)}>
          {isRenamed ? 'Cancel' : 'Rename'}
        </Button>
        <Button small look="bare" onClick={() => start(deleteTagKey(caller, tagKey, values.length))}>
          Delete key
        </Button>
      </div>
      {question}
    </section>
  )
}

type AddFieldProps = {
  label: string
  placeholder: string
  initial?: string
  toAction: (text: string) => Action
  onDone?: () => void
}
function AddField({ label, placeholder, initial = '', toAction, onDone }: AddFieldProps) {
  const [text, setText] = useState(initial)
  const { start, busy } = useAction({
    onDone: () => {
      setText('')
      onDone?.()
    },
  })
  const action = toAction(text.trim())
  return (
    <form
      class={styles.add}
      onSubmit={event => {
        event.preventDefault()
        if (text.trim()) start(action)
      }}
    >
      <input
        aria-label={label}
        placeholder={placeholder}
        autocomplete="off"
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
      />
      <Button
        type="submit"
        small
        busy={busy}
        unavailable={action.unavailable ?? (text.trim() ? undefined : 'Type a name first.')}
      >
        {label}
      </Button>
    </form>
  )
}
