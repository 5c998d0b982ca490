// Regular expressions in source files, and whether matching one takes time linear in the text.
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { parseAst } from 'vitest/node'

// The part of it that is JavaScript alone: the package's own entry looks for a binary or Java first.
const { checkSync } = createRequire(import.meta.url)('recheck/lib/browser.js') as typeof import('recheck')

export type Pattern = { pattern: string; flags: string }
type Node = { type?: string; start?: number; [member: string]: unknown }
type FoundPatterns = { literals: Pattern[]; dynamic: number }

const HASHBANG = /^#!/
/** Methods that make a pattern of a string. */
const PATTERN_METHODS = ['match', 'matchAll', 'search']

/** The pattern literals of a source file, and how many patterns it makes at runtime. */
export function findPatterns(source: string): FoundPatterns {
  const found: FoundPatterns = { literals: [], dynamic: 0 }
  visitNode(parseAst(source.replace(HASHBANG, '//'), { lang: 'ts' }) as unknown, found)
  return found
}

function visitNode(node: unknown, found: FoundPatterns): void {
  if (Array.isArray(node)) for (const one of node) visitNode(one, found)
  else if (typeof node === 'object' && node !== null) {
    const { type, regex, callee, arguments: args } = node as Node
    if (type === 'Literal' && regex) found.literals.push(regex as Pattern)
    if ((type === 'NewExpression' || type === 'CallExpression') && makesPattern(callee as Node, args as Node[]))
      found.dynamic += 1
    for (const member of Object.values(node)) visitNode(member, found)
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

/** Counted repetitions become unbounded ones: no better than before, and quickly judged. */
const loosenCounts = (pattern: string): string =>
  pattern.replace(ATOM_OR_COUNT, (all, least?: string, range?: string) => {
    if (least === undefined) return all
    if (range === undefined) return Number(least) > 2 ? '{2}' : all
    return Number(least) === 0 ? '*' : '+'
  })

/** Nothing repeats without end, or one single character does, after a start that is fixed. */
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
 * Patterns that the checker found linear, which takes it up to 20 seconds for one. Where it searches at random, some runs
 * find a false attack: those patterns were measured on their attack strings before they were recorded.
 */
const recorded = new Set<string>(JSON.parse(readFileSync(RECORD, 'utf8')) as string[])

/** Null where matching is linear; otherwise what was found. A pattern that cannot be judged in time is refused too. */
export function explainSlowness({ pattern, flags }: Pattern): string | null {
  const loose = loosenCounts(pattern)
  const key = `/${loose}/${flags}`
  if (recorded.has(key)) return null
  if (!verdicts.has(key)) verdicts.set(key, isPlainlyLinear(loose, flags) ? null : checkAndRecord(loose, flags, key))
  return verdicts.get(key)!
}

/** `RECORD_PATTERNS=1 npm run check` adds what is new to the record. */
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
  // Where it searches at random, a fixed seed gives the same verdict each time.
  const verdict = checkSync(pattern, flags, { timeout: 60_000, randomSeed: 2 })
  if (verdict.status === 'safe') return null
  return verdict.status === 'vulnerable' ? verdict.complexity.summary : `${verdict.status}: ${verdict.error.kind}`
}
