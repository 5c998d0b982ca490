// Log lines as a terminal shows them.
import type { StreamItem } from '../client/client.ts'
import type { Output } from './output.ts'

type LogLine = StreamItem<'GET /v2/deployments/{deployment_id}/logs/stream'>

/** Stored lines have ␛ for the control character. Only colors become control sequences again. */
const COLOR = /␛\[([\d;]{0,20})m/g

export function formatLogMessage({ paint }: Output, { level, message }: Pick<LogLine, 'level' | 'message'>): string {
  const hasColors = paint('red', 'x') !== 'x'
  const text = message.replace(/\p{Cc}/gu, ' ')
  const colored = text.replace(COLOR, hasColors ? '\x1b[$1m' : '')
  const whole = hasColors && colored !== text ? `${colored}\x1b[0m` : colored
  return level === 'ERROR' || level === 'CRITICAL' ? paint('red', whole) : whole
}

export const formatLogLine = (out: Output, line: LogLine): string =>
  `${out.paint('dim', line.timestamp.slice(11, 19))} ${formatLogMessage(out, line)}`
