// What of a log is told in a failure: its last lines, without those that say nothing. Pure.

const MOST = 12
/** Of a stack trace, where it happened is of interest, and not all that led there. */
const FRAMES = 2
const FRAME = /^\s+at /
/** What npm says around a command, and Node at its end. */
const NOISE = /^\s*$|^> |^npm (error|ERR!)( A complete log of this run can be found in: |$)|^Node\.js v\d/

export function lastOf(lines: string[]): string[] {
  const telling: string[] = []
  let frames = 0
  for (const line of lines) {
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
