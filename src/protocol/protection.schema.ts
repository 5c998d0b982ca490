// Schemas of the protection of a deployment: who may see it.
import * as z from 'zod'
import { isOpenPathPattern, MAX_OPEN_PATH_LENGTH, MAX_OPEN_PATHS } from './access-rules.ts'
import { arrayOf, boundedText } from './wire.ts'

const OPEN_PATH_ERROR =
  'must be a path such as `/hooks/stripe`, or `/hooks/*` for all below it, without escapes, `..`, `//` or other stars'

const OpenPath = boundedText(MAX_OPEN_PATH_LENGTH, OPEN_PATH_ERROR)
  .refine(isOpenPathPattern, { error: OPEN_PATH_ERROR })
  .meta({ description: 'A path, or with `/*` at its end all paths below it. Case matters.' })

const ProtectionMode = z.enum(['none', 'members']).meta({
  description: [
    '`none`: everyone who knows its address.',
    '`members`: people who may read the deployment, holders of a share link, and machines with a bypass token.',
  ].join(' '),
})

const open_paths = arrayOf(OpenPath, MAX_OPEN_PATHS).meta({
  description: 'Paths that are open to everyone all the same, for webhooks and the answers of OAuth providers.',
})

export const Protection = z.object({ mode: ProtectionMode, open_paths }).meta({
  id: 'Protection',
  description: 'Who may see what the deployment serves.',
})
export type Protection = z.output<typeof Protection>

export const NewProtection = z.object({ mode: ProtectionMode, open_paths: open_paths.default([]) }).meta({
  id: 'NewProtection',
  description: 'Who may see what a deployment serves.',
  example: { mode: 'members', open_paths: ['/hooks/*'] },
})
export type NewProtection = z.output<typeof NewProtection>

/** Null for `none` without paths. */
export type StoredProtection = Protection | null

export const toStored = (protection: Protection | null | undefined): StoredProtection =>
  protection && (protection.mode !== 'none' || protection.open_paths.length > 0) ? protection : null

export const OPEN_TO_EVERYONE: Protection = { mode: 'none', open_paths: [] }

// ---- for agents

const Bypass = z.object({
  kind: z.enum(['link', 'token']),
  hash: z.string().meta({ description: 'The SHA-256 of the secret, in hexadecimal.' }),
  expires_at: z.string().nullable().meta({ format: 'date-time' }),
})

export const WorkProtection = z.object({ open_paths: z.array(z.string()), bypasses: z.array(Bypass) }).meta({
  id: 'WorkProtection',
  description: 'Who may see it: people with a grant, and holders of one of these secrets.',
})
export type WorkProtection = z.output<typeof WorkProtection>

/** The part of an Ed25519 JWK that verifies. */
const VerifyingKey = z.object({ kid: z.string(), x: z.string() })

export const GrantIssuer = z
  .object({
    issuer: z.string().meta({ description: 'The `iss` of grants.' }),
    url: z.string().meta({ description: 'Send a browser without a grant here.' }),
    keys: z.array(VerifyingKey).meta({ description: 'The public keys of Ed25519 that sign grants.' }),
  })
  .meta({ id: 'GrantIssuer', description: 'How people prove that they may see a protected deployment.' })
export type GrantIssuer = z.output<typeof GrantIssuer>
