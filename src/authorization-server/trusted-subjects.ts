// Which tokens a trusted issuer accepts by their subject and claims (pure).
import { matchesGlob, matchMany, matchOne } from '../protocol/glob.ts'

/** Claims by their name, each with a pattern. */
export type ClaimPatterns = Record<string, string>
export type TrustedSubject = { issuer: string; subject: string; claims: ClaimPatterns }

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

/**
 * Issuers that give tokens to everyone who has an account there. `owned` is the beginning of a subject, and of a claim,
 * that only one owner can have.
 */
const PUBLIC_ISSUERS: Record<string, { owned: RegExp; claims: Record<string, RegExp>; example: string }> = {
  'https://token.actions.githubusercontent.com': {
    owned: /^(repo:[^/:*]+\/|repository_owner(_id)?:[^:*]+:|repository(_id)?:[^:*]+:)/,
    claims: {
      repository: /^[^/*]+\//,
      repository_id: /^[^*]+$/,
      repository_owner: /^[^*]+$/,
      repository_owner_id: /^[^*]+$/,
      enterprise_id: /^[^*]+$/,
    },
    example: 'repo:acme/shop:*',
  },
  'https://gitlab.com': {
    owned: /^project_path:[^/:*]+\//,
    claims: {
      project_path: /^[^/*]+\//,
      project_id: /^[^*]+$/,
      namespace_path: /^[^*]+$/,
      namespace_id: /^[^*]+$/,
    },
    example: 'project_path:acme/shop:*',
  },
  'https://app.terraform.io': {
    owned: /^organization:[^:*]+:/,
    claims: { terraform_organization_id: /^[^*]+$/, terraform_organization_name: /^[^*]+$/ },
    example: 'organization:acme:*',
  },
  'https://agent.buildkite.com': {
    owned: /^organization:[^:*]+:/,
    claims: { organization_slug: /^[^*]+$/, organization_id: /^[^*]+$/ },
    example: 'organization:acme:pipeline:shop:*',
  },
  'https://accounts.google.com': {
    owned: /^[^*]+$/,
    claims: { email: /^[^*]+$/ },
    example: '112233445566778899001',
  },
}

/** Why a subject would accept tokens of strangers, or null. */
export function findSubjectFault({ issuer, subject, claims }: TrustedSubject): string | null {
  const known = PUBLIC_ISSUERS[issuer.replace(/\/$/, '')]
  if (known) {
    const isOwned =
      known.owned.test(subject) ||
      Object.entries(known.claims).some(([claim, owned]) => Object.hasOwn(claims, claim) && owned.test(claims[claim]!))
    if (isOwned) return null
    const names = Object.keys(known.claims).map(claim => `\`${claim}\``)
    return (
      `would accept tokens of every account at this issuer. Name the owner before the first \`*\`, as in ` +
      `${known.example}, or in one of the claims ${names.join(', ')}`
    )
  }
  const isFixed = (pattern: string) => pattern !== '' && !pattern.startsWith('*')
  if (isFixed(subject)) return null
  return 'must not begin with `*`: what stands before the first `*` decides whose tokens are accepted'
}
