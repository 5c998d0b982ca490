// A placeholder while loading, an empty state, and a command to copy.
import type { ComponentChildren } from 'preact'
import { CopyButton } from './copy.tsx'
import styles from './panel.module.css'

/** Placeholder lines of the height of the content. */
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
