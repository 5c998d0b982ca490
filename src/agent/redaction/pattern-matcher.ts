// Finds many patterns in a text in one pass (Aho-Corasick), in time linear in the text. Pure.

/**
 * `inRun`: a hit extends to the whole run of base64 characters around it. `partialFrom`: at the end of a line or before
 * `…`, a prefix of this length is a hit too.
 */
export type Pattern = { text: string; inRun?: boolean; partialFrom?: number }
type Span = { start: number; end: number }

/** Longer patterns are cut to this length; a hit of this length extends to the end of the line. */
export const LONGEST_PATTERN = 4096

/** The number of characters of a value that reveal nothing. Words often end with the first ones of a pattern. */
const MAX_SHOWN_PREFIX = 2
const ROOT = 0
const NONE = 0
const ELLIPSIS = '…'.charCodeAt(0)
const BASE64_CHARACTERS = new Uint8Array(128)
for (const character of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_')
  BASE64_CHARACTERS[character.charCodeAt(0)] = 1

export class PatternMatcher {
  /** Tables by node: the longest proper suffix, the depth, and the longest patterns and prefixes that end there. */
  readonly #fail: Int32Array
  readonly #depth: Int32Array
  readonly #ends: Int32Array
  readonly #endsInRun: Int32Array
  readonly #partial: Uint8Array
  readonly #root = new Int32Array(256)
  /** Edges in an open-addressing hash table, at most half full. The seed prevents chosen collisions. */
  readonly #from: Int32Array
  readonly #code: Uint16Array
  readonly #to: Int32Array
  readonly #mask: number
  readonly #seed = Math.floor(Math.random() * 0x7fffffff) | 1
  #nodes = 1

  constructor(patterns: Pattern[]) {
    const maxNodes = patterns.reduce((sum, { text }) => sum + text.length, 1)
    const slots = 2 ** Math.ceil(Math.log2(2 * maxNodes + 2))
    this.#mask = slots - 1
    this.#from = new Int32Array(slots).fill(-1)
    this.#code = new Uint16Array(slots)
    this.#to = new Int32Array(slots)
    this.#fail = new Int32Array(maxNodes)
    this.#depth = new Int32Array(maxNodes)
    this.#ends = new Int32Array(maxNodes)
    this.#endsInRun = new Int32Array(maxNodes)
    this.#partial = new Uint8Array(maxNodes)
    for (const pattern of patterns) this.#insert(pattern)
    this.#link()
  }

  /** Returns the text after `from`. A hit that begins before is replaced from there on. */
  replace(text: string, replacement: string, from = 0): string {
    let [result, at] = ['', from]
    for (const { start, end } of this.#findSpans(text).spans) {
      if (end <= from) continue
      result += text.slice(at, start) + replacement
      at = end
    }
    return result + text.slice(at)
  }

  /** The length of the text that can be shown: up to a match at its end that may be incomplete. */
  settledLength(text: string): number {
    const { spans, state } = this.#findSpans(text)
    const depth = this.#depth[state]!
    const length = text.length - (depth > MAX_SHOWN_PREFIX ? depth : 0)
    const last = spans.findLast(({ start }) => start < length)
    return last && last.end >= length ? last.start : length
  }

  #findSpans(text: string): { spans: Span[]; state: number } {
    const spans: Span[] = []
    let state = ROOT
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at)
      if (code === ELLIPSIS) this.#addPartial(spans, state, at)
      state = this.#step(state, code)
      if (state === ROOT) continue
      const length = this.#ends[state]!
      if (length === LONGEST_PATTERN) {
        addSpan(spans, at + 1 - length, text.length)
        return { spans, state: ROOT }
      }
      if (length !== NONE) addSpan(spans, at + 1 - length, at + 1)
      const inRun = this.#endsInRun[state]!
      if (inRun !== NONE) addRunSpan(spans, text, at + 1 - inRun, at + 1)
    }
    this.#addPartial(spans, state, text.length)
    return { spans, state }
  }

  #addPartial(spans: Span[], state: number, end: number): void {
    let at = state
    while (at !== ROOT && !this.#partial[at]) at = this.#fail[at]!
    if (at !== ROOT) addSpan(spans, end - this.#depth[at]!, end)
  }

  #step(state: number, code: number): number {
    for (let from = state; ; from = this.#fail[from]!) {
      if (from === ROOT && code < 256) return this.#root[code]!
      const to = this.#edge(from, code)
      if (to !== NONE) return to
      if (from === ROOT) return ROOT
    }
  }

  #insert({ text, inRun = false, partialFrom = Number.POSITIVE_INFINITY }: Pattern): void {
    let node = ROOT
    for (let at = 0; at < text.length; at++) {
      node = this.#edge(node, text.charCodeAt(at)) || this.#addNode(node, text.charCodeAt(at))
      if (at + 1 >= partialFrom) this.#partial[node] = 1
    }
    const ends = inRun ? this.#endsInRun : this.#ends
    ends[node] = text.length
  }

  /** Links nodes in the order of depth, because the suffix of a node is linked before it. */
  #link(): void {
    const depthAt = (slot: number) => this.#depth[this.#to[slot]!]!
    const edges = [...this.#from.keys()].filter(slot => this.#from[slot] !== -1)
    for (const slot of edges.sort((a, b) => depthAt(a) - depthAt(b))) {
      const [from, code, node] = [this.#from[slot]!, this.#code[slot]!, this.#to[slot]!]
      const fail = from === ROOT ? ROOT : this.#step(this.#fail[from]!, code)
      this.#fail[node] = fail
      this.#ends[node] ||= this.#ends[fail]!
      this.#endsInRun[node] ||= this.#endsInRun[fail]!
    }
  }

  #slot(from: number, code: number): number {
    let slot = (Math.imul(Math.imul(from, 0x9e3779b1) ^ code, this.#seed) >>> 7) & this.#mask
    while (this.#from[slot] !== -1 && (this.#from[slot] !== from || this.#code[slot] !== code))
      slot = (slot + 1) & this.#mask
    return slot
  }

  #edge(from: number, code: number): number {
    const slot = this.#slot(from, code)
    return this.#from[slot] === -1 ? NONE : this.#to[slot]!
  }

  #addNode(from: number, code: number): number {
    const [slot, node] = [this.#slot(from, code), this.#nodes++]
    this.#from[slot] = from
    this.#code[slot] = code
    this.#to[slot] = node
    this.#depth[node] = this.#depth[from]! + 1
    if (from === ROOT && code < 256) this.#root[code] = node
    return node
  }
}

/** Spans come in the order of their ends, not of their starts. */
function addSpan(spans: Span[], start: number, end: number): void {
  let [from, to] = [start, end]
  for (let last = spans.at(-1); last && last.end >= from; last = spans.at(-1)) {
    from = Math.min(from, last.start)
    to = Math.max(to, last.end)
    spans.pop()
  }
  spans.push({ start: from, end: to })
}

function addRunSpan(spans: Span[], text: string, start: number, end: number): void {
  const last = spans.at(-1)
  // An earlier hit in the same run already covers it.
  if (last && last.end >= end) return
  const isRun = (at: number) => BASE64_CHARACTERS[text.charCodeAt(at)] === 1
  let [from, to] = [start, end]
  while (from > (last?.end ?? 0) && isRun(from - 1)) from--
  while (to < text.length && isRun(to)) to++
  while (text[to] === '=') to++
  addSpan(spans, from, to)
}
