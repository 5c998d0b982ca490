// Log lines as a terminal shows them.
import type { StreamItem } from '../client/client.ts'
import type { Output } from './output.ts'

type LogLine = StreamItem<'GET /v2/deployments/{deployment_id}/logs/stream'>

/** Stored lines have ␛ for the control character. Only styles become control sequences again. */
const STYLES = /␛\[([\d;]{0,40})m/g
const PALETTE_COLORS = /[34]8;(?:5;\d{1,3}|2;\d{1,3};\d{1,3};\d{1,3})/g
/** Blinking, and text that cannot be seen. */
const REFUSED_CODES = [5, 6, 8]

function toTerminalStyle(_: string, codes: string): string {
  const rest = codes.replace(PALETTE_COLORS, '').split(';').map(Number)
  return rest.some(code => REFUSED_CODES.includes(code)) ? '' : `\x1b[${codes}m`
}

const LEVEL_STYLES = { DEBUG: 'dim', INFO: undefined, WARNING: 'yellow', ERROR: 'red', CRITICAL: 'red' } as const

export const plainLogMessage = ({ message }: Pick<LogLine, 'message'>): string =>
  message.replace(/\p{Cc}/gu, ' ').replace(STYLES, '')

export function formatLogMessage({ paint }: Output, { level, message }: Pick<LogLine, 'level' | 'message'>): string {
  const hasColors = paint('red', 'x') !== 'x'
  const text = message.replace(/\p{Cc}/gu, ' ')
  const styled = hasColors ? text.replace(STYLES, toTerminalStyle) : text.replace(STYLES, '')
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
