// Draws what commands printed on a terminal as an animated SVG: text, colors, and lines that are replaced.
export type Output = { ms: number; text: string }
export type Recording = { command: string; outputs: Output[] }

type Run = { text: string; style: string }
type Row = { at: number; column: number; from: number; to?: number; runs: Run[] }

const [CELL_WIDTH, LINE_HEIGHT, FONT_SIZE, PADDING, TITLE_HEIGHT] = [8.43, 21, 14, 20, 36]
/** Seconds. The recorded times are not used, so that a recording changes only with its text. */
const PACE = { key: 0.06, typed: 0.5, line: 0.16, waiting: 0.7, question: 1.1, end: 5 }
const SPINNER = /^[\u2800-\u28ff] /
const ESCAPE = String.fromCharCode(27)
/** Control sequences that start a line again. */
const REWRITE = new RegExp(`\\r(?:${ESCAPE}\\[2K)?|${ESCAPE}\\[1G|${ESCAPE}\\[0?J`)
const SEQUENCE = new RegExp(`(${ESCAPE}\\[[\\d;?]*[A-Za-z])`)
const WHOLE_SEQUENCE = new RegExp(`^${ESCAPE}\\[([\\d;?]*)([A-Za-z])$`)
const QUESTION = /\[Y\/n\] $/
const STYLES: Record<string, string> = { 1: 'b', 2: 'd', 31: 'r', 32: 'g', 33: 'y', 36: 'c' }
const RESETS: Record<string, RegExp> = { 0: /.+/, 22: /[bd]/, 39: /[rgyc]/ }

export function renderRecording(recordings: Recording[]): string {
  const rows: Row[] = []
  let time = 0.6
  let at = 0
  for (const { command, outputs } of recordings) {
    rows.push({ at, column: 0, from: at === 0 ? 0 : time, runs: [{ text: '$ ', style: 'g' }] })
    for (const [i, text] of [...command].entries()) {
      time += PACE.key
      rows.push({ at, column: 2 + i, from: time, runs: [{ text, style: 'b' }] })
    }
    time += PACE.typed
    at++
    ;({ time, at } = addOutputs(rows, outputs, time, at))
    time += PACE.typed
  }
  const columns = Math.max(...rows.map(({ column, runs }) => runs.reduce((sum, { text }) => sum + text.length, column)))
  return draw(rows, { columns, lines: at, seconds: time + PACE.end })
}

/** A line that is replaced, such as a spinner, is shown until the next one is. */
function addOutputs(rows: Row[], outputs: Output[], start: number, firstLine: number) {
  let [time, at] = [start, firstLine]
  let open: Row | undefined
  const end = () => {
    if (open) open.to = time
    open = undefined
  }
  const text = outputs.map(one => one.text).join('')
  for (const [i, line] of text.split(/\r?\n/).entries()) {
    const isLast = i === text.split(/\r?\n/).length - 1
    let shown = ''
    // Readline repeats its question while it is answered.
    for (const part of line.split(REWRITE)) {
      const runs = readRuns(part)
      const plain = runs.map(run => run.text).join('')
      const label = plain.replace(/ \d+ s$/, '').replace(SPINNER, '')
      if (plain === '' || label === shown) continue
      shown = label
      end()
      const isWaiting = SPINNER.test(plain)
      open = { at, column: 0, from: time, runs: isWaiting ? readRuns(part.replace(/ \d+ s/, '')) : runs }
      rows.push(open)
      time += isWaiting ? PACE.waiting : QUESTION.test(plain) ? PACE.question : PACE.line
    }
    if (isLast && !shown) break
    open = undefined
    at++
  }
  return { time, at }
}

function readRuns(text: string): Run[] {
  const runs: Run[] = []
  const styles = new Set<string>()
  for (const part of text.split(SEQUENCE)) {
    const [, codes, kind] = WHOLE_SEQUENCE.exec(part) ?? []
    if (kind === undefined && part) runs.push({ text: part, style: [...styles].join(' ') })
    if (kind !== 'm') continue
    for (const code of codes!.split(';')) {
      for (const style of styles) if (RESETS[code]?.test(style)) styles.delete(style)
      if (STYLES[code]) styles.add(STYLES[code])
    }
  }
  return runs
}

type Size = { columns: number; lines: number; seconds: number }

function draw(rows: Row[], { columns, lines, seconds }: Size): string {
  const width = Math.round(columns * CELL_WIDTH + 2 * PADDING)
  const height = TITLE_HEIGHT + lines * LINE_HEIGHT + PADDING
  const percent = (time: number) => `${((100 * time) / seconds).toFixed(2)}%`
  const keyframes: string[] = []
  const texts = rows.map((row, i) => {
    if (row.from > 0) {
      const gone = row.to === undefined ? '' : `${percent(row.to)}{opacity:0}`
      keyframes.push(`@keyframes k${i}{0%{opacity:0}${percent(row.from)}{opacity:1}${gone}}`)
    }
    const name = row.to === undefined ? '' : ' class="t"'
    const animation = row.from > 0 ? ` style="animation-name:k${i}"` : ''
    return `<g${name}${animation}>${drawRuns(row)}</g>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"
 role="img" aria-label="A terminal: slipway deploy shows its plan, asks one question, builds, and ends with a URL.">
<style>
svg{--back:#fff;--edge:#d0d7de;--bar:#f6f8fa;--text:#1f2328;--dim:#656d76;--r:#cf222e;--g:#1a7f37;--y:#7d4e00;--c:#0a6c8f}
@media(prefers-color-scheme:dark){svg{--back:#0d1117;--edge:#30363d;--bar:#161b22;--text:#e6edf3;--dim:#8d96a0;
--r:#ff7b72;--g:#3fb950;--y:#d29922;--c:#56d4dd}}
text{font:${FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:var(--text);
white-space:pre}
.b{font-weight:700}.d{fill:var(--dim)}.r{fill:var(--r)}.g{fill:var(--g)}.y{fill:var(--y)}.c{fill:var(--c)}
@media(prefers-reduced-motion:no-preference){g{animation:${seconds.toFixed(1)}s step-end infinite}}.t{opacity:0}
${keyframes.join('\n')}
</style>
<rect x=".5" y=".5" width="${width - 1}" height="${height - 1}" rx="10" fill="var(--back)" stroke="var(--edge)"/>
<path d="M.5 ${TITLE_HEIGHT - 6}V10.5a10 10 0 0 1 10-10H${width - 10.5}a10 10 0 0 1 10 10V${TITLE_HEIGHT - 6}z"
 fill="var(--bar)" stroke="var(--edge)"/>
${[20, 40, 60].map(x => `<circle cx="${x}" cy="15" r="5.5" fill="var(--edge)"/>`).join('')}
${texts.join('\n')}
</svg>
`
}

function drawRuns({ at, column: first, runs }: Row): string {
  let column = first
  return runs
    .map(({ text, style }) => {
      const x = (PADDING + column * CELL_WIDTH).toFixed(1)
      const y = TITLE_HEIGHT + (at + 1) * LINE_HEIGHT - 4
      column += text.length
      if (text.trim() === '') return ''
      const length = (text.length * CELL_WIDTH).toFixed(1)
      const escaped = text.replace(/[&<]/g, character => (character === '&' ? '&amp;' : '&lt;'))
      const name = style && ` class="${style}"`
      return `<text${name} x="${x}" y="${y}" textLength="${length}">${escaped}</text>`
    })
    .join('')
}
