// Log lines as a terminal shows them.
import type { StreamItem } from '../client/client.ts'
import type { Output } from './output.ts'

type LogLine = StreamItem<'GET /v2/deployments/{deployment_id}/logs/stream'>

/** Colors and styles of text, without the ones that hide or animate it. */
const STYLE = '(?:0?[0-479]|2[1-479]|[349][0-7]|[34]9|10[0-7]|[34]8;5;\\d{1,3}|[34]8;2(?:;\\d{1,3}){3})'
/** Stored lines have ␛ for the control character. Only styles become control sequences again. */
const STYLES = new RegExp(`␛\\[((?:${STYLE}(?:;${STYLE})*)?)m`, 'g')
const LEVEL_STYLES = { DEBUG: 'dim', INFO: undefined, WARNING: 'yellow', ERROR: 'red', CRITICAL: 'red' } as const

export const plainLogMessage = ({ message }: Pick<LogLine, 'message'>): string =>
  message.replace(/\p{Cc}/gu, ' ').replace(COLOR, '')

export function formatLogMessage({ paint }: Output, { level, message }: Pick<LogLine, 'level' | 'message'>): string {
  const hasColors = paint('red', 'x') !== 'x'
  const text = message.replace(/\p{Cc}/gu, ' ')
  const styled = text.replace(STYLES, hasColors ? '\x1b[$1m' : '')
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
