// Matches branches against a policy's globs (pure): `*` and `?` match within a path segment, `**` across segments,
// a leading `!` excludes.
import { type GlobStep, matchesGlob, matchMany, matchOne } from '../../protocol/glob.ts'

const isAny = () => true
const isNoSlash = (character: string) => character !== '/'

function parseGlob(glob: string): GlobStep<string>[] {
  const characters = [...glob]
  const steps: GlobStep<string>[] = []
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at]!
    if (character === '?') steps.push(matchOne(isNoSlash))
    else if (character !== '*') steps.push(matchOne(other => other === character))
    else if (characters[at + 1] !== '*') steps.push(matchMany(isNoSlash))
    else {
      steps.push(matchMany(isAny))
      at++
    }
  }
  return steps
}

export function matchesBranch(globs: readonly string[], branch: string): boolean {
  const characters = [...branch]
  const matches = (glob: string) => matchesGlob(parseGlob(glob), characters)
  const including = globs.filter(glob => !glob.startsWith('!'))
  const excluding = globs.filter(glob => glob.startsWith('!')).map(glob => glob.slice(1))
  return including.some(matches) && !excluding.some(matches)
}
