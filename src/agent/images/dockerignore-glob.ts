// Patterns of a .dockerignore, as Docker reads them. Pure.
import { type GlobStep, matchesGlob, matchMany, matchOne } from '../../protocol/glob.ts'

const isAny = () => true
const SPECIAL = ['*', '?', '[', '\\']
const ANY_CHARACTERS = matchMany<string>(isAny)

/** Matches the path itself or a folder above it. */
export function compileGlob(pattern: string): (path: string) => boolean {
  const steps = pattern.split('/').map(parseSegment)
  // At the end of a pattern `**` matches what is below the folder, and not the folder itself.
  if (steps.length > 1 && pattern.endsWith('/**')) {
    const isNamed = (name: string) => name.length > 0
    steps.push(matchOne(isNamed))
  }
  return path => matchesGlob(steps, path.split('/'), { prefix: true })
}

function parseSegment(segment: string): GlobStep<string> {
  if (segment === '**') return matchMany(isAny)
  if (!SPECIAL.some(sign => segment.includes(sign))) return matchOne(name => name === segment)
  const steps = parseSteps([...segment])
  return matchOne(name => matchesGlob(steps, [...name]))
}

function parseSteps(characters: string[]): GlobStep<string>[] {
  const steps: GlobStep<string>[] = []
  // After one unclosed bracket no other can close, so the rest is not searched again for each of them.
  let canClose = true
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at]!
    const range = character === '[' && canClose ? parseRange(characters, at + 1) : null
    if (range === 'unclosed') canClose = false
    if (range && range !== 'unclosed') {
      steps.push(matchOne(range.accepts))
      at = range.end
    } else if (character === '*') steps.push(ANY_CHARACTERS)
    else if (character === '?') steps.push(matchOne(isAny))
    else {
      const literal = character === '\\' && at + 1 < characters.length ? characters[++at]! : character
      steps.push(matchOne(other => other === literal))
    }
  }
  return steps
}

type Range = { accepts: (character: string) => boolean; end: number }

/** The range whose bracket opened just before `start`; null where it is empty and the bracket stands for itself. */
function parseRange(characters: string[], start: number): Range | 'unclosed' | null {
  if (characters[start] === ']') return null
  const negated = characters[start] === '^'
  const bounds: [low: number, high: number][] = []
  let at = negated ? start + 1 : start
  const read = () => (characters[at] === '\\' ? characters[++at] : characters[at])?.codePointAt(0)
  for (; characters[at] !== ']'; at++) {
    const low = read()
    const isSpan = characters[at + 1] === '-' && characters[at + 2] !== ']'
    if (isSpan) at += 2
    const high = isSpan ? read() : low
    if (low === undefined || high === undefined) return 'unclosed'
    bounds.push([low, high])
  }
  const accepts = (character: string) => {
    const code = character.codePointAt(0)!
    return bounds.some(([low, high]) => low <= code && code <= high) !== negated
  }
  return { accepts, end: at }
}
