// Radio buttons with a line of explanation, so that arrow keys move between them.
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import styles from './new.module.css'

type Option = { value: string; label: string; detail: ComponentChildren; aside?: ComponentChildren }
type OptionsProps = { legend: string; options: Option[]; chosen: string; onChoose: (value: string) => void }

export function Options({ legend, options, chosen, onChoose }: OptionsProps) {
  const name = useId()
  return (
    <fieldset class={styles.options}>
      <legend class={styles.unseen}>{legend}</legend>
      {options.map(({ value, label, detail, aside }) => (
        <label key={value}>
          <input type="radio" name={name} checked={value === chosen} onChange={() => onChoose(value)} />
          <span class={styles.optionText}>
            <b>{label}</b>
            <span>{detail}</span>
          </span>
          {aside && <span class={styles.optionAside}>{aside}</span>}
        </label>
      ))}
    </fieldset>
  )
}
