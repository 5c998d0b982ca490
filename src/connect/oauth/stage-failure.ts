// Failures of foreign servers: an error code with the stage, the host and a sanitized quote.
import type { Code } from '../../kernel/http/codes.ts'
import { type Failure, fail } from '../../kernel/http/errors.ts'

export const STAGES = {
  probe: 'MCP server',
  resource: 'protected resource metadata',
  server: 'authorization server metadata',
  registration: 'registration',
  management: 'client configuration',
} as const
export type Stage = (typeof STAGES)[keyof typeof STAGES]

export const failAtStage = (code: Code, stage: Stage, at: URL | string, reason: string): Failure =>
  fail(code, { about: `${stage}: ${hostOf(at)}: ${reason}` })

const hostOf = (address: URL | string): string =>
  URL.canParse(String(address)) ? new URL(address).host.slice(0, 260) : quoteText(String(address))

const MAX_QUOTED_LENGTH = 200
const HARMFUL_CHARACTERS = /[<>&"'`\\“”]|\p{C}/gu

/** One line, truncated, with escapes for characters that have a meaning in HTML, a terminal or a log. */
export function quoteText(text: string): string {
  const line = text.toWellFormed().replace(/\s+/g, ' ').trim()
  const truncated = line.length > MAX_QUOTED_LENGTH ? `${line.slice(0, MAX_QUOTED_LENGTH).toWellFormed()}…` : line
  const escaped = (character: string) => `\\u{${character.codePointAt(0)!.toString(16)}}`
  return `“${truncated.replace(HARMFUL_CHARACTERS, escaped)}”`
}

/** Drops user info and query, which may carry secrets. */
export const quoteUrl = (address: string): string =>
  quoteText(address.replace(/[?#].*$/s, '').replace(/\/\/[^/]*@/, '//'))
