// Sections of a page: columns, facts, notes, and the inside of a card.
import type { ComponentChildren } from 'preact'
import type { Shape, Tone } from '../format/state.ts'
import { Glyph } from './icon.tsx'
import styles from './sections.module.css'

/** A title of a card with the glyph of its state. */
export const Marked = ({ shape, tone, children }: { shape: Shape; tone: Tone; children: ComponentChildren }) => (
  <span class={styles.marked}>
    <Glyph shape={shape} tone={tone} />
    <span>{children}</span>
  </span>
)

/** A wide section and a narrow one side by side. */
export const Columns = ({ children }: { children: ComponentChildren }) => <div class={styles.columns}>{children}</div>

/** The inside of a card that is no table. */
export const Body = ({ children }: { children: ComponentChildren }) => <div class={styles.body}>{children}</div>
export const Note = ({ children }: { children: ComponentChildren }) => <p class={styles.note}>{children}</p>

export type Fact = [label: string, value: ComponentChildren]
/** A list of facts. Facts without a value are left out. */
export const Facts = ({ facts }: { facts: Fact[] }) => (
  <dl class={styles.facts}>
    {facts.flatMap(([label, value]) =>
      value === null || value === undefined || value === false || value === ''
        ? []
        : [
            <div key={label}>
              <dt>{label}</dt>
              <dd>{value}</dd>
            </div>,
          ],
    )}
  </dl>
)

export const Foot = ({ children }: { children: ComponentChildren }) => <footer class={styles.foot}>{children}</footer>
