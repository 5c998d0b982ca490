// The colors and styles of a stored log line as parts of text (pure). Other control sequences are left out, text never.

const COLORS = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'] as const
type AnsiColor = (typeof COLORS)[number]
type AnsiStyle = 'bold' | 'dim' | 'italic' | 'underline' | 'strike'
export type AnsiPart = { text: string; color: AnsiColor | undefined; styles: AnsiStyle[] }

/** Stored lines have U+241B for the control character. */
const ESCAPE = '␛'
/** Each is bounded, so that a line with many openings and no end takes linear time. */
const SEQUENCES = [
  /␛\[[0-?]{0,64}[ -/]{0,4}[@-~]/y,
  // Titles and links. The text of a link stands between two of them.
  /␛\][^␇␛]{0,512}(?:␇|␛\\)/y,
  /␛[()#][0-9A-Z]/y,
]
const COLOR_SEQUENCE = /^␛\[([\d;:]{0,64})m$/
const MAX_PARTS = 400

type Pen = { color: AnsiColor | undefined; background: AnsiColor | undefined; styles: Set<AnsiStyle> }

const STYLE_CODES: Record<number, AnsiStyle> = { 1: 'bold', 2: 'dim', 3: 'italic', 4: 'underline', 9: 'strike' }
const END_CODES: Record<number, AnsiStyle[]> = {
  22: ['bold', 'dim'],
  23: ['italic'],
  24: ['underline'],
  29: ['strike'],
}

export function parseAnsi(line: string): AnsiPart[] {
  const parts: AnsiPart[] = []
  const pen: Pen = { color: undefined, background: undefined, styles: new Set() }
  const add = (text: string) => {
    if (text === '') return
    const last = parts.at(-1)
    const next = { text, color: shownColor(pen), styles: [...pen.styles].sort() }
    if (last && (parts.length >= MAX_PARTS || isSame(last, next))) last.text += text
    else parts.push(next)
  }
  let at = 0
  for (let found = line.indexOf(ESCAPE); found !== -1; found = line.indexOf(ESCAPE, Math.max(at, found + 1))) {
    const sequence = matchAt(line, found)
    if (sequence === undefined) continue
    add(line.slice(at, found))
    at = found + sequence.length
    const codes = COLOR_SEQUENCE.exec(sequence)?.[1]
    if (codes !== undefined) applyCodes(pen, codes.split(/[;:]/).map(Number))
  }
  add(line.slice(at))
  return parts
}

export const toPlainText = (line: string): string =>
  line.includes(ESCAPE)
    ? parseAnsi(line)
        .map(({ text }) => text)
        .join('')
    : line

function matchAt(line: string, at: number): string | undefined {
  for (const pattern of SEQUENCES) {
    pattern.lastIndex = at
    const found = pattern.exec(line)
    if (found) return found[0]
  }
  return undefined
}

const isSame = (one: AnsiPart, other: AnsiPart): boolean =>
  one.color === other.color && one.styles.join() === other.styles.join()

/** A background is shown as the color of the text, so that no line can hide its own. */
function shownColor({ color, background }: Pen): AnsiColor | undefined {
  return background && background !== 'black' && background !== 'white' ? background : color
}

function applyCodes(pen: Pen, codes: number[]): void {
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i]!
    if (code === 0) Object.assign(pen, { color: undefined, background: undefined, styles: new Set() })
    else if (STYLE_CODES[code]) pen.styles.add(STYLE_CODES[code])
    else if (END_CODES[code]) for (const style of END_CODES[code]) pen.styles.delete(style)
    else if (code === 39) pen.color = undefined
    else if (code === 49) pen.background = undefined
    else if (code === 38 || code === 48) {
      const [color, length] = readExtended(codes, i + 1)
      if (code === 38) pen.color = color
      else pen.background = color
      i += length
    } else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) pen.color = COLORS[code % 10]
    else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) pen.background = COLORS[code % 10]
  }
}

/** `5;n` and `2;r;g;b`, as the nearest of the eight. */
function readExtended(codes: number[], at: number): [color: AnsiColor | undefined, length: number] {
  if (codes[at] === 5) return [colorOfPalette(codes[at + 1] ?? 0), 2]
  if (codes[at] !== 2) return [undefined, 1]
  return [nearestColor(codes[at + 1] ?? 0, codes[at + 2] ?? 0, codes[at + 3] ?? 0), 4]
}

function colorOfPalette(index: number): AnsiColor | undefined {
  if (index < 16) return COLORS[index % 8]
  if (index >= 232) return index < 244 ? 'black' : undefined
  const cube = index - 16
  const level = (step: number) => (step === 0 ? 0 : 55 + step * 40)
  return nearestColor(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6))
}

/** Grays have no color of their own: they are dim or plain. */
function nearestColor(red: number, green: number, blue: number): AnsiColor | undefined {
  const most = Math.max(red, green, blue)
  const least = Math.min(red, green, blue)
  if (most - least < 40) return most < 140 ? 'black' : undefined
  const half = (most + least) / 2
  return COLORS[(red > half ? 1 : 0) + (green > half ? 2 : 0) + (blue > half ? 4 : 0)]
}
