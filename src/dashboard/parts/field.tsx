// A filter field. Typed text takes effect after a moment, Escape clears it.
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import styles from './field.module.css'
import { Icon } from './icon.tsx'

const TYPING_MS = 160

type FilterProps = {
  label: string
  placeholder: string
  value: string
  onChange: (value: string) => void
  aside?: ComponentChildren
  /** The shortcut that leads here. */
  hint?: string
}
export function FilterField({ label, placeholder, value, onChange, aside, hint }: FilterProps) {
  const [typed, setTyped] = useState(value)
  const sent = useRef(value)
  // Before the page is painted: a key after that would be lost.
  useLayoutEffect(() => {
    // Back, or a link, has changed the address.
    if (value !== sent.current) setTyped(value)
    sent.current = value
  }, [value])
  useEffect(() => {
    if (typed === sent.current) return
    const timer = setTimeout(() => {
      sent.current = typed
      onChange(typed)
    }, TYPING_MS)
    return () => clearTimeout(timer)
  }, [typed])
  return (
    <label class={styles.field}>
      <Icon name="search" />
      <span class={styles.unseen}>{label}</span>
      <input
        type="search"
        data-filter
        placeholder={placeholder}
        autocomplete="off"
        spellcheck={false}
        value={typed}
        onInput={({ currentTarget }) => setTyped(currentTarget.value)}
        onKeyDown={event => {
          if (event.key !== 'Escape') return
          if (typed) setTyped('')
          else event.currentTarget.blur()
        }}
      />
      {aside && <span class={styles.aside}>{aside}</span>}
      {hint && <kbd class={styles.hint}>{hint}</kbd>}
    </label>
  )
}

type ChipProps = { pressed: boolean; onPress: () => void; children: ComponentChildren }
export const Chip = ({ pressed, onPress, children }: ChipProps) => (
  <button type="button" class={styles.chip} aria-pressed={pressed} onClick={onPress}>
    {children}
  </button>
)
