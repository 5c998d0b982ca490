// Finds regular expressions in source files, and checks that matching them takes time linear in the text.
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { parseAst } from 'vitest/node'

// The pure JavaScript build: the package's main entry looks for a binary or Java first.
const { checkSync } = createRequire(import.meta.url)('recheck/lib/browser.js') as typeof import('recheck')

export type Pattern = { pattern: string; flags: string }
type Node = { type?: string; start?: number; [member: string]: unknown }
type FoundPatterns = { literals: Pattern[]; dynamic: number }

const HASHBANG = /^#!/
/** Methods that turn a string into a pattern. */
const PATTERN_METHODS = ['match', 'matchAll', 'search']

/** `dynamic` counts the patterns that the code builds at run time. */
export function findPatterns(source: string): FoundPatterns {
  const patterns: FoundPatterns = { literals: [], dynamic: 0 }
  visitNode(parseAst(source.replace(HASHBANG, '//'), { lang: 'ts' }) as unknown, patterns)
  return patterns
}

function visitNode(node: unknown, patterns: FoundPatterns): void {
  if (Array.isArray(node)) for (const one of node) visitNode(one, patterns)
  else if (typeof node === 'object' && node !== null) {
    const { type, regex, callee, arguments: args } = node as Node
    if (type === 'Literal' && regex) patterns.literals.push(regex as Pattern)
    if ((type === 'NewExpression' || type === 'CallExpression') && makesPattern(callee as Node, args as Node[]))
      patterns.dynamic += 1
    for (const member of Object.values(node)) visitNode(member, patterns)
  }
}

function makesPattern({ name, property }: Node, [first]: Node[]): boolean {
  const called = (name ?? (property as Node | undefined)?.name) as string
  if (called === 'RegExp') return true
  const isText = first?.type === 'TemplateLiteral' || (first?.type === 'Literal' && typeof first.value === 'string')
  return PATTERN_METHODS.includes(called) && isText
}

const ESCAPED = '\\\\p\\{[^}]*\\}|\\\\[\\s\\S]|\\[(?:\\\\[\\s\\S]|[^\\\\\\]])*\\]'
const ATOM = new RegExp(ESCAPED, 'g')
const ATOM_OR_COUNT = new RegExp(`${ESCAPED}|\\{(\\d+)(?:(,)\\d*)?\\}`, 'g')

/** Counted repetitions become unbounded ones, which are at least as slow and quicker to check. */
const loosenCounts = (pattern: string): string =>
  pattern.replace(ATOM_OR_COUNT, (all, least?: string, range?: string) => {
    if (least === undefined) return all
    if (range === undefined) return Number(least) > 2 ? '{2}' : all
    return Number(least) === 0 ? '*' : '+'
  })

/** At most one single character repeats without bound, and only in an anchored pattern. */
function isPlainlyLinear(pattern: string, flags: string): boolean {
  const atoms = pattern.replace(ATOM, 'a')
  const unbounded = atoms.match(/.[*+]/gs) ?? []
  if (unbounded.length === 0) return true
  const isAnchored = atoms.startsWith('^') && !atoms.includes('|') && !flags.includes('m')
  return isAnchored && unbounded.length === 1 && !unbounded[0]!.startsWith(')')
}

const verdicts = new Map<string, string | null>()
const RECORD = join(import.meta.dirname, 'linear-patterns.json')
/**
 * Patterns that the checker found linear, because one check takes up to 20 seconds. A random search sometimes finds a
 * false attack: those patterns were measured on their attack strings before they were recorded.
 */
const recorded = new Set<string>(JSON.parse(readFileSync(RECORD, 'utf8')) as string[])

/** Null if matching is linear. A pattern that cannot be checked in time counts as slow. */
export function explainSlowness({ pattern, flags }: Pattern): string | null {
  const loose = loosenCounts(pattern)
  const key = `/${loose}/${flags}`
  if (recorded.has(key)) return null
  if (!verdicts.has(key)) verdicts.set(key, isPlainlyLinear(loose, flags) ? null : checkAndRecord(loose, flags, key))
  return verdicts.get(key)!
}

/** `RECORD_PATTERNS=1 npm run check` records new patterns. */
function checkAndRecord(pattern: string, flags: string, key: string): string | null {
  const verdict = checkPattern(pattern, flags)
  if (verdict === null && process.env.RECORD_PATTERNS) {
    recorded.add(key)
    const known = JSON.parse(readFileSync(RECORD, 'utf8')) as string[]
    writeFileSync(RECORD, `${JSON.stringify([...new Set([...known, key])].sort(), null, 2)}\n`)
  }
  return verdict
}

function checkPattern(pattern: string, flags: string): string | null {
  // With a fixed seed, a random search has the same result each time.
  const verdict = checkSync(pattern, flags, { timeout: 60_000, randomSeed: 2 })
  if (verdict.status === 'safe') return null
  return verdict.status === 'vulnerable' ? verdict.complexity.summary : `${verdict.status}: ${verdict.error.kind}`
}
