// Log lines in blocks (pure). A page draws each block once: one that has not changed stays the same array.
import type { StreamItem } from '../../../client/client.ts'
import { type AnsiPart, parseAnsi } from '../../format/ansi.ts'

export type ArrivedLine = StreamItem<'GET /v2/deployments/{deployment_id}/logs/stream'>
export type Level = ArrivedLine['level']
export const LEVELS: Level[] = ['DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL']

/** `text` is the message without colors. `lost` lines before this one are no longer kept. */
export type Line = Omit<ArrivedLine, 'message'> & { text: string; parts: AnsiPart[]; at: number; lost: number }
export type Block = readonly Line[]

const BLOCK_LINES = 200

export function toLine({ message, ...line }: ArrivedLine, lost = 0): Line {
  const parts = parseAnsi(message)
  return { ...line, parts, text: parts.map(({ text }) => text).join(''), at: Date.parse(line.timestamp), lost }
}

export function appendLines(blocks: Block[], lines: Line[]): Block[] {
  if (lines.length === 0) return blocks
  const last = blocks.at(-1)
  const room = last ? BLOCK_LINES - last.length : 0
  const grown = last && room > 0 ? [...blocks.slice(0, -1), [...last, ...lines.slice(0, room)]] : [...blocks]
  for (let at = Math.max(0, room); at < lines.length; at += BLOCK_LINES) grown.push(lines.slice(at, at + BLOCK_LINES))
  return grown
}

/** The block that is not full comes first. */
export function prependLines(blocks: Block[], lines: Line[]): Block[] {
  const before: Block[] = []
  for (let end = lines.length; end > 0; end -= BLOCK_LINES)
    before.unshift(lines.slice(Math.max(0, end - BLOCK_LINES), end))
  return before.length === 0 ? blocks : [...before, ...blocks]
}

/** Leaves out the oldest blocks until at most `max` lines are left. */
export function dropOldest(blocks: Block[], max: number): Block[] {
  let count = countLines(blocks)
  let first = 0
  while (count > max && first < blocks.length - 1) count -= blocks[first++]!.length
  return first === 0 ? blocks : blocks.slice(first)
}

export const countLines = (blocks: Block[]): number => blocks.reduce((sum, { length }) => sum + length, 0)

// ---- counts of a block, computed once

export type LevelCounts = Record<Level, number>
const counted = new WeakMap<Block, LevelCounts>()

function countBlock(block: Block): LevelCounts {
  const known = counted.get(block)
  if (known) return known
  const counts: LevelCounts = { DEBUG: 0, INFO: 0, WARNING: 0, ERROR: 0, CRITICAL: 0 }
  for (const { level } of block) counts[level]++
  counted.set(block, counts)
  return counts
}

export function countLevels(blocks: Block[]): LevelCounts {
  const sum: LevelCounts = { DEBUG: 0, INFO: 0, WARNING: 0, ERROR: 0, CRITICAL: 0 }
  for (const block of blocks) {
    const counts = countBlock(block)
    for (const level of LEVELS) sum[level] += counts[level]
  }
  return sum
}

const searched = new WeakMap<Block, { text: string; found: number[] }>()

/** The `arrival` of each line with the text, whatever its case. */
export function findMatches(blocks: Block[], text: string): number[] {
  const wanted = text.toLowerCase()
  if (wanted === '') return []
  return blocks.flatMap(block => {
    const known = searched.get(block)
    if (known?.text === wanted) return known.found
    const found = block.filter(line => line.text.toLowerCase().includes(wanted)).map(({ arrival }) => arrival)
    searched.set(block, { text: wanted, found })
    return found
  })
}

export type Bar = { from: number; counts: LevelCounts; first: number | undefined }

/** The lines of each level in `count` equal times. `first` is the arrival of the first line of each. */
export function toHistogram(blocks: Block[], count: number): Bar[] {
  let from = Number.POSITIVE_INFINITY
  let to = Number.NEGATIVE_INFINITY
  for (const block of blocks) {
    for (const { at } of block) {
      if (at < from) from = at
      if (at > to) to = at
    }
  }
  if (to <= from) return []
  const width = (to - from + 1) / count
  const bars = Array.from(
    { length: count },
    (_, i): Bar => ({
      from: from + i * width,
      counts: { DEBUG: 0, INFO: 0, WARNING: 0, ERROR: 0, CRITICAL: 0 },
      first: undefined,
    }),
  )
  for (const block of blocks) {
    for (const { at, level, arrival } of block) {
      const bar = bars[Math.floor((at - from) / width)]!
      bar.counts[level]++
      bar.first ??= arrival
    }
  }
  return bars
}
