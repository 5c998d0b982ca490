// The folders that the patterns of a workspace name, in package.json, pnpm-workspace.yaml and Cargo.toml. Pure.
import { type GlobStep, matchesGlob, matchMany, matchOne } from '../protocol/glob.ts'
import { PlanRefused } from './build-plan.ts'
import { normalize } from './source-files.ts'

/** Every folder is compared with every pattern that has a `*`. Plain paths are looked up, and may be many. */
const MAX_GLOBS = 20
const MAX_PARTS = 16
/** The most `**` of a pattern, and the most `*` of a name in it. */
const MAX_STARS = 2

const isAny = () => true

/** A `*` is a part of a name, a `**` any number of folders, and a leading `!` leaves folders out. */
export function matchPatterns(patterns: string[]): (folder: string) => boolean {
  const including = patterns.filter(pattern => !pattern.startsWith('!'))
  const excluding = patterns.filter(pattern => pattern.startsWith('!')).map(pattern => pattern.slice(1))
  const [isIncluded, isExcluded] = [matchAny(including), matchAny(excluding)]
  return folder => isIncluded(folder) && !isExcluded(folder)
}

function matchAny(patterns: string[]): (folder: string) => boolean {
  const paths = new Set(patterns.map(normalize))
  const globs = [...paths].filter(path => path.includes('*'))
  if (globs.length > MAX_GLOBS)
    throw new PlanRefused(
      `The workspace has ${globs.length} patterns with a \`*\`, and at most ${MAX_GLOBS} are read. Write fewer.`,
    )
  const steps = globs.map(parseGlob)
  return folder => {
    if (paths.has(folder)) return true
    const parts = folder.split('/')
    return parts.length <= MAX_PARTS && steps.some(glob => matchesGlob(glob, parts))
  }
}

function parseGlob(glob: string): GlobStep<string>[] {
  const parts = glob.split('/')
  const many = parts.filter(part => part === '**').length
  const stars = Math.max(...parts.map(part => (part === '**' ? 0 : part.split('*').length - 1)))
  if (parts.length > MAX_PARTS || Math.max(many, stars) > MAX_STARS)
    throw new PlanRefused(
      `The pattern \`${glob.slice(0, 100)}\` of the workspace has too many \`*\`. Write a simpler one.`,
    )
  return parts.map(parsePart)
}

function parsePart(part: string): GlobStep<string> {
  if (part === '**') return matchMany(isAny)
  const [first = '', ...others] = part.split('*')
  const last = others.pop()
  if (last === undefined) return matchOne(name => name === part)
  return matchOne(name => {
    if (!name.startsWith(first) || !name.endsWith(last)) return false
    let at = first.length
    for (const text of others) {
      const found = name.indexOf(text, at)
      if (found < 0) return false
      at = found + text.length
    }
    return at <= name.length - last.length
  })
}
