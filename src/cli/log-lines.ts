// Log lines as a terminal shows them.
import type { StreamItem } from '../client/client.ts'
import type { Output } from './output.ts'

type LogLine = StreamItem<'GET /v2/deployments/{deployment_id}/logs/stream'>

/** Stored lines have ␛ for the control character. */
const SEQUENCE = /␛\[([\d;]{0,40})m/g
const STYLE = /^(?:0?[0-479]|2[1-479]|[349][0-7]|[34]9|10[0-7]|)$/

/** Colors and styles, without those that hide or animate text. */
function areStyles([first, ...rest]: string[]): boolean {
  if (first === undefined) return true
  if (first !== '38' && first !== '48') return STYLE.test(first) && areStyles(rest)
  const values = rest[0] === '5' ? 1 : rest[0] === '2' ? 3 : undefined
  return values !== undefined && rest.length > values && areStyles(rest.slice(values + 1))
}

const LEVEL_STYLES = { DEBUG: 'dim', INFO: undefined, WARNING: 'yellow', ERROR: 'red', CRITICAL: 'red' } as const

export function formatLogMessage({ paint }: Output, { level, message }: Pick<LogLine, 'level' | 'message'>): string {
  const hasColors = paint('red', 'x') !== 'x'
  const text = message.replace(/\p{Cc}/gu, ' ')
  const styled = text.replace(SEQUENCE, (sequence, parameters: string) => {
    if (!areStyles(parameters.split(';'))) return sequence
    return hasColors ? `\x1b[${parameters}m` : ''
  })
  const whole = hasColors && styled !== text ? `${styled}\x1b[0m` : styled
  const style = LEVEL_STYLES[level]
  return style ? paint(style, whole) : whole
}

/** In the time zone of the reader. */
function formatTime(timestamp: string): string {
  const time = new Date(timestamp)
  const clock = time.toTimeString().slice(0, 8)
  return time.toDateString() === new Date().toDateString() ? clock : `${time.toLocaleDateString('sv')} ${clock}`
}

export const formatLogLine = (out: Output, line: LogLine): string =>
  `${out.paint('dim', formatTime(line.timestamp))} ${formatLogMessage(out, line)}`
