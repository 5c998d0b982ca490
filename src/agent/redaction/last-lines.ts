// What of a log is told, and what of it in a failure: its last lines, without those that say nothing. Pure.

const MAX_LAST_LINES = 12
/** Of a stack trace, where it happened is of interest, and not all that led there. */
const MAX_STACK_FRAMES = 2
const STACK_FRAME = /^\s+at /
/** What npm says around a command, and Node at its end. */
const NOISE_LINE = /^> |^npm (error|ERR!)( A complete log of this run can be found in: |$)|^Node\.js v\d/

/**
 * Escape sequences of terminals (ECMA-48): with parameters, with a text up to its end (OSC and the like), and short
 * ones. Each may be cut off.
 */
const TERMINAL_ESCAPES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out
  /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -/]*[0-~]?/g
/** Other control characters, and characters without a width, which are invisible within a word. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out
const INVISIBLE_CHARACTERS = /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u2060-\u2064\ufeff]/g

/** Without escapes of terminals, and what JSON or the database could not hold. */
export const stripControlCharacters = (text: string) =>
  text.replace(TERMINAL_ESCAPES, '').replace(INVISIBLE_CHARACTERS, '').toWellFormed()

/** A character of two halves may be cut in two, which nobody takes. */
export const truncateText = (text: string, most: number) => text.slice(0, most).toWellFormed()

export function selectLastLines(lines: string[]): string[] {
  const telling: string[] = []
  let frames = 0
  for (const line of lines.map(stripControlCharacters)) {
    frames = STACK_FRAME.test(line) ? frames + 1 : 0
    if (frames <= MAX_STACK_FRAMES && line.trim() !== '' && !NOISE_LINE.test(line)) telling.push(line)
  }
  return telling.slice(-MAX_LAST_LINES)
}

/** To be read after a sentence. */
export function appendLastLines(sentence: string, lines: string[]): string {
  const last = selectLastLines(lines)
  return last.length ? `${sentence} Its last lines:\n${last.join('\n')}` : sentence
}
