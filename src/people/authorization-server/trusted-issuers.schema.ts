// Schemas of trusted issuers.
import * as z from 'zod'
import { rejectPrototypeKey } from '../../protocol/kubernetes.schema.ts'
import { boundedText, Instant, listOf, namedPage, recordOf, Uuid } from '../../protocol/wire.ts'
import { label } from '../access/schema.ts'

const Time = z.string().meta({ format: 'date-time' })

export const TrustedIssuerRef = z.object({ trusted_issuer_id: Uuid })
export const TrustedIssuerQuery = namedPage('name')

const Name = label(128)
const VisibleAscii = (maxLength: number) =>
  boundedText(maxLength).regex(/^[\x21-\x7e]+$/, { error: 'must be visible ASCII characters without spaces' })
const Issuer = VisibleAscii(512).regex(/^https?:\/\/[^?#]+$/, {
  error: 'must be the URL of the issuer, such as https://token.actions.githubusercontent.com',
})
const Pattern = boundedText(512)
  .refine(text => /^\P{Cc}+$/u.test(text), {
    error: 'must have 1 to 512 characters, and no control characters',
  })
  .meta({ pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]+$' })
const Audience = VisibleAscii(512)
const ClaimName = boundedText(100).regex(/^[\x21-\x7e]+$/, { error: 'must be the name of a claim' })
/** These are checked anyway, or are not the same in two tokens. */
const OWN_CLAIMS = ['iss', 'aud', 'sub', 'exp', 'nbf', 'iat', 'jti']
const Claims = z.preprocess(
  rejectPrototypeKey<Record<string, string>>,
  recordOf(
    ClaimName.refine(name => !OWN_CLAIMS.includes(name), { error: 'is checked without a pattern' }).meta({
      not: { enum: OWN_CLAIMS },
    }),
    Pattern,
    20,
  ),
)
const KeyMinutes = z.int().min(1).max(15)

const subjectText = {
  description:
    'The subject of the tokens, exactly, or with `*` for any text. For GitHub Actions: ' +
    '`repo:acme/shop:ref:refs/heads/main`.',
}
const claimsText = { description: 'Further claims that a token must have, each with a pattern like that of `subject`.' }

/**
 * Hosts of issuers that give tokens to everyone who has an account there. `owned` is the beginning of a subject, and of
 * a claim, that only one owner can have.
 */
const PUBLIC_ISSUERS: Record<string, { owned: RegExp; claims: Record<string, RegExp>; example: string }> = {
  'token.actions.githubusercontent.com': {
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
  'gitlab.com': {
    owned: /^project_path:[^/:*]+\//,
    claims: {
      project_path: /^[^/*]+\//,
      project_id: /^[^*]+$/,
      namespace_path: /^[^*]+$/,
      namespace_id: /^[^*]+$/,
    },
    example: 'project_path:acme/shop:*',
  },
  'app.terraform.io': {
    owned: /^organization:[^:*]+:/,
    claims: { terraform_organization_id: /^[^*]+$/, terraform_organization_name: /^[^*]+$/ },
    example: 'organization:acme:*',
  },
  'agent.buildkite.com': {
    owned: /^organization:[^:*]+:/,
    claims: { organization_slug: /^[^*]+$/, organization_id: /^[^*]+$/ },
    example: 'organization:acme:pipeline:shop:*',
  },
  'oidc.vercel.com': {
    owned: /^owner:[^:*]+:/,
    claims: { owner: /^[^*]+$/, owner_id: /^[^*]+$/, project_id: /^[^*]+$/ },
    example: 'owner:acme:project:shop:*',
  },
  'oidc.codefresh.io': {
    owned: /^account:[^:*]+:/,
    claims: { account_id: /^[^*]+$/, account_name: /^[^*]+$/ },
    example: 'account:64f0a1b2c3d4e5f60718293a:pipeline:*',
  },
  'api.pulumi.com': {
    owned: /^pulumi:[^:*]+:org:[^:*]+:/,
    claims: { org: /^[^*]+$/ },
    example: 'pulumi:deploy:org:acme:project:shop:*',
  },
  'oidc.modal.com': {
    owned: /^modal:workspace_id:[^:*]+:/,
    claims: { workspace_id: /^[^*]+$/ },
    example: 'modal:workspace_id:ac-12345abcd:*',
  },
  'accounts.google.com': {
    owned: /^[^*]+$/,
    claims: { email: /^[^*]+$/ },
    example: '112233445566778899001',
  },
}

/** The host is the same for an address with capitals, a port, a path, a user, or a dot at the end. */
const hostOf = (issuer: string): string => (URL.canParse(issuer) ? new URL(issuer).hostname.replace(/\.$/, '') : '')

/** A subject without a wildcard, or with a whole part of it before the first one, such as `system:` or `auth0|`. */
const namesPart = (subject: string): boolean => !subject.includes('*') || /[^:/|][:/|]/.test(subject.split('*')[0]!)

type Trusted = { issuer: string; subject: string; claims: Record<string, string> }
/** Explains why a subject would accept tokens of strangers, or returns null. */
export function findSubjectFault({ issuer, subject, claims }: Trusted): string | null {
  const known = PUBLIC_ISSUERS[hostOf(issuer)]
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
  if (namesPart(subject)) return null
  return (
    'must have a whole part before the first `*`, up to a `:`, `/` or `|`: the text before the first `*` decides ' +
    'whose tokens are accepted'
  )
}

const refuseStrangers = (trusted: Trusted, check: z.core.$RefinementCtx): void => {
  const message = findSubjectFault(trusted)
  if (message !== null) check.addIssue({ code: 'custom', path: ['subject'], message })
}

export const NewTrustedIssuer = z
  .object({
    name: Name,
    issuer: Issuer.meta({
      description: 'The `iss` of the tokens. Its keys are read from `/.well-known/openid-configuration` below it.',
      format: 'uri',
    }),
    audience: Audience.nullish().meta({
      description: 'The `aud` that a token must have. By default the address of this installation.',
    }),
    subject: Pattern.meta(subjectText),
    claims: Claims.default({}).meta(claimsText),
    role_id: Uuid.meta({
      description: 'The role of the keys, of scope `workspace`. The caller must have its permissions.',
    }),
    key_minutes: KeyMinutes.default(15).meta({ description: 'How long a key is valid.' }),
    expires_at: Instant.nullish().meta({
      description: 'Until when tokens are exchanged. By default until the calling key expires, if it does.',
    }),
  })
  .superRefine(refuseStrangers)
  .meta({
    id: 'NewTrustedIssuer',
    description: 'An issuer whose tokens are exchanged for API keys.',
    example: {
      name: 'shop on GitHub',
      issuer: 'https://token.actions.githubusercontent.com',
      subject: 'repo:acme/shop:ref:refs/heads/main',
      claims: { event_name: 'push' },
      role_id: '00000000-0000-4000-8000-000000000002',
    },
  })
export type NewTrustedIssuer = z.output<typeof NewTrustedIssuer>

export const TrustedIssuerPatch = z
  .object({
    name: Name.nullish(),
    issuer: Issuer.nullish(),
    audience: Audience.nullish(),
    subject: Pattern.nullish(),
    claims: Claims.nullish().meta({ description: 'Replaces all of them.' }),
    role_id: Uuid.nullish(),
    key_minutes: KeyMinutes.nullish(),
    expires_at: Instant.nullish(),
  })
  .superRefine(({ issuer, subject, claims }, check) => {
    const given = { issuer, subject, claims }
    const missing = Object.entries(given).flatMap(([name, value]) => (value == null ? [name] : []))
    if (missing.length === 3) return
    // They are judged together, and the stored ones may change meanwhile.
    for (const name of missing)
      check.addIssue({ code: 'custom', path: [name], message: 'is required with `issuer`, `subject` and `claims`' })
    if (missing.length === 0) refuseStrangers({ issuer: issuer!, subject: subject!, claims: claims! }, check)
  })
  .meta({
    id: 'TrustedIssuerPatch',
    description:
      'Members that are absent or null stay as they are. `issuer`, `subject` and `claims` are changed together. ' +
      'A change of anything but the name grants the role again: from then on it ends with the calling key.',
    example: { name: 'shop on GitHub, main' },
  })
export type TrustedIssuerPatch = z.output<typeof TrustedIssuerPatch>

export const TrustedIssuer = z
  .object({
    id: Uuid,
    name: z.string(),
    issuer: z.string(),
    audience: z.string(),
    subject: z.string(),
    claims: z.record(z.string(), z.string()),
    role_id: Uuid,
    key_minutes: z.int(),
    expires_at: Time.nullable(),
    granted_by: Uuid.nullable().meta({
      description: 'The key that granted the role. When that key is revoked, no token is exchanged any more.',
    }),
    state: z.enum(['active', 'ended']).meta({
      description: '`ended`: it has expired, or the key that granted the role was revoked.',
    }),
    last_used_at: Time.nullable(),
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'TrustedIssuer', description: 'An issuer whose tokens this workspace exchanges for API keys.' })
export type TrustedIssuer = z.output<typeof TrustedIssuer>
export const TrustedIssuerList = listOf(TrustedIssuer).meta({
  id: 'TrustedIssuerList',
  description: 'A page of trusted issuers, newest first.',
})
