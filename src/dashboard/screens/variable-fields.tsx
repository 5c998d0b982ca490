// The name and the value of a variable that is edited.
import { unavailableControl } from '../parts/form.tsx'
import { Prose } from '../parts/prose.tsx'
import { readVariables } from './deployments/variable-edits.ts'
import styles from './variable-fields.module.css'

/** The source of lines that were pasted into a name. */
export const PASTED = 'The pasted text'

type NameProps = {
  name: string
  isInvalid: boolean
  /** It gets the focus. */
  isNew: boolean
  fault?: string | undefined
  onChange: (name: string) => void
  /** Gets a text with lines of the form NAME=value. */
  onPaste: (text: string) => void
}
export const NameField = ({ name, isInvalid, isNew, fault, onChange, onPaste }: NameProps) => (
  <>
    <input
      class={styles.name}
      aria-label="Name of the new variable"
      aria-invalid={isInvalid}
      placeholder="NAME"
      autocomplete="off"
      spellcheck={false}
      value={name}
      ref={input => {
        if (isNew) input?.focus()
      }}
      onPaste={event => {
        const text = event.clipboardData?.getData('text') ?? ''
        if (!text.includes('=') || readVariables(text).size === 0) return
        event.preventDefault()
        onPaste(text)
      }}
      onInput={({ currentTarget }) => onChange(currentTarget.value)}
    />
    <Fault text={fault} />
  </>
)

type ValueProps = {
  label: string
  value: string
  placeholder: string
  shown: boolean
  locked?: string | undefined
  fault: string | undefined
  onChange: (value: string) => void
}
/** Hidden like a password, but with several lines. */
export const ValueField = ({ label, value, placeholder, shown, locked, fault, onChange }: ValueProps) => (
  <>
    <textarea
      class={`${styles.value} ${shown || value === '' ? '' : styles.concealed}`}
      rows={1}
      aria-label={label}
      aria-invalid={fault !== undefined}
      placeholder={placeholder}
      {...unavailableControl(locked)}
      autocomplete="off"
      spellcheck={false}
      value={value}
      onInput={({ currentTarget }) => onChange(currentTarget.value)}
    />
    <Fault text={fault} />
  </>
)

const Fault = ({ text }: { text: string | undefined }) =>
  text ? (
    <p class={styles.fault}>
      <Prose text={text} />
    </p>
  ) : null
