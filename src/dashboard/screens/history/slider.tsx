// A slider over time, with marks for what happened. Its keys are those of every slider; `[` and `]` go from mark to mark.
import { useEffect, useRef, useState } from 'preact/hooks'
import { useCommands } from '../../commands/commands.ts'
import { formatExact, formatShort } from '../../format/time.ts'
import { Button } from '../../parts/button.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import { Chip } from '../../parts/field.tsx'
import { Ago, now } from '../../parts/time.tsx'
import { setFilters, useFilter } from '../../router/links.tsx'
import styles from './history.module.css'
import { findMark, type Mark } from './marks.ts'
import { parseMoment, RANGES, toMoment, windowOf } from './moment.ts'

const NOW_SHOWN = 'The newest state is shown.'
const STEPS = 1000
/** The height of the drawing, which is stretched to the width of the slider. */
const HEIGHT = 22

/** The moment in the address; undefined is now. */
export function useMoment() {
  const [text] = useFilter('at')
  const at = parseMoment(text)
  return { at, text: at === undefined ? undefined : toMoment(at) }
}
const goTo = (time: number | undefined): void => setFilters({ at: time === undefined ? '' : toMoment(time) })

type SliderProps = { marks: Mark[]; first: number; children?: preact.ComponentChildren }
export function TimeSlider({ marks, first, children }: SliderProps) {
  const { at } = useMoment()
  const [range, setRange] = useFilter('range')
  // The window does not move while a person looks at it.
  const opened = useRef(now.peek())
  const newest = Math.max(opened.current, marks.at(-1)?.at ?? 0)
  const moment = Math.min(at ?? newest, newest)
  const { start, end } = windowOf(range, { first, at: moment, now: newest })
  const toStep = (time: number) => Math.round(Math.min(1, (time - start) / (end - start)) * STEPS)
  const [dragged, setDragged] = useState<number>()
  useEffect(() => setDragged(undefined), [at, range])
  const shown = dragged ?? toStep(moment)
  const shownTime = dragged === undefined ? moment : start + (dragged / STEPS) * (end - start)

  const step = useRef((_: 1 | -1) => {})
  step.current = direction => {
    // From the address: two keys can come before this is drawn again.
    const from = parseMoment(new URLSearchParams(location.search).get('at') ?? '') ?? newest
    const mark = findMark(marks, from, direction)
    if (mark) goTo(mark.at)
    else if (direction === 1) goTo(undefined)
  }
  useCommands([
    { id: 'mark-before', label: 'Go to the previous change', kind: 'action', keys: '[', run: () => step.current(-1) },
    { id: 'mark-after', label: 'Go to the next change', kind: 'action', keys: ']', run: () => step.current(1) },
    { id: 'now', label: 'Go to now', kind: 'action', keys: 'n', run: () => goTo(undefined) },
  ])
  const visible = marks.filter(mark => mark.at >= start && mark.at <= end)
  return (
    <section class={styles.machine} aria-label="History">
      <div class={styles.bar}>
        <div class={styles.when}>
          <strong>
            {at === undefined && dragged === undefined ? (
              'Now'
            ) : (
              <time dateTime={toMoment(shownTime)}>{formatExact(shownTime)}</time>
            )}
          </strong>
          {at !== undefined && dragged === undefined && (
            <span>
              <Ago time={toMoment(at)} suffix=" ago" />
            </span>
          )}
        </div>
        <div class={styles.steps}>
          <Button
            small
            hint="["
            unavailable={findMark(marks, moment, -1) ? undefined : 'There is no earlier change.'}
            onClick={() => step.current(-1)}
            aria-label="Previous change"
          >
            Before
          </Button>
          <Button
            small
            hint="]"
            unavailable={at === undefined ? NOW_SHOWN : undefined}
            onClick={() => step.current(1)}
            aria-label="Next change"
          >
            After
          </Button>
          <Button small hint="N" unavailable={at === undefined ? NOW_SHOWN : undefined} onClick={() => goTo(undefined)}>
            Now
          </Button>
        </div>
      </div>
      <div class={styles.track}>
        <svg viewBox={`0 0 ${STEPS} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          <rect class={styles.past} width={shown} y={HEIGHT - 3} height="3" />
          <rect class={styles.future} x={shown} width={Math.max(0, STEPS - shown)} y={HEIGHT - 3} height="3" />
          {visible.map(({ key, at, state }) => (
            <line
              key={key}
              class={styles[state.tone]}
              x1={toStep(at)}
              x2={toStep(at)}
              y1={state.tone === 'bad' || state.tone === 'warn' ? 0 : 7}
              y2={HEIGHT}
              vector-effect="non-scaling-stroke"
            />
          ))}
        </svg>
        <input
          type="range"
          min={0}
          max={STEPS}
          value={shown}
          aria-label="Time"
          aria-valuetext={formatExact(shownTime)}
          onInput={({ currentTarget }) => setDragged(Number(currentTarget.value))}
          onChange={({ currentTarget }) => {
            const chosen = Number(currentTarget.value)
            goTo(chosen >= STEPS ? undefined : start + (chosen / STEPS) * (end - start))
          }}
        />
      </div>
      <div class={styles.ends}>
        <time dateTime={toMoment(start)}>{formatShort(start)}</time>
        <span>now</span>
      </div>
      <div class={styles.choices}>
        {RANGES.map(({ name, label }) => (
          <Chip key={name} pressed={range === name} onPress={() => setRange(name)}>
            {label}
          </Chip>
        ))}
        <span class={styles.spring} />
        {children}
        {at !== undefined && <CopyButton text={() => location.href}>Copy a link to this time</CopyButton>}
      </div>
    </section>
  )
}
