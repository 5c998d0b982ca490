// The variables of a new deployment, a row each. Their values are hidden until they are shown.
import { useEffect, useState } from 'preact/hooks'
import type { Faults } from '../../api/faults.ts'
import { Button } from '../../parts/button.tsx'
import { Glyph } from '../../parts/icon.tsx'
import { newEdit, type VariableEdit } from '../deployments/variable-edits.ts'
import { NameField, PASTED, ValueField } from '../variable-fields.tsx'
import { faultsOfVariables, listVariables } from './draft.ts'
import styles from './new.module.css'

export type Notice = { tone: 'ok' | 'bad'; text: string }
type VariablesProps = {
  variables: readonly VariableEdit[]
  faults: Faults
  /** The outcome of a text with variables. */
  notice: Notice | undefined
  onChange: (variables: readonly VariableEdit[]) => void
  onText: (text: string, source: string) => void
}

export function Variables({ variables, faults, notice, onChange, onText }: VariablesProps) {
  const [isShown, setShown] = useState(false)
  const found = faultsOfVariables(faults, variables)
  const update = (edit: VariableEdit, change: Partial<VariableEdit>) =>
    onChange(variables.map(one => (one === edit ? { ...one, ...change } : one)))
  const [isOpen, setOpen] = useState(false)
  const mustOpen = found.size > 0 || notice?.tone === 'bad'
  useEffect(() => {
    if (mustOpen) setOpen(true)
  }, [mustOpen])
  return (
    <details class={styles.details} open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        Environment variables <span>{describe(listVariables(variables))}</span>
      </summary>
      {notice && (
        <p class={styles.read} role="status">
          <Glyph shape={notice.tone === 'ok' ? 'check' : 'octagon'} tone={notice.tone} />
          {notice.text}
        </p>
      )}
      {variables.length > 0 && (
        <ul class={styles.variables} aria-label="Environment variables">
          {variables.map(edit => {
            const { name, value } = found.get(edit.id) ?? {}
            const title = edit.name || 'the new variable'
            return (
              <li key={edit.id}>
                <div>
                  <NameField
                    name={edit.name}
                    isInvalid={name !== undefined}
                    isNew={edit.name === '' && !edit.value && edit === variables.at(-1)}
                    fault={name}
                    onChange={changed => update(edit, { name: changed })}
                    onPaste={text => onText(text, PASTED)}
                  />
                </div>
                <div>
                  <ValueField
                    label={`Value of ${title}`}
                    value={edit.value ?? ''}
                    placeholder="Value"
                    shown={isShown}
                    fault={value}
                    onChange={changed => update(edit, { value: changed })}
                  />
                </div>
                <Button
                  look="bare"
                  icon="cross"
                  aria-label={`Remove ${title}`}
                  title={`Remove ${title}`}
                  onClick={() => onChange(variables.filter(one => one !== edit))}
                />
              </li>
            )
          })}
        </ul>
      )}
      <div class={styles.variableActions}>
        <Button small icon="plus" onClick={() => onChange([...variables, newEdit('', '', true)])}>
          Add variable
        </Button>
        {variables.length > 0 && (
          <Button small look="bare" aria-pressed={isShown} onClick={() => setShown(!isShown)}>
            {isShown ? 'Hide values' : 'Show values'}
          </Button>
        )}
        <p>Paste the lines of a .env file into a name to add all of them. Values are stored encrypted.</p>
      </div>
    </details>
  )
}

function describe(listed: { name: string }[]): string {
  if (listed.length === 0) return 'None'
  const names = listed.slice(0, 3).map(({ name }) => name)
  return names.join(', ') + (listed.length > 3 ? ` and ${listed.length - 3} more` : '')
}
