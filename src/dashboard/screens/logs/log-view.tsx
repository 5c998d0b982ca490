// The lines of a log in their frame: follows them, finds text in them, and leads to a line.
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { Button } from '../../parts/button.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import type { Block } from './blocks.ts'
import { hasFilters, type ShownLog, showAround } from './filters.ts'
import rows from './log-lines.module.css'
import { BlockRows, type Names, rowId } from './log-lines.tsx'
import styles from './logs.module.css'
import { isUtc, wraps } from './preferences.ts'
import type { LogReader } from './reader.ts'
import { useFollowScroll } from './scrolling.ts'

type LogViewProps = {
  reader: LogReader
  shown: ShownLog
  names: Names
  matches: number[]
  isFollowing: boolean
  onFollow: (follow: boolean) => void
  onSelect: (arrival: number) => void
  end: preact.ComponentChildren
}
export function LogView({ reader, shown, names, matches, isFollowing, onFollow, onSelect, end }: LogViewProps) {
  const { blocks, hasOlder, hasNewer, isFilling } = reader.state.value
  const { line, find } = shown
  const frame = useRef<HTMLDivElement>(null)
  const content = useRef<HTMLDivElement>(null)
  useFollowScroll({ frame, content, isFollowing, onFollow, firstLine: blocks[0]?.[0]?.arrival })
  useLineInView(line, blocks)
  useMarks(frame, blocks, find, matches)

  const select = ({ target }: MouseEvent) => {
    if (!getSelection()?.isCollapsed || (target as Element).closest('button')) return
    const id = (target as Element).closest('[id^="line-"]')?.id
    if (id) onSelect(Number(id.slice('line-'.length)))
  }
  return (
    <div class={styles.view}>
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: J and K select a line */}
      <div
        class={`${styles.log} ${wraps.value ? '' : styles.unwrapped}`}
        ref={frame}
        role="log"
        aria-live="off"
        aria-label="Log lines, oldest first"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls with keys
        tabIndex={0}
        onClick={select}
      >
        <div ref={content} class={styles.content}>
          {hasOlder && (
            <p class={styles.more}>
              <Button small busy={isFilling} onClick={() => void reader.readOlder()}>
                {isFilling ? 'Reading older lines' : 'Show older lines'}
              </Button>
            </p>
          )}
          {blocks.map((block, i) => (
            <BlockRows
              key={block[0]!.arrival}
              block={block}
              before={blocks[i - 1]?.at(-1)}
              selected={line && block[0]!.arrival <= line && line <= block.at(-1)!.arrival ? line : undefined}
              names={names}
              utc={isUtc.value}
            />
          ))}
          {hasNewer && (
            <p class={styles.more}>
              <Button small busy={isFilling} onClick={() => void reader.readNewer()}>
                {isFilling ? 'Reading newer lines' : 'Show newer lines'}
              </Button>
            </p>
          )}
          {end}
        </div>
      </div>
      {line !== undefined && (
        <div class={styles.lineTools}>
          <span>The selected line</span>
          <CopyButton look="default" text={() => location.href}>
            Copy link
          </CopyButton>
          {hasFilters(shown) && (
            <Button small onClick={() => showAround(line)}>
              Show all lines around it
            </Button>
          )}
          <Button small look="bare" icon="cross" aria-label="Deselect the line" onClick={() => onSelect(0)} />
        </div>
      )}
    </div>
  )
}

/** Brings the line of the address into view as soon as it is there, once. */
function useLineInView(line: number | undefined, blocks: Block[]): void {
  const shown = useRef<number | undefined>(undefined)
  useLayoutEffect(() => {
    if (line === shown.current) return
    const row = line === undefined ? undefined : document.getElementById(rowId(line))
    if (line !== undefined && !row) return
    shown.current = line
    if (row && !isInView(row)) row.scrollIntoView({ block: 'center' })
  }, [line, blocks])
}

function isInView(row: HTMLElement): boolean {
  const { top, bottom } = row.getBoundingClientRect()
  const frame = row.closest('[role="log"]')!.getBoundingClientRect()
  return top >= frame.top + 4 && bottom <= frame.bottom - 4
}

const FOUND = 'log-found'
const canHighlight = 'highlights' in CSS
const clearHighlights = () => {
  if (canHighlight) CSS.highlights.delete(FOUND)
}

/** Highlights matches in the visible blocks without changing the rows, so that they stay while a person types. */
function useMarks(frame: { current: HTMLElement | null }, blocks: Block[], find: string, matches: number[]): void {
  useEffect(() => {
    if (!find || !canHighlight) {
      clearHighlights()
      return
    }
    const element = frame.current!
    const found = new Set(matches.map(rowId))
    let request: number | undefined
    let isOver = false
    const mark = () => {
      request = undefined
      const { top, bottom } = element.getBoundingClientRect()
      const messages: Element[] = []
      for (const block of element.querySelectorAll(`.${rows.block}`)) {
        const box = block.getBoundingClientRect()
        if (box.bottom < top || box.top > bottom) continue
        for (const row of block.children) if (found.has(row.id)) messages.push(row.lastElementChild!)
      }
      void import('./text-ranges.ts').then(({ findRanges }) => {
        if (!isOver) CSS.highlights.set(FOUND, new Highlight(...findRanges(messages, find)))
      })
    }
    const schedule = () => {
      request ??= requestAnimationFrame(mark)
    }
    schedule()
    element.addEventListener('scroll', schedule, { passive: true })
    return () => {
      isOver = true
      if (request !== undefined) cancelAnimationFrame(request)
      element.removeEventListener('scroll', schedule)
    }
  }, [blocks, find, matches])
  useEffect(() => clearHighlights, [])
}
