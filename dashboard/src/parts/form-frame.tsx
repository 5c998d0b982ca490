// What surrounds the fields of a form, a choice with explanations, and a secret that is only written.
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import styles from './form-frame.module.css'
import { Prose } from './prose.tsx'

type FormProps = { label: string; onSubmit: () => void; children: ComponentChildren; footer: ComponentChildren }
/** Ctrl+Enter submits from every field, as Enter does from those of one line. */
export const Form = ({ label, onSubmit, children, footer }: FormProps) => (
  <form
    aria-label={label}
    onSubmit={event => {
      event.preventDefault()
      onSubmit()
    }}
    onKeyDown={event => {
      if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      onSubmit()
    }}
  >
    <div class={styles.fields}>{children}</div>
    <div class={styles.footer}>{footer}</div>
  </form>
)

type SecretProps = {
  label: string
  hint?: string
  fault?: string | undefined
  value: string
  onChange: (value: string) => void
}
/** Written, and never read back. */
export function SecretField({ label, hint, fault, value, onChange }: SecretProps) {
  const id = useId()
  return (
    <div class={styles.secret}>
      <label for={id}>{label}</label>
      <input
        id={id}
        type="password"
        autocomplete="off"
        aria-describedby={`${id}-about`}
        aria-invalid={fault !== undefined}
        value={value}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
      <div id={`${id}-about`} class={styles.about}>
        {fault && (
          <p class={styles.fault}>
            <Prose text={fault} />
          </p>
        )}
        <p>{hint ?? 'Stored encrypted, and never shown again.'}</p>
      </div>
    </div>
  )
}

type Choice<Value extends string> = { value: Value; label: string; detail?: string }
type ChoicesProps<Value extends string> = {
  legend: string
  value: Value
  onChange: (value: Value) => void
  options: Choice<Value>[]
}
/** One of a few, each with what it means. */
export function Choices<Value extends string>({ legend, value, onChange, options }: ChoicesProps<Value>) {
  const name = useId()
  return (
    <fieldset class={styles.choices}>
      <legend>{legend}</legend>
      {options.map(option => (
        <label key={option.value}>
          <input type="radio" name={name} checked={option.value === value} onChange={() => onChange(option.value)} />
          <span>
            <b>{option.label}</b>
            {option.detail && <span>{option.detail}</span>}
          </span>
        </label>
      ))}
    </fieldset>
  )
}
