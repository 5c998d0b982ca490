// Surfaces: a card with a head, the place of what is loading, and a page without content.
import type { ComponentChildren } from 'preact'
import { CopyButton } from './copy.tsx'
import styles from './panel.module.css'

type CardProps = {
  title: ComponentChildren
  aside?: ComponentChildren
  tone?: 'warn' | 'bad' | undefined
  class?: string | undefined
  children: ComponentChildren
}
export const Card = ({ title, aside, tone, class: extra = '', children }: CardProps) => (
  <section class={`${styles.card} ${tone ? styles[tone] : ''} ${extra}`}>
    <header>
      <h2>{title}</h2>
      {aside && <div class={styles.aside}>{aside}</div>}
    </header>
    {children}
  </section>
)

/** Lines of the height of what will stand here. */
export const Skeleton = ({ lines, height = 44 }: { lines: number; height?: 20 | 44 }) => (
  <div class={styles.skeleton} role="status" aria-label="Loading">
    {Array.from({ length: lines }, (_, line) => (
      <div key={line} class={height === 44 ? styles.row : styles.text} />
    ))}
  </div>
)

type EmptyProps = { title: string; children: ComponentChildren; command?: string; action?: ComponentChildren }
export const Empty = ({ title, children, command, action }: EmptyProps) => (
  <section class={styles.empty}>
    <h2>{title}</h2>
    <p>{children}</p>
    {command && <CommandLine command={command} />}
    {action}
  </section>
)

/** A command to run in a terminal. */
export const CommandLine = ({ command }: { command: string }) => (
  <div class={styles.command}>
    <code>{command}</code>
    <CopyButton text={() => command} label="Copy the command" />
  </div>
)
