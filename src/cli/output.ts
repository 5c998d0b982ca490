// The output of a command: tables and colors on a terminal, and one JSON object a line elsewhere.
import { styleText } from 'node:util'
import { EXIT, type FailureReport } from './failure.ts'
import { printable, printableWithStyles, toJson } from './terminal-text.ts'

type Style = Parameters<typeof styleText>[0]
export type Cell = string | number | null | undefined

export type Output = ReturnType<typeof createOutput>

/** The exit code of a process that SIGPIPE ended. */
const SIGPIPE_CODE = 141

/** Fails, because the result was not written. A reader that closes early, such as `head`, is no error. */
function endWithoutReader({ code, message }: NodeJS.ErrnoException): void {
  if (code === 'EPIPE') process.exit(SIGPIPE_CODE)
  const report = { type: 'error', code, message: `Standard output cannot be written: ${message}.`, errors: [] }
  process.stderr.write(`${toJson(report)}\n`)
  process.exit(EXIT.failed)
}

export function createOutput({ json }: { json: boolean }) {
  const { stdout, stderr } = process
  stdout.on('error', endWithoutReader)
  // A deploy goes on although its notes cannot be written.
  stderr.on('error', () => {})
  const isMachine = json || !stdout.isTTY
  const paint = (style: Style, text: string) => styleText(style, text, { stream: stdout })
  let hasProgress = false
  const showProgress = (text: string) => {
    if (isMachine || !stderr.isTTY || (text === '' && !hasProgress)) return
    stderr.write(`\r\x1b[2K${printableWithStyles(text)}`)
    hasProgress = text !== ''
  }
  const line = (text = '') => {
    showProgress('')
    stdout.write(`${isMachine ? text : printableWithStyles(text)}\n`)
  }

  // The size of some pseudo-terminals is 0 by 0.
  const width = stdout.columns || Number.POSITIVE_INFINITY

  return {
    isMachine,
    width,
    isInteractive: !isMachine && process.stdin.isTTY === true,
    paint,
    /** An object for programs, text for people. */
    emit(object: Record<string, unknown>, text?: () => string): void {
      if (isMachine) line(toJson(object))
      else if (text) line(text())
    },
    /** The first line of every command that talks to an installation, beside the result. */
    installation({ url, from }: { url: string; from: string }): void {
      showProgress('')
      const line = isMachine ? toJson({ type: 'installation', url, from }) : `Installation ${url}, by ${from}`
      stderr.write(`${isMachine ? line : styleText('dim', printable(line), { stream: stderr })}\n`)
    },
    /** For people only, beside the result. */
    note(text: string): void {
      if (isMachine) return
      showProgress('')
      stderr.write(`${styleText('dim', printable(text), { stream: stderr })}\n`)
    },
    /** About the result, beside it. */
    warning(message: string): void {
      showProgress('')
      const line = isMachine ? toJson({ type: 'warning', message }) : `Warning: ${printable(message)}`
      stderr.write(`${isMachine ? line : styleText('yellow', line, { stream: stderr })}\n`)
    },
    /** The last line of the terminal, until there is another one. */
    progress: showProgress,
    table<Item extends object>(items: Item[], columns: Record<string, (item: Item) => Cell>, empty: string): void {
      if (isMachine) {
        for (const item of items) line(toJson(item))
        return
      }
      if (items.length === 0) {
        line(empty)
        return
      }
      const names = Object.keys(columns)
      const rows = items.map(item => names.map(name => inline(String(columns[name]!(item) ?? '–'))))
      const longest = names.map((name, i) => Math.max(name.length, ...rows.map(row => row[i]!.length)))
      const widths = fitWidths(longest, width - GAP.length * (names.length - 1))
      const pad = (row: string[]) =>
        row
          .map((cell, i) => cut(cell, widths[i]!).padEnd(widths[i]!))
          .join(GAP)
          .trimEnd()
      line(paint('bold', pad(names.map(name => name.toUpperCase()))))
      for (const row of rows) line(pad(row))
    },
    text: (text: string) => line(printable(text)),
    raw: (text: string) => line(text),
    fail({ code, message, request_id, errors = [], last_lines, ...report }: FailureReport): void {
      const next = report.next?.replace(/^slipway(?= )/, COMMAND)
      if (isMachine) {
        stderr.write(`${toJson({ type: 'error', code, message, request_id, errors, last_lines, next })}\n`)
        return
      }
      const red = (text: string) => styleText('red', text, { stream: stderr })
      const faults = errors.map(({ loc, msg }) => `  ${joinPlace(loc)}: ${msg}`)
      const about = [code, request_id && `request ${request_id}`].filter(Boolean).join(', ')
      const shown = last_lines?.map(one => `  ${one}`) ?? []
      const isListed = errors.length > 0 && message.includes(errors[0]!.msg)
      const lines = [
        `${isListed ? 'The request has faults.' : message} (${about})`,
        ...shown,
        ...faults,
        ...(next ? [`Next: ${next}`] : []),
      ]
      // A choice of the person is no error.
      const isChosen = ['declined', 'detached', 'interrupted'].includes(code)
      stderr.write(`${isChosen ? '' : `${red('Error')} `}${lines.map(printable).join('\n')}\n`)
    },
  }
}

/** The words that start the command line. `scripts/slipway.mjs` sets them when npx runs it. */
const COMMAND = process.env.SLIPWAY_COMMAND ?? 'slipway'
const GAP = '  '
const MIN_WIDTH = 4

/** The widest columns are cut first. */
function fitWidths(longest: number[], room: number): number[] {
  const widths = [...longest]
  for (let excess = widths.reduce((sum, width) => sum + width, 0) - room; excess > 0; excess--) {
    const widest = widths.indexOf(Math.max(...widths))
    if (widths[widest]! <= MIN_WIDTH) break
    widths[widest]!--
  }
  return widths
}

const cut = (text: string, width: number) => (text.length > width ? `${text.slice(0, width - 1)}…` : text)

/** The place of a fault. Faults of documents have parts with spaces, such as `Deployment shop`. */
const joinPlace = (parts: (string | number)[]): string =>
  parts.join(parts.some(part => `${part}`.includes(' ')) ? ' ' : '.')
const inline = (text: string) => printable(text).replace(/[\n\t]/g, ' ')

/** A value of a configuration, for people. */
export const formatValue = (value: unknown): string => inline(typeof value === 'string' ? value : JSON.stringify(value))

export const age = (time: string): string => {
  const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time)) / 1000))
  if (seconds >= 86_400) return `${Math.floor(seconds / 86_400)}d ago`
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)}h ago`
  return seconds >= 60 ? `${Math.floor(seconds / 60)}m ago` : `${seconds}s ago`
}

export const formatBytes = (bytes: number): string =>
  bytes < 1024
    ? `${bytes} B`
    : bytes < 1024 ** 2
      ? `${(bytes / 1024).toFixed(1)} KB`
      : `${(bytes / 1024 ** 2).toFixed(1)} MB`
