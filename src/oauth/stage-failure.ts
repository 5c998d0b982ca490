// How a foreign server's fault is told: by code, with the stage, the host, and a few of its words made harmless.
import type { Code } from '../kernel/codes.ts'
import { type Failure, fail } from '../kernel/errors.ts'

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

export const hostOf = (address: URL | string): string =>
  URL.canParse(String(address)) ? new URL(address).host.slice(0, 260) : quoteText(String(address))

const MAX_QUOTED_LENGTH = 200
const HARMFUL_CHARACTERS = /[<>&"'`\\“”]|\p{C}/gu

/** In one line, cut, and without what means something to a page, a terminal or a log. */
export function quoteText(words: string): string {
  const line = words.toWellFormed().replace(/\s+/g, ' ').trim()
  const cut = line.length > MAX_QUOTED_LENGTH ? `${line.slice(0, MAX_QUOTED_LENGTH).toWellFormed()}…` : line
  const escaped = (harmful: string) => `\\u{${harmful.codePointAt(0)!.toString(16)}}`
  return `“${cut.replace(HARMFUL_CHARACTERS, escaped)}”`
}

/** An address as it was written, but for user info and query. */
export const quoteUrl = (address: string): string =>
  quoteText(address.replace(/[?#].*$/s, '').replace(/\/\/[^/]*@/, '//'))
