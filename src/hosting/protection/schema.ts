// Schemas of share links, bypass tokens and grants of protected deployments.
import * as z from 'zod'
import { boundedText, CREDENTIAL, Instant, listOf, Page, Uuid } from '../../protocol/wire.ts'
import { DeploymentRef } from '../deployments/schema.ts'

const Time = z.string().meta({ format: 'date-time' })
const BypassKind = z.enum(['link', 'token']).meta({
  description: '`link`: a share link, for people. `token`: for machines, which send it as the header X-Slipway-Bypass.',
})

export const BypassRef = z.object({ ...DeploymentRef.shape, bypass_id: Uuid })
export const BypassQuery = Page

const MAX_LINK_DAYS = 365

export const NewBypass = z
  .object({
    kind: BypassKind,
    description: boundedText(200).min(1).meta({ description: 'Who has it, so that it can be revoked.' }),
    expires_at: Instant.nullish().meta({
      description: `When it stops working. Required for a link, and at most ${MAX_LINK_DAYS} days from now.`,
    }),
  })
  .superRefine(({ kind, expires_at }, check) => {
    if (kind !== 'link' || expires_at != null) return
    check.addIssue({ code: 'custom', path: ['expires_at'], message: 'is required for a share link' })
  })
  .meta({
    id: 'NewBypass',
    description: 'A share link or a bypass token of a protected deployment.',
    example: { kind: 'token', description: 'End-to-end tests' },
  })
export type NewBypass = z.output<typeof NewBypass>

/** Null for what is not in the future, or too far. */
export function isValidEnd(expires_at: string, now: number): boolean {
  const left = Date.parse(expires_at) - now
  return left > 0 && left <= MAX_LINK_DAYS * 86_400_000
}

export const Bypass = z
  .object({
    id: Uuid,
    deployment_id: Uuid,
    kind: BypassKind,
    description: z.string(),
    expires_at: Time.nullable(),
    created_at: Time,
  })
  .meta({ id: 'Bypass', description: 'A share link or a bypass token. Its secret is shown once, when it is made.' })
export type Bypass = z.output<typeof Bypass>
export const BypassList = listOf(Bypass).meta({ id: 'BypassList', description: 'A page of bypasses, newest first.' })

export const CreatedBypass = z
  .object({
    ...Bypass.shape,
    secret: z.string().meta({ ...CREDENTIAL, description: 'Only its hash is stored.' }),
    url: z
      .string()
      .nullable()
      .meta({ ...CREDENTIAL, description: 'Of a link: the address to share. Null before the deployment serves.' }),
  })
  .meta({ id: 'CreatedBypass', description: 'A new share link or bypass token, with its secret.' })
export type CreatedBypass = z.output<typeof CreatedBypass>

// ---- grants

export const GrantRequest = z
  .object({
    host: boundedText(300).meta({ description: 'The host that the browser asked for, with its port if it has one.' }),
    state: boundedText(43)
      .regex(/^[\w-]{43}$/, { error: 'must be the `state` that the router gave' })
      .meta({ description: 'Binds the grant to the browser that the router has sent.' }),
  })
  .meta({
    id: 'GrantRequest',
    description: 'A browser that wants to see a protected deployment.',
    example: { host: 'shop.apps.example.com', state: 'u8f4VZ0Tn0ZcHFbSxhK1rY9o3k5mGq2WbXcJtLpQeDs' },
  })
export type GrantRequest = z.output<typeof GrantRequest>

export const Grant = z
  .object({
    grant: z.string().meta({ ...CREDENTIAL, description: 'A JWT for the router, valid for two minutes.' }),
    url: z.string().meta({ description: 'The page of the router that takes the grant in its fragment.' }),
  })
  .meta({ id: 'Grant', description: 'Lets one browser see one host of a deployment.' })
export type Grant = z.output<typeof Grant>
