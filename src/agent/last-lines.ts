// What of a log is told, and what of it in a failure: its last lines, without those that say nothing. Pure.

const MOST = 12
/** Of a stack trace, where it happened is of interest, and not all that led there. */
const FRAMES = 2
const FRAME = /^\s+at /
/** What npm says around a command, and Node at its end. */
const NOISE = /^\s*$|^> |^npm (error|ERR!)( A complete log of this run can be found in: |$)|^Node\.js v\d/

/** Without escapes of terminals, and what JSON or the database could not hold. */
export const plain = (text: string) =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out
  text.replace(/\x1b\[[0-9;?]*[A-Za-z]|[\0-\x08\x0b-\x1f]/g, '').toWellFormed()

/** A character of two halves may be cut in two, which nobody takes. */
export const cutAt = (text: string, most: number) => text.slice(0, most).toWellFormed()

export function lastOf(lines: string[]): string[] {
  const telling: string[] = []
  let frames = 0
  for (const line of lines.map(plain)) {
    frames = FRAME.test(line) ? frames + 1 : 0
    if (frames <= FRAMES && !NOISE.test(line)) telling.push(line)
  }
  return telling.slice(-MOST)
}

/** To be read after a sentence. */
export function withLast(sentence: string, lines: string[]): string {
  const last = lastOf(lines)
  return last.length ? `${sentence} Its last lines:\n${last.join('\n')}` : sentence
}
