// The tree of a trace with the time of each run as a bar. Rows are in blocks, which the browser lays out when they come
// into view: all of them are in the page, so its own search reaches them.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useCommands } from '../../commands/commands.ts'
import { formatCost, formatCount, formatLatency, plural } from '../../format/amount.ts'
import { Button } from '../../parts/button.tsx'
import { Chip, FilterField } from '../../parts/field.tsx'
import { Glyph, Icon } from '../../parts/icon.tsx'
import { latencyOf, TYPE_WORDS } from './run-state.ts'
import { TypeIcon } from './run-type.tsx'
import styles from './trace-tree.module.css'
import { type Block, type Bounds, barOf, boundsOf, countFailed, type Node, type Row, toBlocks, toRows } from './tree.ts'

const MAX_INDENT = 12
const STEP = 14
const rowId = (id: string) => `run-${id}`

type TreeProps = {
  nodes: Node[]
  isDone: boolean
  selected: string
  /** `isFinal`: by a press, not by moving through the rows. */
  onSelect: (id: string, isFinal: boolean) => void
}
export function TraceTree({ nodes, isDone, selected, onSelect }: TreeProps) {
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set())
  const [find, setFind] = useState('')
  const [onlyFailed, setOnlyFailed] = useState(false)
  const tree = useRef<HTMLDivElement>(null)
  const bounds = useBounds(nodes)
  const rows = useMemo(() => toRows(nodes, { closed, find, onlyFailed }), [nodes, closed, find, onlyFailed])
  const blocks = useBlocks(rows)
  const failed = useMemo(() => countFailed(nodes), [nodes])
  const at = rows.findIndex(({ run }) => run.id === selected)
  // Commands stay as they were registered.
  const moves = useRef({ next: () => {}, previous: () => {}, nextFailed: () => {} })

  const select = (place: number, isFinal = false) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, place))]
    if (row) onSelect(row.run.id, isFinal)
  }
  const setOpen = ({ run }: Row, isOpen: boolean) => {
    const next = new Set(closed)
    if (isOpen) next.delete(run.id)
    else next.add(run.id)
    setClosed(next)
  }
  const toParent = () => {
    const depth = rows[at]?.depth ?? 0
    const parent = rows.slice(0, at).findLastIndex(row => row.depth < depth)
    if (parent >= 0) select(parent)
  }
  const toNextFailed = () => {
    const failing = rows.flatMap((row, place) => (row.run.status === 'error' ? [place] : []))
    const next = failing.find(place => place > at) ?? failing[0]
    if (next !== undefined) select(next)
  }
  moves.current = { next: () => select(at + 1), previous: () => select(at - 1), nextFailed: toNextFailed }
  useCommands([
    { id: 'next-run', label: 'Next run', kind: 'action', keys: 'j', run: () => moves.current.next() },
    { id: 'previous-run', label: 'Previous run', kind: 'action', keys: 'k', run: () => moves.current.previous() },
    {
      id: 'next-failed',
      label: 'Next run that failed',
      kind: 'action',
      keys: 'n',
      run: () => moves.current.nextFailed(),
    },
  ])
  useScrollTo(tree, selected, blocks)

  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows[at]
    const byKey: Record<string, (() => void) | undefined> = {
      ArrowDown: () => select(at + 1),
      ArrowUp: () => select(at - 1),
      Home: () => select(0),
      End: () => select(rows.length - 1),
      ArrowRight: () => row && row.below > 0 && (row.isOpen ? select(at + 1) : setOpen(row, true)),
      ArrowLeft: () => (row && row.below > 0 && row.isOpen && !find && !onlyFailed ? setOpen(row, false) : toParent()),
      Enter: () => select(at, true),
    }
    const move = byKey[event.key]
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    move()
  }
  const onClick = (event: MouseEvent) => {
    const target = event.target as Element
    const place = rows.findIndex(({ run }) => rowId(run.id) === target.closest('[role="treeitem"]')?.id)
    const row = rows[place]
    if (!row) return
    if (target.closest('[data-toggle]')) setOpen(row, !row.isOpen)
    else select(place, true)
  }
  const isAllClosed = closed.size > 0
  return (
    <section class={styles.card} aria-label="Runs of this trace">
      <div class={styles.tools}>
        <FilterField
          label="Find runs of this trace by name"
          placeholder="Find by name"
          value={find}
          onChange={setFind}
          hint="/"
        />
        {failed > 0 && (
          <Chip pressed={onlyFailed} onPress={() => setOnlyFailed(!onlyFailed)}>
            <Glyph shape="octagon" tone="bad" />
            {plural(failed, 'failed', 'failed')}
          </Chip>
        )}
        <Button
          small
          look="bare"
          icon={isAllClosed ? 'down' : 'up'}
          aria-label={isAllClosed ? 'Open all runs' : 'Close all runs below the first'}
          title={isAllClosed ? 'Open all' : 'Close all'}
          onClick={() =>
            setClosed(
              isAllClosed
                ? new Set()
                : new Set(nodes.filter(({ depth, below }) => depth > 0 && below > 0).map(({ run }) => run.id)),
            )
          }
        />
      </div>
      <div
        ref={tree}
        class={styles.tree}
        role="tree"
        aria-label={`${plural(nodes.length, 'run')}, the arrow keys move through them`}
        tabIndex={0}
        aria-activedescendant={at >= 0 ? rowId(selected) : undefined}
        onKeyDown={onKeyDown}
        onClick={onClick}
      >
        {blocks.map((block, i) => (
          <BlockRows
            key={i}
            block={block}
            bounds={bounds}
            selected={block.some(({ run }) => run.id === selected) ? selected : undefined}
          />
        ))}
      </div>
      {rows.length === 0 && isDone && <p class={styles.nothing}>No run of this trace matches.</p>}
      {!isDone && (
        <p class={styles.nothing} role="status">
          {formatCount(nodes.length)} runs are read, more are coming.
        </p>
      )}
    </section>
  )
}

