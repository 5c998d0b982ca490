// Matches branches against a policy's globs (pure): `*` and `?` match within a path segment, `**` across segments,
// a leading `!` excludes.

/** The steps that matching may still take. It is below 0 once they did not suffice: then the result means nothing. */
export type GlobBudget = { left: number }
const UNBOUNDED: GlobBudget = { left: Number.POSITIVE_INFINITY }

/** Steps of a glob: a code point, or one of these. */
const [ONE, MANY, ANY] = [-1, -2, -3]
const SLASH = 0x2f
function codesOf(text: string): number[] {
  const codes: number[] = []
  for (let i = 0; i < text.length; i += codes.at(-1)! > 0xffff ? 2 : 1) codes.push(text.codePointAt(i)!)
  return codes
}

function parseGlob(glob: string): number[] {
  const steps: number[] = []
  for (const character of glob) {
    if (character === '*' && steps.at(-1) === MANY) steps[steps.length - 1] = ANY
    else steps.push(character === '*' ? MANY : character === '?' ? ONE : character.codePointAt(0)!)
  }
  return steps
}

/**
 * Tracks all positions that the text so far can have reached, in ascending order: time is at most the length of the
 * glob times that of the text, which of a list of files that somebody made for this is still too much without a budget.
 */
function matches(steps: number[], text: number[], budget: GlobBudget): boolean {
  let [current, next] = [new Int32Array(steps.length + 1), new Int32Array(steps.length + 1)]
  let count = reach(steps, current, 0, 0)
  for (const code of text) {
    budget.left -= count
    if (count === 0 || budget.left < 0) return false
    let found = 0
    for (let i = 0; i < count; i++) {
      const position = current[i]!
      const step = steps[position]
      if (step === ANY || (step === MANY && code !== SLASH)) found = reach(steps, next, found, position)
      else if (step === code || (step === ONE && code !== SLASH)) found = reach(steps, next, found, position + 1)
    }
    ;[current, next, count] = [next, current, found]
  }
  return count > 0 && current[count - 1] === steps.length
}

/** Adds a position, and those behind steps that can match nothing. */
function reach(steps: number[], positions: Int32Array, count: number, first: number): number {
  let added = count
  for (let position = first; ; position++) {
    if (added === 0 || position > positions[added - 1]!) positions[added++] = position
    const step = steps[position]
    if (step !== MANY && step !== ANY) return added
  }
}

type Globs = { including: number[][]; excluding: number[][] }
export const parseGlobs = (globs: readonly string[]): Globs => ({
  including: globs.filter(glob => !glob.startsWith('!')).map(parseGlob),
  excluding: globs.filter(glob => glob.startsWith('!')).map(glob => parseGlob(glob.slice(1))),
})

export function matchesGlobs({ including, excluding }: Globs, text: string, budget = UNBOUNDED): boolean {
  budget.left -= text.length
  if (budget.left < 0) return false
  const codes = codesOf(text)
  const isMatch = (steps: number[]) => matches(steps, codes, budget)
  return including.some(isMatch) && !excluding.some(isMatch)
}

export const matchesBranch = (globs: readonly string[], branch: string): boolean =>
  matchesGlobs(parseGlobs(globs), branch)
