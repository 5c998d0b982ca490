// How a run shows itself: its progress on one line of a terminal, a plain line for each bench elsewhere, and the table at the end.
import { styleText } from 'node:util'
import type { Row } from './run.ts'

const { stderr } = process
let shown = ''

/** What is being done now; nothing, to clear the line. */
export function progress(bench = '', detail = ''): void {
  if (stderr.isTTY) {
    const line = detail ? `${bench}: ${detail}` : bench
    stderr.write(`\r\x1b[K${line.slice(0, stderr.columns - 1)}`)
  } else if (bench && bench !== shown) stderr.write(`${bench}\n`)
  shown = bench
}

export function table(rows: Row[]): string {
  const cells = rows.map(row => [row.id, row.what, row.error ? 'broken' : row.measured!, row.target, verdict(row)])
  const lines = [['', 'what', 'measured', 'target', ''], ...cells]
  const widths = lines[0]!.map((_, column) => Math.max(...lines.map(line => line[column]!.length)))
  const written = lines.map(line =>
    line
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  )
  const notes = (row?: Row) => (row?.notes ?? []).map(note => styleText('dim', `${' '.repeat(widths[0]! + 2)}${note}`))
  const [head, ...body] = written
  return [styleText('bold', head!), ...body.flatMap((line, i) => [coloured(line, rows[i]!), ...notes(rows[i])])].join(
    '\n',
  )
}

const verdict = ({ met, error, skipped }: Row): string =>
  error ? 'broken' : skipped ? 'skipped' : met ? 'met' : 'NOT MET'
const coloured = (line: string, { met }: Row): string => (met ? line : styleText('red', line))
