// The runs of a trace as the rows of a tree (pure). The dotted order of a run begins with that of the run above it, so
// runs that are sorted by it are in the order of the tree.
import type { Run, RunQuery } from '../../api/runs.ts'

export const TREE_SELECT = [
  'id',
  'name',
  'run_type',
  'status',
  'trace_id',
  'session_id',
  'start_time',
  'end_time',
  'dotted_order',
  'total_tokens',
  'total_cost',
] as const satisfies NonNullable<RunQuery['select']>

export type Node = {
  run: Run
  depth: number
  /** The number of runs below it. */
  below: number
  /** The number of failed runs below it. */
  failedBelow: number
}
export type Bounds = { start: number; end: number }
export type Row = Node & { isOpen: boolean; isMatch: boolean }
export type Block = readonly Row[]

/** A run whose parent is missing hangs below the nearest one that is there. */
export function buildTree(runs: Run[]): Node[] {
  const sorted = runs.toSorted((a, b) => (a.dotted_order < b.dotted_order ? -1 : 1))
  const nodes: Node[] = []
  const above: Node[] = []
  for (const run of sorted) {
    while (above.length > 0 && !run.dotted_order.startsWith(`${above.at(-1)!.run.dotted_order}.`)) above.pop()
    const node = { run, depth: above.length, below: 0, failedBelow: 0 }
    for (const one of above) {
      one.below++
      if (run.status === 'error') one.failedBelow++
    }
    nodes.push(node)
    above.push(node)
  }
  return nodes
}

/** A run that has not ended reaches to the end of what is known. */
export function boundsOf(nodes: Node[]): Bounds {
  let [start, end] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (const { run } of nodes) {
    const from = Date.parse(run.start_time ?? '')
    if (from < start) start = from
    const to = Date.parse(run.end_time ?? '') || from
    if (to > end) end = to
  }
  return Number.isFinite(start) ? { start, end: Math.max(end, start + 1) } : { start: 0, end: 1 }
}

const SHORTEST = 0.8

/** The bar of a run in percent of the whole. */
export function barOf({ start_time, end_time }: Run, { start, end }: Bounds): { x: number; width: number } {
  const share = (time: number) => ((time - start) / (end - start)) * 100
  const from = Date.parse(start_time ?? '') || start
  const to = Date.parse(end_time ?? '') || end
  const x = Math.min(100 - SHORTEST, Math.max(0, share(from)))
  return { x, width: Math.min(100 - x, Math.max(SHORTEST, share(to) - share(from))) }
}

export type Shown = {
  closed: ReadonlySet<string>
  /** Only runs with this text in their name, and those above them. */
  find: string
  onlyFailed: boolean
}

export function toRows(nodes: Node[], { closed, find, onlyFailed }: Shown): Row[] {
  const wanted = find.toLowerCase()
  const isFiltered = wanted !== '' || onlyFailed
  const matches = (run: Run) =>
    (wanted === '' || run.name.toLowerCase().includes(wanted)) && (!onlyFailed || run.status === 'error')
  const rows: Row[] = []
  // From the last one up: a run above a match is shown too.
  let needed = Number.POSITIVE_INFINITY
  if (isFiltered) {
    for (const node of nodes.toReversed()) {
      const isMatch = matches(node.run)
      const isAbove = node.depth < needed
      if (isMatch) needed = node.depth
      else if (isAbove && needed !== Number.POSITIVE_INFINITY) needed = node.depth
      if (isMatch || (isAbove && needed === node.depth)) rows.push({ ...node, isOpen: true, isMatch })
      if (node.depth === 0) needed = Number.POSITIVE_INFINITY
    }
    return rows.reverse()
  }
  let hidden = Number.POSITIVE_INFINITY
  for (const node of nodes) {
    if (node.depth > hidden) continue
    const isOpen = !closed.has(node.run.id)
    hidden = isOpen ? Number.POSITIVE_INFINITY : node.depth
    rows.push({ ...node, isOpen, isMatch: true })
  }
  return rows
}

const BLOCK_ROWS = 100
const isSame = (a: Row, b: Row | undefined) =>
  b !== undefined &&
  a.run === b.run &&
  a.depth === b.depth &&
  a.isOpen === b.isOpen &&
  a.isMatch === b.isMatch &&
  a.below === b.below &&
  a.failedBelow === b.failedBelow

/** Blocks that have not changed are those of before: a page draws each once. */
export function toBlocks(rows: Row[], before: Block[]): Block[] {
  const blocks: Block[] = []
  for (let at = 0; at < rows.length; at += BLOCK_ROWS) {
    const block = rows.slice(at, at + BLOCK_ROWS)
    const old = before[blocks.length]
    blocks.push(old?.length === block.length && block.every((row, i) => isSame(row, old[i])) ? old : block)
  }
  return blocks
}

export const countFailed = (nodes: Node[]): number => nodes.filter(({ run }) => run.status === 'error').length