/** The same object while it has the same values, so that rows are not drawn again. */
function useBounds(nodes: Node[]): Bounds {
  const last = useRef<Bounds>({ start: 0, end: 1 })
  const next = useMemo(() => boundsOf(nodes), [nodes])
  if (next.start !== last.current.start || next.end !== last.current.end) last.current = next
  return last.current
}

function useBlocks(rows: Row[]): Block[] {
  const last = useRef<Block[]>([])
  return useMemo(() => {
    last.current = toBlocks(rows, last.current)
    return last.current
  }, [rows])
}

/** Only the tree is scrolled, and only as far as needed. */
function useScrollTo(tree: { current: HTMLElement | null }, selected: string, blocks: Block[]): void {
  const done = useRef('')
  useEffect(() => {
    const row = tree.current?.querySelector<HTMLElement>(`#${CSS.escape(rowId(selected))}`)
    if (!row || done.current === selected) return
    done.current = selected
    const [box, frame] = [row.getBoundingClientRect(), tree.current!.getBoundingClientRect()]
    if (box.top < frame.top) tree.current!.scrollTop -= frame.top - box.top + 40
    else if (box.bottom > frame.bottom) tree.current!.scrollTop += box.bottom - frame.bottom + 40
  }, [selected, blocks])
}

type BlockProps = { block: Block; bounds: Bounds; selected: string | undefined }
const BlockRows = ({ block, bounds, selected }: BlockProps) =>
  useMemo(
    () => (
      <div class={styles.block} role="none">
        {block.map(row => rowOf(row, bounds, row.run.id === selected))}
      </div>
    ),
    [block, bounds, selected],
  )

function rowOf({ run, depth, below, failedBelow, isOpen, isMatch }: Row, bounds: Bounds, isSelected: boolean) {
  const { x, width } = barOf(run, bounds)
  const isFailed = run.status === 'error'
  const latency = latencyOf(run)
  return (
    // biome-ignore lint/a11y/useFocusableInteractive: the tree has the focus, and names this row
    <div
      key={run.id}
      id={rowId(run.id)}
      class={`${styles.row} ${isSelected ? styles.selected : ''} ${isMatch ? '' : styles.dim}`}
      role="treeitem"
      aria-level={depth + 1}
      aria-expanded={below > 0 ? isOpen : undefined}
      aria-selected={isSelected}
    >
      <Indent depth={depth} />
      {below > 0 ? (
        <span class={styles.toggle} data-toggle title={isOpen ? 'Close' : 'Open'}>
          <Icon name={isOpen ? 'down' : 'right'} />
        </span>
      ) : (
        <span class={styles.leaf} />
      )}
      <span class={styles.icon}>
        {isFailed ? (
          <Glyph shape="octagon" tone="bad" />
        ) : run.status === 'pending' ? (
          <Glyph shape="arc" tone="busy" />
        ) : (
          <TypeIcon type={run.run_type} />
        )}
      </span>
      <span class={styles.text}>
        <span class={styles.name}>{run.name}</span>
        <span class={styles.detail}>
          {isFailed && <b class={styles.failed}>Failed</b>}
          {describeRow(run, isOpen ? 0 : below, isOpen ? 0 : failedBelow)}
        </span>
      </span>
      <span class={styles.time}>
        <span>{latency === undefined ? 'Running' : formatLatency(latency)}</span>
        <svg class={styles.lane} role="none">
          <rect class={styles.bed} width="100%" height="6" rx="1.5" />
          <rect
            class={isFailed ? styles.bad : latency === undefined ? styles.open : (styles[run.run_type] ?? styles.other)}
            x={`${x.toFixed(2)}%`}
            width={`${width.toFixed(2)}%`}
            height="6"
            rx="1.5"
          />
        </svg>
      </span>
    </div>
  )
}

const describeRow = ({ run_type, total_tokens, total_cost }: Row['run'], hidden: number, failed: number): string =>
  [
    TYPE_WORDS[run_type] ?? run_type,
    total_tokens ? `${formatCount(total_tokens)} tokens` : '',
    Number(total_cost) > 0 ? formatCost(total_cost ?? 0) : '',
    hidden > 0 ? `${formatCount(hidden)} below${failed > 0 ? `, ${formatCount(failed)} failed` : ''}` : '',
  ]
    .filter(Boolean)
    .join(' · ')

/** Lines down to the runs below. Deeper than this, the level is a number. */
function Indent({ depth }: { depth: number }) {
  if (depth === 0) return <span />
  const levels = Math.min(depth, MAX_INDENT)
  return (
    <svg class={styles.indent} width={levels * STEP} height="44" aria-hidden="true">
      {Array.from({ length: levels }, (_, level) => (
        <path key={level} d={`M${level * STEP + 7.5} 0v60`} />
      ))}
      {depth > MAX_INDENT && (
        <text x={levels * STEP - 2} y="26" text-anchor="end">
          {depth}
        </text>
      )}
    </svg>
  )
}
