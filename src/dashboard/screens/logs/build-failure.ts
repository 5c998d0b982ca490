// Finds the error in the last lines of a failed build (pure).
import type { Line } from './blocks.ts'

export type FailedStep = { name: string; command: string | undefined }
export type Excerpt = { lines: Line[]; cause: Line | undefined }

/** The lines that agents write when a step begins. */
const STEPS: [pattern: RegExp, name: string][] = [
  [/^Fetching (.{1,400})/, 'Fetching the source'],
  [/^Building commit (.{1,400})/, 'Reading the source'],
  [/^Unpacking the archive/, 'Unpacking the archive'],
  [/^Installing: (.{1,400})/, 'Install command'],
  [/^Building: (.{1,400})/, 'Build command'],
  [/^Running in [^:]{1,300}: (.{1,400})/, 'Command in the image'],
  [/^Pushing (.{1,400})/, 'Pushing the image'],
]

/** The last step that began. */
export function findStep(lines: Line[]): FailedStep | undefined {
  for (const { text } of lines.toReversed()) {
    for (const [pattern, name] of STEPS) {
      const found = pattern.exec(text)
      if (found) return { name, command: found[1] }
    }
  }
  return undefined
}

const ERROR_WORDS =
  /\b(?:error|failed|failure|fatal|exception|panic|cannot|could not|not found|no such|denied)\b|\bERR!/i
/** Lines that report the failure, not its cause. */
const CLOSING_WORDS =
  /\bexit(?:ed)?(?: with)? (?:code|status)|command (?:failed|ended)|A complete log of this run|lifecycle/i
const SHOWN_LINES = 12
const LINES_BEFORE = 2

/** The first line of the last step that tells of an error, with the lines around it; otherwise the last lines. */
export function findExcerpt(lines: Line[]): Excerpt {
  const start = lines.findLastIndex(({ text }) => STEPS.some(([pattern]) => pattern.test(text)))
  const ofStep = lines.slice(start + 1)
  const isTelling = ({ text }: Line) => ERROR_WORDS.test(text) && !CLOSING_WORDS.test(text)
  const isError = ({ level }: Line) => level === 'ERROR' || level === 'CRITICAL'
  const cause = ofStep.find(line => isError(line) && isTelling(line)) ?? ofStep.find(isTelling) ?? ofStep.find(isError)
  const last = Math.max(0, lines.length - SHOWN_LINES)
  const from = cause ? Math.max(0, Math.min(lines.indexOf(cause) - LINES_BEFORE, last)) : last
  return { lines: lines.slice(from, from + SHOWN_LINES), cause }
}
