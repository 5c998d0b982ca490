// The variables of a deployment, as a table and as the text of a `.env` file: two views of the same draft. Values are
// written, not read, unless they are revealed.
import { useRef, useState } from 'preact/hooks'
import { describeUnreadLines, writeVariable } from '../../../protocol/env-file.ts'
import { getClient } from '../../api/client.ts'
import { type Faults, faultAt, listFaults } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { useRead } from '../../api/queries.ts'
import type { Deployment, Revision } from '../../format/state.ts'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Chip } from '../../parts/field.tsx'
import { unavailableControl } from '../../parts/form.tsx'
import { Glyph } from '../../parts/icon.tsx'
import { CommandLine } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Prose } from '../../parts/prose.tsx'
import { Badge } from '../../parts/state.tsx'
import { useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { NameField, PASTED, ValueField } from '../variable-fields.tsx'
import type { Draft } from './draft.ts'
import { draftOf, type Preview, previewOf, setDraft } from './draft-store.ts'
import styles from './environment.module.css'
import { DeploymentFrame } from './frame.tsx'
import {
  editOf,
  editsOfText,
  listEffective,
  listVariables,
  MASK,
  newEdit,
  readVariables,
  takeText,
  type VariableEdit,
  withStoredEdit,
} from './variable-edits.ts'

const MAX_FILE_BYTES = 256 * 1024

export default function EnvironmentPage({ workspace, params, me }: ScreenProps<{ deployment: string }>) {
  return (
    <DeploymentFrame workspace={workspace} id={params.deployment} tab="/environment">
      {deployment => <Environment workspace={workspace} me={me} deployment={deployment} />}
    </DeploymentFrame>
  )
}

type EnvironmentProps = Pick<ScreenProps, 'workspace' | 'me'> & { deployment: Deployment }

function Environment({ workspace, me, deployment }: EnvironmentProps) {
  const [view, setView] = useFilter('view')
  const [revealed, setRevealed] = useState<ReadonlyMap<string, string>>()
  const [isAsking, setAsking] = useState(false)
  const [notice, setNotice] = useState<{ tone: 'ok' | 'bad'; text: string }>()
  const file = useRef<HTMLInputElement>(null)
  const draft = draftOf(deployment)
  const preview = previewOf(deployment)
  const faults = nameFaults(listFaults(preview.error), deployment, draft)
  const change = (variables: readonly VariableEdit[]) => setDraft(deployment, { ...draft, variables })
  const locked = explainMissing(me, workspace, 'deployments:update')
  const cannotReveal = explainMissing(me, workspace, 'secrets:read')
  const cannotWrite = draft.variables.some(({ name, value }) => value !== undefined && !writeVariable(name, value))
  const isText = view === 'text'

  const refuse = (text: string) => setNotice({ tone: 'bad', text })
  function take(text: string, source: string): void {
    const taken = takeText(deployment, draft.variables, text, source)
    if ('refusal' in taken) refuse(taken.refusal)
    else {
      const { variables, count, known, leftOut } = taken
      change(variables)
      const outcome = `${source}: ${count - known} new, ${known} with a name that is stored. Others stay.${leftOut}`
      setNotice({ tone: 'ok', text: outcome })
    }
  }
  async function takeFile(chosen: File | undefined): Promise<void> {
    if (!chosen) return
    if (chosen.size > MAX_FILE_BYTES) refuse(`${chosen.name} has more than 256 KB. Nothing was read.`)
    else take(await chosen.text(), chosen.name)
  }

  return (
    <div class={styles.page}>
      <Card
        title="Variables"
        aside={
          <>
            <span class={styles.views}>
              <Chip pressed={!isText} onPress={() => setView('')}>
                Table
              </Chip>
              <Chip pressed={isText} onPress={() => !cannotWrite && setView('text')}>
                Text
              </Chip>
            </span>
            <input
              ref={file}
              type="file"
              class={styles.unseen}
              tabIndex={-1}
              aria-label="A .env file"
              onChange={({ currentTarget }) => {
                void takeFile(currentTarget.files?.[0])
                currentTarget.value = ''
              }}
            />
            <Button small icon="archive" unavailable={locked} onClick={() => file.current?.click()}>
              Import .env
            </Button>
            {deployment.secrets.length > 0 && (
              <Button
                small
                unavailable={cannotReveal}
                onClick={() => (revealed ? setRevealed(undefined) : setAsking(true))}
              >
                {revealed ? 'Hide values' : 'Reveal values'}
              </Button>
            )}
          </>
        }
      >
        {/* biome-ignore lint/a11y/noStaticElementInteractions: the button does the same */}
        <div
          onDragOver={event => event.preventDefault()}
          onDrop={event => {
            event.preventDefault()
            if (!locked) void takeFile(event.dataTransfer?.files[0])
          }}
        >
          {notice && (
            <p class={styles.notice} role="status">
              <Glyph shape={notice.tone === 'ok' ? 'check' : 'octagon'} tone={notice.tone} />
              {notice.text}
            </p>
          )}
          {locked && <p class={styles.notice}>{locked}</p>}
          {isText ? (
            <TextView deployment={deployment} draft={draft} revealed={revealed} locked={locked} onChange={change} />
          ) : (
            <TableView
              workspace={workspace}
              deployment={deployment}
              draft={draft}
              revealed={revealed}
              locked={locked}
              faults={faults}
              preview={preview}
              onChange={change}
              onPaste={text => take(text, PASTED)}
            />
          )}
        </div>
      </Card>
      <Comparison deployment={deployment} draft={draft} preview={preview} faults={faults} isText={isText} />
      <References deployment={deployment} />
      <p class={styles.command}>To import a file in a terminal:</p>
      <CommandLine command={`slipway env import .env --name ${deployment.name}`} />
      {isAsking && <Reveal deployment={deployment} onReveal={setRevealed} onClose={() => setAsking(false)} />}
    </div>
  )
}

/** Keys are names of variables, and numbers for new ones: a name may be the fault. */
function nameFaults(faults: Faults, deployment: Deployment, draft: Draft): Faults {
  const sent = listVariables(deployment, draft.variables)
  const edits = listEffective(deployment, draft.variables)
  const named = new Map<string, string>()
  for (const [path] of faults) {
    const [, index] = /^secrets\.(\d+)(\.|$)/.exec(path) ?? []
    if (index === undefined) continue
    const variable = sent[Number(index)]
    const edit = edits.find(one => one.isNew && one.name === variable?.name && one.value === variable.value)
    const fault = faultAt(faults, `secrets.${index}`)
    if (variable && fault) named.set(edit ? `new ${edit.id}` : variable.name, fault)
  }
  return named
}

// ---- the table

type TableProps = {
  workspace: string
  deployment: Deployment
  draft: Draft
  revealed: ReadonlyMap<string, string> | undefined
  locked: string | undefined
  faults: Faults
  preview: Preview
  onChange: (variables: readonly VariableEdit[]) => void
  onPaste: (text: string) => void
}

function TableView({ workspace, deployment, draft, revealed, locked, faults, preview, onChange, onPaste }: TableProps) {
  const { variables } = draft
  const versions = useVersions(workspace, deployment)
  const added = variables.filter(({ isNew }) => isNew)
  const update = (edit: VariableEdit, change: Partial<VariableEdit>) =>
    onChange(variables.map(one => (one === edit ? { ...one, ...change } : one)))
  const add = () => onChange([...variables, newEdit('', '', true)])
  const changeOf = (name: string) => preview.plan?.secrets.find(secret => secret.name === name)?.change
  return (
    <>
      {deployment.secrets.length + added.length === 0 && (
        <p class={styles.none}>
          No variables yet. Add one, or drop a <code>.env</code> file here.
        </p>
      )}
      {deployment.secrets.length + added.length > 0 && (
        <table class={styles.table}>
          <caption class={styles.unseen}>Variables and their edits</caption>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Value</th>
              <th scope="col">Stored</th>
              <th scope="col">
                <span class={styles.unseen}>Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {deployment.secrets.map(({ name }) => {
              const edit = editOf(variables, name)
              const isRemoved = edit !== undefined && edit.value === undefined
              const set = (value: string | undefined | null) => onChange(withStoredEdit(variables, name, value))
              const isSame = edit !== undefined && !isRemoved && preview.plan !== undefined && !changeOf(name)
              return (
                <tr key={name} class={isRemoved ? styles.removed : undefined}>
                  <th scope="row">
                    <code>{name}</code>
                  </th>
                  <td>
                    {isRemoved ? (
                      <span class={styles.gone}>The value cannot be restored.</span>
                    ) : (
                      <ValueField
                        label={`Value of ${name}`}
                        value={edit?.value ?? revealed?.get(name) ?? ''}
                        placeholder={edit ? '(empty)' : 'Stored, hidden. Type to replace it'}
                        shown={revealed !== undefined}
                        locked={locked}
                        fault={faults.get(name)}
                        onChange={value => set(value)}
                      />
                    )}
                  </td>
                  <td class={styles.state}>
                    {edit ? (
                      <Badge tone={isRemoved ? 'bad' : isSame ? 'idle' : 'busy'}>
                        {isRemoved ? 'Removed' : isSame ? 'Same value' : 'Changed'}
                      </Badge>
                    ) : (
                      <span>{versions(name)}</span>
                    )}
                  </td>
                  <td class={styles.actions}>
                    {edit ? (
                      <Button small look="bare" aria-label={`Undo the edit of ${name}`} onClick={() => set(null)}>
                        Undo
                      </Button>
                    ) : (
                      <Button
                        small
                        look="bare"
                        icon="cross"
                        unavailable={locked}
                        aria-label={`Remove ${name}`}
                        title={`Remove ${name}`}
                        onClick={() => set(undefined)}
                      />
                    )}
                  </td>
                </tr>
              )
            })}
            {added.map(edit => {
              const title = edit.name || 'the new variable'
              return (
                <tr key={edit.id}>
                  <td>
                    <NameField
                      name={edit.name}
                      isInvalid={faults.has(`new ${edit.id}`)}
                      isNew={edit.name === '' && edit.value === '' && edit === added.at(-1)}
                      onChange={name => update(edit, { name })}
                      onPaste={onPaste}
                    />
                  </td>
                  <td>
                    <ValueField
                      label={`Value of ${title}`}
                      value={edit.value ?? ''}
                      placeholder="Value"
                      shown={revealed !== undefined}
                      locked={locked}
                      fault={faults.get(`new ${edit.id}`)}
                      onChange={value => update(edit, { value })}
                    />
                  </td>
                  <td class={styles.state}>
                    <Badge tone="ok">
                      {deployment.secrets.some(({ name }) => name === edit.name)
                        ? 'Replaces the stored value'
                        : 'Added'}
                    </Badge>
                  </td>
                  <td class={styles.actions}>
                    <Button
                      small
                      look="bare"
                      icon="cross"
                      aria-label={`Remove ${title}`}
                      onClick={() => onChange(variables.filter(one => one !== edit))}
                    />
                  </td>
                </tr>
              )
            })}
          </tbody>
        </table>
      )}
      <div class={styles.foot}>
        <Button small icon="plus" unavailable={locked} onClick={add}>
          Add variable
        </Button>
        <span>Paste the lines of a .env file into a new name to add all of them.</span>
      </div>
    </>
  )
}

/** Describes which revision set a value, and whether the serving revision has it. */
function useVersions(workspace: string, deployment: Deployment): (name: string) => string {
  const { id, latest_revision_id: latest, active_revision_id: active } = deployment
  const useRevision = (revision: string | null) =>
    useRead(
      workspace,
      'GET /v2/deployments/{deployment_id}/revisions/{revision_id}',
      { params: { deployment_id: id, revision_id: revision ?? '' } },
      { enabled: revision !== null },
    ).data
  const [wanted, serving] = [useRevision(latest), useRevision(active)]
  const versionIn = (revision: Revision | undefined, name: string) =>
    revision?.secrets.find(secret => secret.name === name)?.version
  return name => {
    const version = versionIn(wanted, name)
    if (version === undefined) return ''
    const served = versionIn(serving, name)
    if (!serving || served === version) return `Set by r${version}`
    return `Set by r${version}. r${serving.number} serves ${served === undefined ? 'without it' : 'an older value'}`
  }
}

// ---- the text

type TextProps = Pick<TableProps, 'deployment' | 'draft' | 'revealed' | 'locked' | 'onChange'>

function TextView({ deployment, draft, revealed, locked, onChange }: TextProps) {
  // Another person may add variables while this text is edited: `base` has the names that the text was made from.
  const [written, setWritten] = useState<{ base: string[]; text: string; edits: readonly VariableEdit[] }>()
  // The draft was applied, discarded or imported since.
  const isOld = written?.edits !== draft.variables && (written?.edits.length || draft.variables.length) !== 0
  const { base, text } = written && !isOld ? written : writeText(deployment, draft, revealed)
  const unread = describeUnreadLines(text)
  const change = (next: string) => {
    // An invalid line would remove its variable.
    if (describeUnreadLines(next)) return setWritten({ base, text: next, edits: draft.variables })
    const isSame = ({ name, value }: VariableEdit) => value !== undefined && revealed?.get(name) === value
    const edits = editsOfText(base, readVariables(next)).filter(edit => edit.isNew || !isSame(edit))
    setWritten({ base, text: next, edits })
    onChange(edits)
  }
  return (
    <div class={styles.text}>
      <textarea
        aria-label="Variables as text"
        aria-describedby="text-about"
        aria-invalid={unread !== undefined}
        rows={Math.min(24, Math.max(8, text.split('\n').length + 2))}
        autocomplete="off"
        spellcheck={false}
        {...unavailableControl(locked)}
        value={text}
        onInput={({ currentTarget }) => change(currentTarget.value)}
      />
      {unread && (
        <p class={styles.unread} role="alert">
          <Glyph shape="octagon" tone="bad" />
          {unread} The draft is unchanged until the line is valid.
        </p>
      )}
      <p id="text-about">
        <code>{MASK}</code> keeps the stored value. To remove a variable, delete its line. Quotes, comments and several
        lines are read as in any .env file.
      </p>
    </div>
  )
}

function writeText(deployment: Deployment, draft: Draft, revealed: TableProps['revealed']) {
  const lines = listVariables(deployment, draft.variables).map(({ name, value }) =>
    writeVariable(name, value === MASK ? (revealed?.get(name) ?? MASK) : value),
  )
  return { base: deployment.secrets.map(({ name }) => name), text: lines.filter(Boolean).join('\n') }
}

// ---- changes of the draft

type ComparisonProps = { deployment: Deployment; draft: Draft; preview: Preview; faults: Faults; isText: boolean }

/** Names only, compared with the stored ones. The plan knows equal values. */
function Comparison({ deployment, draft, preview, faults, isText }: ComparisonProps) {
  const edits = listEffective(deployment, draft.variables)
  if (edits.length === 0) return null
  const stored = new Set(deployment.secrets.map(({ name }) => name))
  const changed = preview.plan && new Map(preview.plan.secrets.map(({ name, change }) => [name, change]))
  const kindOf = ({ name, value }: VariableEdit) => {
    if (value === undefined) return 'removed'
    if (changed) return changed.get(name) ?? 'same value'
    return stored.has(name) ? 'changed' : 'added'
  }
  const kinds = ['added', 'changed', 'removed', 'same value'].map(kind => ({
    kind,
    names: edits.filter(edit => kindOf(edit) === kind).map(({ name }) => name || '(no name)'),
  }))
  return (
    <Card title="Changes to the stored variables">
      <dl class={styles.comparison}>
        {kinds
          .filter(({ names }) => names.length > 0)
          .map(({ kind, names }) => (
            <div key={kind}>
              <dt>
                {names.length} {kind}
              </dt>
              <dd>
                {names.map(name => (
                  <code key={name} class={styles[kind.replace(' ', '')]}>
                    {name}
                  </code>
                ))}
              </dd>
            </div>
          ))}
      </dl>
      {isText && faults.size > 0 && (
        <ul class={styles.faults}>
          {[...faults].map(([name, fault]) => (
            <li key={name}>
              {!name.startsWith('new ') && <code>{name}</code>} <Prose text={fault} />
            </li>
          ))}
        </ul>
      )}
    </Card>
  )
}

function References({ deployment: { secret_references } }: { deployment: Deployment }) {
  if (!secret_references?.length) return null
  return (
    <Card title="From cluster secrets">
      <dl class={styles.comparison}>
        {secret_references.map(({ name, secret_name, secret_key }) => (
          <div key={name}>
            <dt>
              <code>{name}</code>
            </dt>
            <dd>
              Key <code>{secret_key}</code> of <code>{secret_name}</code>. Change it in the settings.
            </dd>
          </div>
        ))}
      </dl>
    </Card>
  )
}

type RevealProps = {
  deployment: Deployment
  onReveal: (values: ReadonlyMap<string, string>) => void
  onClose: () => void
}
function Reveal({ deployment: { id, name, secrets }, onReveal, onClose }: RevealProps) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<Error>()
  async function reveal(): Promise<void> {
    setBusy(true)
    setError(undefined)
    try {
      const params = { deployment_id: id }
      const read = await getClient().call('GET /v2/deployments/{deployment_id}', { params, query: { reveal: true } })
      onReveal(new Map(read.secrets.map(secret => [secret.name, secret.value])))
      onClose()
    } catch (caught) {
      setError(caught as Error)
    }
    setBusy(false)
  }
  return (
    <Dialog
      title={`Reveal the values of ${name}?`}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Keep them hidden</Button>
          <Button look="primary" busy={busy} onClick={() => void reveal()}>
            Reveal {secrets.length === 1 ? '1 value' : `${secrets.length} values`}
          </Button>
        </>
      }
    >
      <p>
        The values are shown until you leave this page. The event <code>deployment.secrets_revealed</code> with your
        name stays in the journal.
      </p>
      {error && <Problem error={error} />}
    </Dialog>
  )
}
