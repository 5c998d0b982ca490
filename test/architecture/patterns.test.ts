// Every regular expression in the source matches in time linear in the length of the text.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { explainSlowness, findPatterns } from '../support/regular-expressions.ts'
import { SRC, sourceFiles } from '../support/source-files.ts'

const patternsByFile = sourceFiles.map(file => ({ file, ...findPatterns(readFileSync(join(SRC, file), 'utf8')) }))
const explainPatterns = (source: string) => findPatterns(source).literals.map(explainSlowness)

/**
 * They build patterns from their own constants. `request-bounds.test.ts` checks those of the schemas. The pattern of
 * graphs is one of an application, whose own process matches it; a plan only checks that it is one.
 */
const PATTERN_BUILDERS = [
  'agent/redaction/redact-paths.ts',
  'build-plan/providers/graphs/graph-keys.ts',
  'graphs/origins.ts',
  'protocol/kubernetes.schema.ts',
]

describe('regular expressions', () => {
  it('match in linear time', () => {
    const patterns = patternsByFile.flatMap(({ file, literals }) => literals.map(one => ({ file, ...one })))
    expect(patterns.length).toBeGreaterThan(200)
    const refused = patterns
      .map(one => `${one.file}: /${one.pattern}/${one.flags} ${explainSlowness(one) ?? ''}`)
      .filter(line => !line.endsWith(' '))
    expect(refused).toEqual([])
  }, 120_000)

  it('are literals, so that this test can check them', () => {
    expect(patternsByFile.filter(({ dynamic }) => dynamic > 0).map(({ file }) => file)).toEqual(PATTERN_BUILDERS)
  })
})

describe('the check of patterns', () => {
  it.each([
    ['a repetition at the end of a text, which is tried from each position', 'x.replace(/-+$/, "")'],
    ['white space beside a character class that includes white space', 'const A = /^a\\s+[a-z\\s]+b$/'],
    ['a repeated choice between equal alternatives', 'const A: RegExp = /^(a|a)*$/'],
    ['a counted repetition', 'const A = /^([a-z]{1,20}){1,20}$/ as RegExp'],
  ])('reports %s as slow', (_, source) => {
    expect(explainPatterns(source)).toEqual([expect.stringMatching(/polynomial|exponential/)])
  })

  it.each(['new RegExp(a)', 'RegExp(a)', 'globalThis.RegExp("a")', 'a.match("a+$")', 'a.search(`b`)'])(
    'reports that %s builds a pattern at run time',
    source => expect(findPatterns(source).dynamic).toBe(1),
  )
})
