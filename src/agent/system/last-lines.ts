// Cleans log lines of control characters, and selects the last informative ones for the message of a failure. Pure.

const MAX_LAST_LINES = 12
const MAX_STACK_FRAMES = 2
const STACK_FRAME = /^\s+at /
const NOISE_LINE = /^> |^npm (error|ERR!)( A complete log of this run can be found in: |$)|^Node\.js v\d/

// biome-ignore-start lint/suspicious/noControlCharactersInRegex: these are the characters to remove
/** Terminal escape sequences (ECMA-48): CSI, strings such as OSC, and short ones. Each may be cut off. */
const TERMINAL_ESCAPES =
  /(?:\x1b\[|\x9b)[0-?]*[\x20-/]*[@-~]?|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[\x20-/]*[0-~]?/g
const INVISIBLE_CHARACTERS = /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u2060-\u2064\ufeff]/g
// biome-ignore-end lint/suspicious/noControlCharactersInRegex: these are the characters to remove

/** The result fits into JSON and into a text column of the database. */
export const stripControlCharacters = (text: string) =>
  text.replace(TERMINAL_ESCAPES, '').replace(INVISIBLE_CHARACTERS, '').toWellFormed()

/** The cut may split a surrogate pair, which the database rejects. */
export const truncateText = (text: string, maxLength: number) => text.slice(0, maxLength).toWellFormed()

export function selectLastLines(lines: string[]): string[] {
  const informative: string[] = []
  let frames = 0
  for (const line of lines.map(stripControlCharacters)) {
    frames = STACK_FRAME.test(line) ? frames + 1 : 0
    if (frames <= MAX_STACK_FRAMES && line.trim() !== '' && !NOISE_LINE.test(line)) informative.push(line)
  }
  return informative.slice(-MAX_LAST_LINES)
}

export function appendLastLines(sentence: string, lines: string[]): string {
  const last = selectLastLines(lines)
  return last.length ? `${sentence} Its last lines:\n${last.join('\n')}` : sentence
}
