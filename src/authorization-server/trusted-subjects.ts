// Which tokens a trusted issuer accepts by their subject and claims (pure).
import { matchesGlob, matchMany, matchOne } from '../protocol/glob.ts'

/** Claims by their name, each with a pattern. */
export type ClaimPatterns = Record<string, string>
export type TrustedSubject = { subject: string; claims: ClaimPatterns }

/** `*` stands for any text, of any length. */
export const matchesPattern = (pattern: string, text: string): boolean =>
  matchesGlob(
    [...pattern].map(character =>
      character === '*' ? matchMany<string>(() => true) : matchOne<string>(other => other === character),
    ),
    [...text],
  )

/** A claim that is a list or an object has no text to compare. */
const claimText = (value: unknown): string | undefined =>
  ['string', 'number', 'boolean'].includes(typeof value) ? String(value) : undefined

export type Mismatch = { reason: 'subject_differs' } | { reason: 'claim_differs'; claim: string }

export function findMismatch(
  trusted: TrustedSubject,
  token: { sub: string } & Record<string, unknown>,
): Mismatch | null {
  if (!matchesPattern(trusted.subject, token.sub)) return { reason: 'subject_differs' }
  for (const [claim, pattern] of Object.entries(trusted.claims)) {
    const text = Object.hasOwn(token, claim) ? claimText(token[claim]) : undefined
    if (text === undefined || !matchesPattern(pattern, text)) return { reason: 'claim_differs', claim }
  }
  return null
}

/** Of two that accept a token, the one that fixes more of it decides. */
export const countFixedCharacters = ({ subject, claims }: TrustedSubject): number =>
  [subject, ...Object.values(claims)].join('').replaceAll('*', '').length
