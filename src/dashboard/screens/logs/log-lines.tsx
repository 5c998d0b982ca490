// The lines of a log in blocks, which the browser lays out when they come into view. All of them are in the page, so its
// own search, selection and copying reach them.
import type { VNode } from 'preact'
import { useMemo } from 'preact/hooks'
import type { AnsiPart } from '../../format/ansi.ts'
import { formatLineDay, formatLineTime } from '../../format/log-time.ts'
import { formatSeconds } from '../../format/time.ts'
import type { Block, Line } from './blocks.ts'
import styles from './log-lines.module.css'

/** The number of a revision, and the result of its build. */
export type Names = Map<string, { number: number; build: string }>
type Shown = { names: Names; utc: boolean }

const QUIET_SECONDS = 60

type BlockProps = Shown & {
  block: Block
  /** The line before the block. */
  before: Line | undefined
  /** The selected line, if it is in this block. */
  selected: number | undefined
}
export function BlockRows({ block, before, selected, names, utc }: BlockProps) {
  return useMemo(
    () => (
      <div class={styles.block}>
        {block.flatMap((line, i) => [
          ...dividersOf(line, i === 0 ? before : block[i - 1], { names, utc }),
          rowOf(line, line.arrival === selected, { names, utc }),
        ])}
      </div>
    ),
    [block, before, selected, names, utc],
  )
}

export const rowId = (arrival: number): string => `line-${arrival}`

const LEVEL_STYLES = { DEBUG: 'debug', INFO: 'info', WARNING: 'warning', ERROR: 'error', CRITICAL: 'error' } as const

function rowOf(line: Line, isSelected: boolean, { names, utc }: Shown) {
  const { arrival, at, level, revision_id, kind, process, parts } = line
  const number = names.get(revision_id)?.number
  return (
    <div
      key={arrival}
      id={rowId(arrival)}
      class={`${styles.line} ${styles[LEVEL_STYLES[level]]} ${isSelected ? styles.selected : ''}`}
      aria-current={isSelected || undefined}
    >
      <time class={styles.time}>{formatLineTime(at, utc)}</time> <span class={styles.level}>{level}</span>{' '}
      <span class={styles.who}>
        {number === undefined ? '–' : `r${number}`}
        {kind === 'build' && ' build'}
        {process && process !== 'web' && ` ${process}`}
      </span>{' '}
      <span class={styles.message}>{showParts(parts)}</span>
    </div>
  )
}

export const showParts = (parts: AnsiPart[]) =>
  parts.map(({ text, color, styles: names }) =>
    color || names.length > 0 ? (
      <span class={[...(color ? [color] : []), ...names].map(name => styles[name]).join(' ')}>{text}</span>
    ) : (
      text
    ),
  )

/** Dividers between lines: the start of a day or a log, missing lines, and quiet times. */
function dividersOf(line: Line, before: Line | undefined, { names, utc }: Shown): VNode[] {
  const { arrival, at, revision_id, kind, id, lost } = line
  const day = formatLineDay(at, utc)
  const name = names.get(revision_id)
  const isFirst = id.endsWith('-1')
  const quiet = before && !isFirst ? (at - before.at) / 1000 : 0
  return [
    ...(day === (before && formatLineDay(before.at, utc))
      ? []
      : [
          <p key={`day-${arrival}`} class={styles.day}>
            {day}
          </p>,
        ]),
    ...(lost > 0
      ? [
          <p key={`lost-${arrival}`} class={styles.quiet}>
            {lost.toLocaleString()} older lines are no longer kept
          </p>,
        ]
      : []),
    ...(isFirst && name
      ? [
          <p key={`head-${arrival}`} class={styles.head}>
            <b>{kind === 'build' ? `Build of r${name.number}` : `r${name.number} is deployed and runs`}</b>{' '}
            {kind === 'build' && name.build}
          </p>,
        ]
      : []),
    ...(quiet >= QUIET_SECONDS
      ? [
          <p key={`quiet-${arrival}`} class={styles.quiet}>
            {formatSeconds(quiet)} without lines
          </p>,
        ]
      : []),
  ]
}
