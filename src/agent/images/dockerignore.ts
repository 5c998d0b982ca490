// What a .dockerignore leaves out of what an engine is sent. Pure.

import { compileGlob } from './dockerignore-glob.ts'

/** `stem`: what each path that it matches begins with. */
type IgnoreRule = { isExcluded: boolean; stem: string; matches: (path: string) => boolean }
/** Without them nothing is built. */
const ALWAYS_SENT = new Set(['Dockerfile', '.dockerignore'])

/** What is left out, of paths relative to the folder; an engine takes what it is sent. A folder that is left out is not looked into. */
export function parseDockerignore(text: string): (path: string, folder: boolean) => boolean {
  const rules = text
    .split('\n')
    .map(line => line.trim())
    .filter(line => line && !line.startsWith('#'))
    .map(parseRule)
  return (path, folder) => {
    if (ALWAYS_SENT.has(path)) return false
    const out = rules.reduce((out, rule) => (rule.matches(path) ? rule.isExcluded : out), false)
    return out && !(folder && rules.some(({ isExcluded: out, stem }) => !out && mayContain(`${path}/`, stem)))
  }
}

function parseRule(line: string): IgnoreRule {
  const out = !line.startsWith('!')
  const path = trimSlashes(out ? line : line.slice(1).trim())
  const [stem = ''] = path.split(/[*?[\\]/)
  return { isExcluded: out, stem, matches: compileGlob(path) }
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

/** Whether something below that folder may begin so. */
const mayContain = (folder: string, stem: string) => stem.startsWith(folder) || folder.startsWith(stem)
