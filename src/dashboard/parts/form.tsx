// Fields of a form: label, control, hint and fault.
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import styles from './form.module.css'
import { Glyph } from './icon.tsx'
import { Prose } from './prose.tsx'

type FieldProps = {
  label: string
  hint?: ComponentChildren
  fault?: string | undefined
  /** Differs from what is stored. */
  isChanged?: boolean | undefined
  /** The reason why it cannot be changed. The control is then disabled. */
  unavailable?: string | undefined
}
/** A control without a field, which would show the reason. */
export const unavailableControl = (reason: string | undefined) => ({ disabled: reason !== undefined, title: reason })
export const unlessChanged = (isChanged: boolean) => (isChanged ? undefined : 'Nothing has changed.')

type ControlProps = { id: string; disabled: boolean; 'aria-describedby': string; 'aria-invalid': boolean }

const About = ({ id, fault, text }: { id: string; fault: string | undefined; text: ComponentChildren }) => (
  <div id={id} class={styles.about}>
    {fault && (
      <p class={styles.fault}>
        <Glyph shape="octagon" tone="bad" />
        <Prose text={fault} />
      </p>
    )}
    {text && <p>{typeof text === 'string' ? <Prose text={text} /> : text}</p>}
  </div>
)

function Field({
  label,
  hint,
  fault,
  isChanged,
  unavailable,
  wide = false,
  children,
}: FieldProps & { wide?: boolean; children: (control: ControlProps) => ComponentChildren }) {
  const id = useId()
  const control = {
    id,
    disabled: unavailable !== undefined,
    'aria-describedby': `${id}-about`,
    'aria-invalid': fault !== undefined,
  }
  return (
    <div class={`${styles.field} ${wide ? styles.wide : ''}`}>
      <label for={id}>
        {label}
        {isChanged && <span class={styles.changed}>changed</span>}
      </label>
      {children(control)}
      <About id={`${id}-about`} fault={fault} text={unavailable ?? hint} />
    </div>
  )
}

type TextProps = FieldProps & {
  value: string
  onChange: (value: string) => void
  placeholder?: string
  /** For text that could be pasted into a terminal. */
  mono?: boolean
  /** The number of lines; more than one makes it a text area. */
  rows?: number
  /** The keyboard of a phone. */
  inputMode?: 'text' | 'numeric' | 'decimal' | 'url' | 'email'
  unit?: string
  /** Values to choose from, or to complete what is typed. */
  suggestions?: readonly string[]
  wide?: boolean
}
export function TextField({
  value,
  onChange,
  placeholder,
  mono = false,
  rows = 1,
  inputMode,
  unit,
  suggestions,
  wide,
  ...field
}: TextProps) {
  const list = useId()
  const shared = { value, placeholder, autocomplete: 'off', spellcheck: false, class: mono ? styles.mono : undefined }
  return (
    <Field wide={wide ?? rows > 1} {...field}>
      {control =>
        rows > 1 ? (
          <textarea
            {...control}
            {...shared}
            rows={rows}
            onInput={({ currentTarget }) => onChange(currentTarget.value)}
          />
        ) : (
          <span class={styles.box}>
            <input
              {...control}
              {...shared}
              type="text"
              inputMode={inputMode}
              {...(suggestions && { list })}
              onInput={({ currentTarget }) => onChange(currentTarget.value)}
            />
            {suggestions && (
              <datalist id={list}>
                {suggestions.map(one => (
                  <option key={one} value={one} />
                ))}
              </datalist>
            )}
            {unit && <span class={styles.unit}>{unit}</span>}
          </span>
        )
      }
    </Field>
  )
}

type TimeProps = FieldProps & {
  /** `time` is a time of the day. */
  type?: 'datetime-local' | 'time'
  value: string
  onChange: (value: string) => void
}
export const TimeField = ({ type = 'datetime-local', value, onChange, ...field }: TimeProps) => (
  <Field {...field}>
    {control => (
      <input {...control} type={type} value={value} onInput={({ currentTarget }) => onChange(currentTarget.value)} />
    )}
  </Field>
)
/** The value of a `TimeField` for a time, in the time zone of the browser. */
export const toLocalInput = (time: number): string =>
  new Date(time - new Date(time).getTimezoneOffset() * 60_000).toISOString().slice(0, 16)

type Option = { value: string; label: string; group?: string }
type SelectProps = FieldProps & { value: string; options: Option[]; onChange: (value: string) => void }
export const SelectField = ({ value, options, onChange, ...field }: SelectProps) => (
  <Field {...field}>
    {control => (
      <select {...control} value={value} onChange={({ currentTarget }) => onChange(currentTarget.value)}>
        {toGroups(options).map(([group, members]) => {
          const shown = members.map(option => (
            <option key={option.value} value={option.value}>
              {option.label}
            </option>
          ))
          return group ? (
            <optgroup key={group} label={group}>
              {shown}
            </optgroup>
          ) : (
            shown
          )
        })}
      </select>
    )}
  </Field>
)

const toGroups = (options: Option[]) => [...Map.groupBy(options, ({ group }) => group)]

type CheckProps = FieldProps & { checked: boolean; onChange: (checked: boolean) => void }
export function CheckField({ label, hint, fault, isChanged, unavailable, checked, onChange }: CheckProps) {
  const id = useId()
  return (
    <div class={styles.field}>
      <label class={styles.check}>
        <input
          type="checkbox"
          checked={checked}
          disabled={unavailable !== undefined}
          aria-describedby={id}
          onChange={({ currentTarget }) => onChange(currentTarget.checked)}
        />
        {label}
        {isChanged && <span class={styles.changed}>changed</span>}
      </label>
      <About id={id} fault={fault} text={unavailable ?? hint} />
    </div>
  )
}

/** Two fields of a form beside each other, where there is room. */
export const Pair = ({ children }: { children: ComponentChildren }) => <div class={styles.pair}>{children}</div>

/** Fields beside each other where there is room. */
export const Fields = ({ children }: { children: ComponentChildren }) => <div class={styles.fields}>{children}</div>

type BarProps = { children: ComponentChildren; actions: ComponentChildren }
/** Stays in sight while something is not applied yet. */
export const UnsavedBar = ({ children, actions }: BarProps) => (
  <section class={styles.bar} data-bar aria-label="Unsaved changes">
    <div class={styles.barText} role="status">
      {children}
    </div>
    <div class={styles.barActions}>{actions}</div>
  </section>
)
