// Log lines as a terminal shows them.
import type { StreamItem } from '../client/client.ts'
import type { Output } from './output.ts'
import { areStyles } from './terminal-text.ts'

type LogLine = StreamItem<'GET /v2/deployments/{deployment_id}/logs/stream'>

/** Stored lines have ␛ for the control character. */
const SEQUENCE = /␛\[([\d;]{0,40})m/g
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

/** Shows the time zone of this machine. */
export function formatTime(timestamp: string): string {
  const time = new Date(timestamp)
  const clock = time.toTimeString().slice(0, 8)
  return time.toDateString() === new Date().toDateString() ? clock : `${time.toLocaleDateString('sv')} ${clock}`
}

export const formatLogLine = (out: Output, line: LogLine): string =>
  `${out.paint('dim', formatTime(line.timestamp))} ${formatProcess(out, line)}${formatLogMessage(out, line)}`

/** Lines of `web` and of the agent have none. */
export const formatProcess = ({ paint }: Output, { process }: Pick<LogLine, 'process'>): string =>
  process == null || process === 'web' ? '' : `${paint('dim', `[${process}]`)} `
