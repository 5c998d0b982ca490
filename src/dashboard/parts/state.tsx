// A state: glyph and word, never color alone.
import type { State } from '../format/state.ts'
import { Glyph } from './icon.tsx'
import styles from './state.module.css'

export const StateLabel = ({ state, large = false }: { state: State; large?: boolean }) => (
  <span data-state class={`${styles.state} ${styles[state.tone]} ${large ? styles.large : ''}`}>
    <Glyph shape={state.shape} tone={state.tone} />
    {state.word}
  </span>
)

type BadgeProps = { tone: State['tone']; children: preact.ComponentChildren }
export const Badge = ({ tone, children }: BadgeProps) => (
  <span class={`${styles.badge} ${styles[`${tone}Badge`]}`}>{children}</span>
)
