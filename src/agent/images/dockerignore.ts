// Parses a .dockerignore into the filter for the build context. Pure.
import { compileGlob } from './dockerignore-glob.ts'

/** `stem`: the common prefix of all matching paths. */
type IgnoreRule = { isExcluded: boolean; stem: string; matches: (path: string) => boolean }
/** The builder needs them. */
const ALWAYS_SENT = new Set(['Dockerfile', '.dockerignore'])

/** Paths are relative to the source folder. An excluded folder is skipped unless it may contain an included path. */
export function parseDockerignore(text: string): (path: string, folder: boolean) => boolean {
  const rules = text
    .split('\n')
    .map(line => line.trim())
    .filter(line => line && !line.startsWith('#'))
    .map(parseRule)
  return (path, folder) => {
    if (ALWAYS_SENT.has(path)) return false
    const isExcluded = rules.reduce((excluded, rule) => (rule.matches(path) ? rule.isExcluded : excluded), false)
    return isExcluded && !(folder && rules.some(rule => !rule.isExcluded && mayContain(`${path}/`, rule.stem)))
  }
}

function parseRule(line: string): IgnoreRule {
  const isExcluded = !line.startsWith('!')
  const path = trimSlashes(isExcluded ? line : line.slice(1).trim())
  const [stem = ''] = path.split(/[*?[\\]/)
  return { isExcluded, stem, matches: compileGlob(path) }
}

/** Without `/` and `./` in front, and without `/` at the end. */
function trimSlashes(path: string): string {
  let [start, end] = [0, path.length]
  for (;;) {
    if (path.startsWith('/', start)) start += 1
    else if (path.startsWith('./', start)) start += 2
    else break
  }
  while (end > start && path[end - 1] === '/') end--
  return path.slice(start, end)
}

/** True if a path with that stem may be below the folder. */
const mayContain = (folder: string, stem: string) => stem.startsWith(folder) || folder.startsWith(stem)
