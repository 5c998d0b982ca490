// The toolbar of a log: search, kind, revision, level and time, and the switches of the reader.
import type { Signal } from '@preact/signals'
import { fromLocalInput, toLocalInput } from '../../format/log-time.ts'
import { type Revision, stateOfRevision } from '../../format/state.ts'
import { Button } from '../../parts/button.tsx'
import { Chip, FilterField } from '../../parts/field.tsx'
import { setFilters } from '../../router/links.tsx'
import { LEVELS, type Level, type LevelCounts } from './blocks.ts'
import type { ShownLog } from './filters.ts'
import { isUtc, wraps } from './preferences.ts'
import styles from './toolbar.module.css'

const LEVEL_WORDS: Record<Level, string> = {
  DEBUG: 'Debug',
  INFO: 'Info',
  WARNING: 'Warning',
  ERROR: 'Error',
  CRITICAL: 'Critical',
}

type SearchProps = {
  find: string
  /** The place of the selected line among the matches, or 0. */
  place: number
  count: number
  onMove: (step: 1 | -1) => void
}
export function Search({ find, place, count, onMove }: SearchProps) {
  const moveByKey = (event: KeyboardEvent) => {
    if (event.key === 'Enter') onMove(event.shiftKey ? -1 : 1)
  }
  const unlessFound = count === 0 ? 'No line matches.' : undefined
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Enter in the field leads to the next match
    <div class={styles.search} onKeyDown={moveByKey}>
      <FilterField
        label="Find in the log"
        placeholder="Find in the log"
        value={find}
        onChange={text => setFilters({ find: text, ...(text ? {} : { only: '' }) })}
        aside={find ? <span role="status">{describePlace(place, count)}</span> : undefined}
        hint="/"
      />
      <Button icon="up" look="bare" aria-label="Previous match" unavailable={unlessFound} onClick={() => onMove(-1)} />
      <Button icon="down" look="bare" aria-label="Next match" unavailable={unlessFound} onClick={() => onMove(1)} />
    </div>
  )
}

function describePlace(place: number, count: number): string {
  if (count === 0) return 'No match'
  return place ? `${place} of ${count.toLocaleString()}` : `${count.toLocaleString()} lines`
}

const KIND_WORDS = [
  ['', 'Both'],
  ['build', 'Build'],
  ['deploy', 'Runtime'],
] as const

export const KindChoice = ({ kind }: Pick<ShownLog, 'kind'>) => (
  <fieldset class={styles.kinds}>
    <legend>Kind of lines</legend>
    {KIND_WORDS.map(([value, word]) => (
      <label key={value}>
        <input
          type="radio"
          name="kind"
          checked={value === (kind ?? '')}
          onChange={() => setFilters({ kind: value, line: '' })}
        />
        <span>{word}</span>
      </label>
    ))}
  </fieldset>
)

type RevisionChoiceProps = { revision: string; revisions: Revision[]; active: string | null }
export const RevisionChoice = ({ revision, revisions, active }: RevisionChoiceProps) => (
  <select
    class={styles.select}
    aria-label="Revision"
    value={revision}
    onChange={({ currentTarget }) => setFilters({ revision: currentTarget.value, line: '' })}
  >
    <option value="">All revisions</option>
    {revisions.map(one => (
      <option key={one.id} value={one.id}>
        r{one.number}, {one.id === active ? 'serving' : stateOfRevision(one).word.toLowerCase()}
      </option>
    ))}
    {revision && revisions.every(({ id }) => id !== revision) && <option value={revision}>An older revision</option>}
  </select>
)

/** A deployment that has `web` only has no choice. */
export function ProcessChoice({ process, processes }: Pick<ShownLog, 'process'> & { processes: string[] }) {
  const names = [...new Set(['web', ...processes, ...(process ? [process] : [])])]
  if (names.length === 1) return null
  return (
    <select
      class={styles.select}
      aria-label="Process"
      value={process}
      onChange={({ currentTarget }) => setFilters({ process: currentTarget.value, line: '' })}
    >
      <option value="">All processes</option>
      {names.map(name => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  )
}

/** A level shows the ones above it too, as the API does. */
export function LevelChoice({ level, counts }: { level: Level | undefined; counts: LevelCounts }) {
  const lowest = LEVELS.indexOf(level ?? 'DEBUG')
  const shown = LEVELS.filter(one => one !== 'CRITICAL' || counts.CRITICAL > 0 || level === 'CRITICAL')
  return (
    <fieldset class={styles.levels}>
      <legend>Levels</legend>
      {shown.map(one => {
        const isShown = LEVELS.indexOf(one) >= lowest
        const next = one === level ? '' : one === 'DEBUG' ? '' : one.toLowerCase()
        return (
          <Chip key={one} pressed={isShown} onPress={() => setFilters({ level: next })}>
            <code>{one[0]}</code>
            {LEVEL_WORDS[one]}
            {isShown && <b>{counts[one].toLocaleString()}</b>}
          </Chip>
        )
      })}
    </fieldset>
  )
}

export const FromChoice = ({ from }: Pick<ShownLog, 'from'>) => (
  <label class={styles.from}>
    From
    <input
      type="datetime-local"
      step="1"
      value={from && toLocalInput(Date.parse(from), isUtc.value)}
      onChange={({ currentTarget: { value } }) =>
        setFilters({ from: value && fromLocalInput(value, isUtc.value), line: '' })
      }
    />
  </label>
)

type SwitchProps = { on: boolean; onChange: (on: boolean) => void; children: string; title?: string }
const Switch = ({ on, onChange, children, title }: SwitchProps) => (
  <label class={styles.switch} title={title}>
    <input type="checkbox" checked={on} onChange={({ currentTarget }) => onChange(currentTarget.checked)} />
    {children}
  </label>
)

type SwitchesProps = Pick<ShownLog, 'find' | 'isOnlyFound'> & {
  isFollowing: boolean
  onFollow: (follow: boolean) => void
}
export function Switches({ find, isOnlyFound, isFollowing, onFollow }: SwitchesProps) {
  const stored = (signal: Signal<boolean>) => (on: boolean) => {
    signal.value = on
  }
  return (
    <div class={styles.switches}>
      {find && (
        <Switch on={isOnlyFound} onChange={on => setFilters({ only: on ? '1' : '' })} title="Search the whole log">
          Only matches
        </Switch>
      )}
      <Switch on={isFollowing} onChange={onFollow}>
        Follow
      </Switch>
      <Switch on={wraps.value} onChange={stored(wraps)}>
        Wrap
      </Switch>
      <Switch on={isUtc.value} onChange={stored(isUtc)}>
        UTC
      </Switch>
    </div>
  )
}
