// Tables in CSV, by RFC 4180 (pure).

export class CsvFault extends Error {
  readonly line: number
  constructor(line: number, message: string) {
    super(message)
    this.line = line
  }
}

type CsvLimits = {
  maxRows: number
  maxColumns: number
  /** Returns false if there may be no further cell. An empty line counts as one. */
  takeCell: () => boolean
}

/** Rows of cells. Lines without any character are left out. Line breaks of all systems end a row. */
export function parseCsv(text: string, { maxRows, maxColumns, takeCell }: CsvLimits): string[][] {
  const rows: string[][] = []
  let row: string[] = []
  let at = text.startsWith('\ufeff') ? 1 : 0
  let line = 1
  const endRow = () => {
    if (row.length > 1 || row[0] !== '') rows.push(row)
    row = []
    if (rows.length > maxRows) throw new CsvFault(line, `has more than ${maxRows - 1} rows below the header`)
  }
  const countCell = () => {
    if (row.length === maxColumns) throw new CsvFault(line, `has more than ${maxColumns} columns`)
    if (!takeCell()) throw new CsvFault(line, 'has more cells than one request may have')
  }
  while (at < text.length) {
    const start = at
    countCell()
    if (text[at] === '"') {
      const { cell, end } = readQuoted(text, at, line)
      row.push(cell)
      at = end
      line += countLineBreaks(cell)
    } else {
      at = findEnd(text, at)
      row.push(text.slice(start, at))
    }
    if (at === text.length) break
    const isSeparator = text[at] === ','
    if (text.startsWith('\r\n', at)) at++
    at++
    if (isSeparator) {
      if (at === text.length) {
        countCell()
        row.push('')
      }
      continue
    }
    endRow()
    line++
  }
  if (row.length > 0) endRow()
  return rows
}

const END = /[,\r\n]/g

function findEnd(text: string, at: number): number {
  END.lastIndex = at
  return END.exec(text)?.index ?? text.length
}

function countLineBreaks(text: string): number {
  let count = 0
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) count++
  return count
}

function readQuoted(text: string, start: number, line: number): { cell: string; end: number } {
  for (let at = start + 1; ; ) {
    const quote = text.indexOf('"', at)
    if (quote === -1) throw new CsvFault(line, 'has a quote that is not closed')
    if (text[quote + 1] !== '"') {
      const end = quote + 1
      if (end < text.length && !/[,\r\n]/.test(text[end]!)) throw new CsvFault(line, 'has a text after a closing quote')
      return { cell: text.slice(start + 1, quote).replaceAll('""', '"'), end }
    }
    at = quote + 2
  }
}
