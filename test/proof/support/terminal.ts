// Shows a run: progress on one line of a terminal, or one plain line for each bench elsewhere, and a line that stays
// for each row.
import { styleText } from 'node:util'
import type { ResultRow } from './runner.ts'

const { stderr } = process
const [VERDICT_WIDTH, MEASURED_WIDTH, TARGET_WIDTH] = [9, 24, 20]
let lastProgress = ''

/** Without a bench it clears the line. */
export function showProgress(bench = '', detail = ''): void {
  if (stderr.isTTY) {
    const line = detail ? `${bench}: ${detail}` : bench
    stderr.write(`\r\x1b[K${line.slice(0, stderr.columns - 1)}`)
  } else if (bench && bench !== lastProgress) stderr.write(`${bench}\n`)
  lastProgress = bench
}

export function printLine(line: string): void {
  showProgress()
  console.log(line)
}

/** `all` are the rows of the run. */
export function printRow(row: ResultRow, all: Pick<ResultRow, 'id'>[]): void {
  const id = row.id.padEnd(Math.max(...all.map(one => one.id.length)))
  const cells = [formatVerdict(row).padEnd(VERDICT_WIDTH), (row.measured ?? '').padEnd(MEASURED_WIDTH)]
  const line = [id, ...cells, `(${row.target})`.padEnd(TARGET_WIDTH), row.what].join('  ')
  const spent = `${row.seconds} s, load before ${row.load}, ${formatShare(row.others)} of the machine to others`
  const notes = [
    ...(row.error ? [row.error] : []),
    ...(row.notes ?? []),
    row.busy ? `${spent}: do not trust it` : spent,
  ]
  const indent = ' '.repeat(id.length + 2)
  console.log([colorRow(line, row), ...notes.map(note => styleText('dim', indent + note))].join('\n'))
}

export const formatShare = (share: number): string => `${Math.round(share * 100)} %`

const formatVerdict = ({ met, error, skipped, busy }: ResultRow): string =>
  error ? 'failed' : skipped ? 'skipped' : `${met ? 'met' : 'NOT MET'}${busy ? ' ?' : ''}`
const colorRow = (line: string, { met, busy }: ResultRow): string =>
  met ? (busy ? styleText('yellow', line) : line) : styleText('red', line)
