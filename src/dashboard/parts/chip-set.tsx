// Several chips of which some are chosen, and fields that belong to the choice above them.
import type { ComponentChildren } from 'preact'
import styles from './chip-set.module.css'
import { Chip } from './field.tsx'
import { Glyph } from './icon.tsx'
import { Prose } from './prose.tsx'

export const toggle = (all: string[], one: string): string[] =>
  all.includes(one) ? all.filter(other => other !== one) : [...all, one]

export const Inside = ({ children }: { children: ComponentChildren }) => <div class={styles.inside}>{children}</div>

type SetProps = { legend?: string; hint?: string; fault?: string | undefined; children: ComponentChildren }
export const ChipSet = ({ legend, hint, fault, children }: SetProps) => (
  <fieldset class={styles.chips}>
    {legend && <legend>{legend}</legend>}
    {children}
    {fault && (
      <p class={styles.fault}>
        <Glyph shape="octagon" tone="bad" />
        <Prose text={fault} />
      </p>
    )}
    {hint && <p class={styles.hint}>{hint}</p>}
  </fieldset>
)

type ChoiceProps = Omit<SetProps, 'children'> & {
  options: { value: string; label: string }[]
  chosen: string[]
  onChange: (chosen: string[]) => void
}
/** Chosen values without an option are shown too: they can be removed. */
export const ChipChoice = ({ options, chosen, onChange, ...set }: ChoiceProps) => (
  <ChipSet {...set}>
    {[
      ...options,
      ...chosen.filter(one => !options.some(({ value }) => value === one)).map(value => ({ value, label: value })),
    ].map(({ value, label }) => (
      <Chip key={value} pressed={chosen.includes(value)} onPress={() => onChange(toggle(chosen, value))}>
        {label}
      </Chip>
    ))}
  </ChipSet>
)
