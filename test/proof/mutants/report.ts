// Prints and writes the results of mutants.
import { execFileSync } from 'node:child_process'
import type { Mutant } from './mutants.ts'

/** `killedBy`: the test that noticed it. `reason`: why no test can. */
export type Result = { mutant: Mutant; killedBy: string | null; reason?: string | undefined }
export type CoreResult = { name: string; results: Result[]; seconds: number }

const MAX_TEXT = 60
const CONTEXT = 12

/** Long texts are cut to where they differ. */
export function describeChange({ before, after }: Pick<Mutant, 'before' | 'after'>): string {
  const [from, to] = [before, after].map(text => text.replaceAll(/\s+/g, ' ')) as [string, string]
  if (from.length <= MAX_TEXT && to.length <= MAX_TEXT) return `${from} → ${to || '(nothing)'}`
  let start = 0
  while (start < to.length && from[start] === to[start]) start++
  const cut = (text: string) => {
    const first = Math.max(0, start - CONTEXT)
    const last = first + MAX_TEXT
    return `${first > 0 ? '…' : ''}${text.slice(first, last)}${text.length > last ? '…' : ''}`
  }
  return `${cut(from)} → ${cut(to)}`
}

const placeOf = ({ file, line }: Mutant): string => `${file}:${line}`

export const describeMutant = (mutant: Mutant): string => `${placeOf(mutant)}  ${describeChange(mutant)}`

const isCounted = ({ killedBy, reason }: Result) => killedBy !== null || reason === undefined

export function summarize({ name, results, seconds }: CoreResult) {
  const counted = results.filter(isCounted)
  const killed = counted.filter(({ killedBy }) => killedBy !== null).length
  return {
    name,
    score: (100 * killed) / counted.length,
    killed,
    survived: counted.length - killed,
    equivalent: results.length - counted.length,
    seconds: Math.round(seconds),
  }
}

const inCells = (cells: (string | number)[]): string => `| ${cells.join(' | ')} |`
const inCode = (text: string): string => `\`\` ${text.replaceAll('|', '\\|')} \`\``

export function writeReport(cores: CoreResult[]): string {
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
  const rows = cores
    .map(summarize)
    .map(({ score, ...core }) => [
      core.name,
      `${score.toFixed(1)} %`,
      core.killed,
      core.survived,
      core.equivalent,
      core.seconds,
    ])
  const survivors = cores.flatMap(({ results }) => results.filter(({ killedBy }) => killedBy === null))
  const killed = cores.flatMap(({ results }) => results.filter(({ killedBy }) => killedBy !== null))
  return [
    '# Mutants',
    '',
    `Written by \`npm run mutation\` on ${new Date().toISOString().slice(0, 10)} at commit ${commit}.`,
    'Equivalent mutants change nothing that a test could notice. They do not count.',
    '',
    '| core | score | killed | survived | equivalent | seconds |',
    '|---|---|---|---|---|---|',
    ...rows.map(inCells),
    '',
    '## Survived',
    '',
    '| place | change | equivalent, because |',
    '|---|---|---|',
    ...survivors.map(({ mutant, reason }) => inCells([placeOf(mutant), inCode(describeChange(mutant)), reason ?? ''])),
    '',
    '## Killed',
    '',
    'Place, change and the test file that fails.',
    '',
    '```',
    ...killed.map(({ mutant, killedBy }) => `${describeMutant(mutant)}  (${killedBy})`),
    '```',
    '',
  ].join('\n')
}
