// Matches the subject and claims of tokens with trusted issuers (pure).

/** Claims by their name, each with a pattern. */
type ClaimPatterns = Record<string, string>
export type TrustedSubject = { subject: string; claims: ClaimPatterns }

/**
 * `*` stands for any text, of any length. Each part between two `*` is taken where it is found first, so the time is
 * about that of one search: an issuer writes long claims, and a workspace has thousands of patterns.
 */
export function matchesPattern(pattern: string, text: string): boolean {
  const [start, ...parts] = pattern.split('*') as [string, ...string[]]
  const end = parts.pop()
  if (end === undefined) return text === pattern
  const until = text.length - end.length
  if (until < start.length || !text.startsWith(start) || !text.endsWith(end)) return false
  const between = text.slice(start.length, until)
  let from = 0
  for (const part of parts) {
    const found = between.indexOf(part, from)
    if (found < 0) return false
    from = found + part.length
  }
  return true
}

/** A claim that is a list or an object has no text to compare. */
export const claimText = (value: unknown): string | undefined =>
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

/** The issuer that fixes more characters of a token decides. */
export const countFixedCharacters = ({ subject, claims }: TrustedSubject): number =>
  [subject, ...Object.values(claims)].join('').replaceAll('*', '').length
