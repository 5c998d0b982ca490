// Tables in CSV, by RFC 4180 (pure).

export class CsvFault extends Error {
  readonly line: number
  constructor(line: number, message: string) {
    super(message)
    this.line = line
  }
}

/** Rows of cells. Lines without any character are left out. Line breaks of all systems end a row. */
export function parseCsv(text: string, maxRows: number): string[][] {
  const rows: string[][] = []
  let row: string[] = []
  let at = text.startsWith('\ufeff') ? 1 : 0
  let line = 1
  const endRow = () => {
    if (row.length > 1 || row[0] !== '') rows.push(row)
    row = []
    if (rows.length > maxRows) throw new CsvFault(line, `has more than ${maxRows - 1} rows below the header`)
  }
  while (at < text.length) {
    const start = at
    if (text[at] === '"') {
      const { cell, end } = readQuoted(text, at, line)
      row.push(cell)
      at = end
    } else {
      at = findEnd(text, at)
      row.push(text.slice(start, at))
    }
    line += text.slice(start, at).split('\n').length - 1
    if (at === text.length) break
    const isSeparator = text[at] === ','
    if (text.startsWith('\r\n', at)) at++
    at++
    if (isSeparator) {
      if (at === text.length) row.push('')
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

function readQuoted(text: string, start: number, line: number): { cell: string; end: number } {
  const parts: string[] = []
  for (let at = start + 1; ; ) {
    const quote = text.indexOf('"', at)
    if (quote === -1) throw new CsvFault(line, 'has a quote that is not closed')
    parts.push(text.slice(at, quote))
    if (text[quote + 1] !== '"') {
      const end = quote + 1
      if (end < text.length && !/[,\r\n]/.test(text[end]!)) throw new CsvFault(line, 'has a text after a closing quote')
      return { cell: parts.join('"'), end }
    }
    at = quote + 2
  }
}
