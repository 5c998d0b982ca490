// What of a log is told, and what of it in a failure: its last lines, without those that say nothing. Pure.

const MOST = 12
/** Of a stack trace, where it happened is of interest, and not all that led there. */
const FRAMES = 2
const FRAME = /^\s+at /
/** What npm says around a command, and Node at its end. */
const NOISE = /^> |^npm (error|ERR!)( A complete log of this run can be found in: |$)|^Node\.js v\d/

/**
 * Escape sequences of terminals (ECMA-48): with parameters, with a text up to its end (OSC and the like), and short
 * ones. Each may be cut off.
 */
const ESCAPES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out
  /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -/]*[0-~]?/g
/** Other control characters, and characters without a width, which are invisible within a word. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out
const INVISIBLE = /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u2060-\u2064\ufeff]/g

/** Without escapes of terminals, and what JSON or the database could not hold. */
export const plain = (text: string) => text.replace(ESCAPES, '').replace(INVISIBLE, '').toWellFormed()

/** A character of two halves may be cut in two, which nobody takes. */
export const cutAt = (text: string, most: number) => text.slice(0, most).toWellFormed()

export function lastOf(lines: string[]): string[] {
  const telling: string[] = []
  let frames = 0
  for (const line of lines.map(plain)) {
    frames = FRAME.test(line) ? frames + 1 : 0
    if (frames <= FRAMES && line.trim() !== '' && !NOISE.test(line)) telling.push(line)
  }
  return telling.slice(-MOST)
}

/** To be read after a sentence. */
export function withLast(sentence: string, lines: string[]): string {
  const last = lastOf(lines)
  return last.length ? `${sentence} Its last lines:\n${last.join('\n')}` : sentence
}
