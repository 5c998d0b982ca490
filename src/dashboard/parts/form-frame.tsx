// The frame of a form, a choice with explanations, and a field for a secret that is only written.
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef } from 'preact/hooks'
import { ApiError } from '../api/client.ts'
import styles from './form-frame.module.css'
import { Glyph } from './icon.tsx'
import { Problem } from './problem.tsx'
import { Prose } from './prose.tsx'

type FormProps = {
  label: string
  onSubmit: () => void
  /** The error of the last request. The first field with a fault gets the focus. */
  error?: Error | undefined
  children: ComponentChildren
  footer: ComponentChildren
}
/** Ctrl+Enter submits from every field, Enter from fields of one line. */
export function Form({ label, onSubmit, error, children, footer }: FormProps) {
  const form = useRef<HTMLFormElement>(null)
  useEffect(() => {
    if (error) form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus()
  }, [error])
  return (
    <form
      ref={form}
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
      <div class={styles.fields}>
        {children}
        {error && <FormProblem error={error} />}
      </div>
      <div class={styles.footer}>{footer}</div>
    </form>
  )
}

/** Faults that are shown at their fields are not repeated. */
const FormProblem = ({ error }: { error: Error }) =>
  error instanceof ApiError && error.errors.length > 0 ? (
    <p class={styles.summary} role="alert">
      <Glyph shape="octagon" tone="bad" />
      {error.errors.length === 1 ? 'One field is invalid.' : `${error.errors.length} fields are invalid.`}
    </p>
  ) : (
    <Problem error={error} />
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
        <p>{hint ?? 'Stored encrypted. It cannot be shown again.'}</p>
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
/** Radio buttons with explanations. */
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
