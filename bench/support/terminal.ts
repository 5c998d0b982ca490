// Shows a run: progress on one line of a terminal, or one plain line for each bench elsewhere, and the table at the
// end.
import { styleText } from 'node:util'
import type { ResultRow } from './runner.ts'

const { stderr } = process
let lastProgress = ''

/** Without a bench it clears the line. */
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
    row.error ? 'failed' : row.measured!,
    row.target,
    formatVerdict(row),
  ])
  const lines = [['', 'what is measured', 'measured', 'target', 'result'], ...cells]
  const widths = lines[0]!.map((_, column) => Math.max(...lines.map(line => line[column]!.length)))
  const padded = lines.map(line =>
    line
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  )
  const notes = (row?: ResultRow) =>
    (row?.notes ?? []).map(note => styleText('dim', `${' '.repeat(widths[0]! + 2)}${note}`))
  const [head, ...body] = padded
  return [styleText('bold', head!), ...body.flatMap((line, i) => [colorRow(line, rows[i]!), ...notes(rows[i])])].join(
    '\n',
  )
}

const formatVerdict = ({ met, error, skipped }: ResultRow): string =>
  error ? 'failed' : skipped ? 'skipped' : met ? 'met' : 'NOT MET'
const colorRow = (line: string, { met }: ResultRow): string => (met ? line : styleText('red', line))
