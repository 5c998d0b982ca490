// How a run shows itself: its progress on one line of a terminal, a plain line for each bench elsewhere, and the table at the end.
import { styleText } from 'node:util'
import type { ResultRow } from './runner.ts'

const { stderr } = process
let lastProgress = ''

/** What is being done now; nothing, to clear the line. */
export function showProgress(bench = '', detail = ''): void {
  if (stderr.isTTY) {
    const line = detail ? `${bench}: ${detail}` : bench
    stderr.write(`\r\x1b[K${line.slice(0, stderr.columns - 1)}`)
  } else if (bench && bench !== lastProgress) stderr.write(`${bench}\n`)
  lastProgress = bench
}

export function formatTable(rows: ResultRow[]): string {
  const cells = rows.map(row => [
    row.id,
    row.what,
    row.error ? 'broken' : row.measured!,
    row.target,
    formatVerdict(row),
  ])
  const lines = [['', 'what', 'measured', 'target', ''], ...cells]
  const widths = lines[0]!.map((_, column) => Math.max(...lines.map(line => line[column]!.length)))
  const written = lines.map(line =>
    line
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  )
  const notes = (row?: ResultRow) =>
    (row?.notes ?? []).map(note => styleText('dim', `${' '.repeat(widths[0]! + 2)}${note}`))
  const [head, ...body] = written
  return [styleText('bold', head!), ...body.flatMap((line, i) => [colourRow(line, rows[i]!), ...notes(rows[i])])].join(
    '\n',
  )
}

const formatVerdict = ({ met, error, skipped }: ResultRow): string =>
  error ? 'broken' : skipped ? 'skipped' : met ? 'met' : 'NOT MET'
const colourRow = (line: string, { met }: ResultRow): string => (met ? line : styleText('red', line))
