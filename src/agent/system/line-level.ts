// The level of a line that an application writes: the one that it says itself; else that of its stream. Pure.
import type { levels } from '../../protocol/logs.schema.ts'

type Level = (typeof levels)[number]

const NAMES: Record<string, Level> = {
  trace: 'DEBUG',
  debug: 'DEBUG',
  info: 'INFO',
  notice: 'INFO',
  warn: 'WARNING',
  warning: 'WARNING',
  err: 'ERROR',
  error: 'ERROR',
  severe: 'ERROR',
  crit: 'CRITICAL',
  critical: 'CRITICAL',
  fatal: 'CRITICAL',
  panic: 'CRITICAL',
  alert: 'CRITICAL',
  emerg: 'CRITICAL',
}
/** Pino and bunyan write numbers: the highest that is not above. */
const NUMBERS: [number, Level][] = [
  [60, 'CRITICAL'],
  [50, 'ERROR'],
  [40, 'WARNING'],
  [30, 'INFO'],
  [0, 'DEBUG'],
]
const MEMBERS = ['level', 'severity', 'levelname', 'log.level', 'lvl']
/** A level is said before the message. */
const HEAD_LENGTH = 100
/** Colors, also as `sanitizeMessage` shows them. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the character that begins a color
const COLOR = /[\x1b␛]\[[\d;]{0,20}m/g
/** `2026-11-29 12:00:00 ERROR …`, `INFO:app:…`, `[… INFO/MainProcess]`. In capitals: other words are prose. */
const SHOUTED = /(?:^|[\s[(<|=])(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERR|ERROR|SEVERE|CRITICAL|FATAL|PANIC)(?![\w])/
/** `error: …` at the beginning, `[error]` anywhere. */
const FIRST = /^(\w{3,8}):/
const BRACKETED = /\[(\w{3,8})\]/g
/** `level=warn`, as logfmt has it. */
const NAMED = /(?:^|\s)(?:level|lvl|severity)="?(\w{3,8})/

export function levelOf(line: string, isError: boolean): Level {
  return saidLevel(line) ?? (isError ? 'WARNING' : 'INFO')
}

function saidLevel(line: string): Level | undefined {
  if (line.startsWith('{') && line.trimEnd().endsWith('}')) return levelOfJson(line)
  const head = line.slice(0, HEAD_LENGTH).replace(COLOR, '')
  const words = [NAMED, SHOUTED, FIRST].map(pattern => pattern.exec(head)?.[1])
  const bracketed = [...head.matchAll(BRACKETED)].map(([, word]) => word)
  return [...words, ...bracketed].map(named).find(level => level !== undefined)
}

function levelOfJson(line: string): Level | undefined {
  try {
    const entry = JSON.parse(line) as Record<string, unknown>
    return MEMBERS.map(name => entry[name])
      .map(value =>
        typeof value === 'number' ? numbered(value) : typeof value === 'string' ? named(value) : undefined,
      )
      .find(level => level !== undefined)
  } catch {
    return undefined
  }
}

const named = (word: string | undefined): Level | undefined => {
  const name = word?.toLowerCase() ?? ''
  return Object.hasOwn(NAMES, name) ? NAMES[name] : undefined
}
const numbered = (value: number): Level | undefined => NUMBERS.find(([from]) => value >= from)?.[1]
