// Lines of CSV by RFC 4180 (pure).

/** A spreadsheet runs a cell that begins with one of these as a formula. */
const FORMULA = /^[=+\-@\t\r]/

const toCell = (value: unknown): string => {
  const text = value === null || value === undefined ? '' : String(value)
  const plain = FORMULA.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}

export const toCsvLine = (cells: unknown[]): string => `${cells.map(toCell).join(',')}\r\n`
