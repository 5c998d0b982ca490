// history.md has one line for each release, with the newest figures.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readResults } from './results.ts'

export async function recordRelease(release: string): Promise<void> {
  const results = await readResults('bench')
  if (!results) throw new Error('There are no results. Run `npm run bench` first.')
  const { run, older_runs, rows } = results
  const commitOf = (row: (typeof rows)[number]) => (row.run === run.at ? run : older_runs[row.run])?.commit
  const others = rows.filter(row => commitOf(row) !== run.commit).map(({ id }) => id)
  if (others.length > 0) throw new Error(`${others.join(', ')} are of another commit. Measure them again.`)
  const open = rows.filter(row => row.error || row.busy).map(({ id }) => id)
  if (open.length > 0) throw new Error(`${open.join(', ')} failed, or others used the machine. Measure them again.`)
  const path = join(import.meta.dirname, '../bench/history.md')
  const text = await readFile(path, 'utf8')
  if (text.includes(`\n| ${release} |`)) throw new Error(`history.md already has ${release}.`)
  const figures = rows.map(({ id, measured, met }) => `${id} ${met ? '' : '**'}${measured}${met ? '' : '**'}`)
  const cells = [release, run.at.slice(0, 10), run.commit, run.machine, figures.join(' · ')]
  await writeFile(path, `${text.trimEnd()}\n| ${cells.join(' | ')} |\n`)
  console.log(`Added ${release} to history.md.`)
}
