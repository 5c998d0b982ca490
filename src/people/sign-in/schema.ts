// Schemas of the caller and its sessions.
import * as z from 'zod'
import { boundedText, CREDENTIAL, listOf, Uuid } from '../../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })

export const SessionRef = z.object({ own_session_id: Uuid })

export const SignInSession = z
  .object({
    id: Uuid,
    method: z.enum(['key', 'link', 'oidc']).meta({ description: 'How the person signed in.' }),
    is_current: z.boolean().meta({ description: 'Whether this request came with it.' }),
    client_address: z.string().nullable(),
    user_agent: z.string().nullable(),
    created_at: Time,
    last_seen_at: Time.meta({ description: 'Accurate to the minute. After seven idle days the session ends.' }),
    expires_at: Time,
  })
  .meta({ id: 'SignInSession' })
export const SignInSessionList = listOf(SignInSession).meta({ id: 'SignInSessionList' })

/** The answer of the identity provider. The route reads it itself. */
export const SignInAnswer = z.looseObject({
  code: boundedText(4096).optional(),
  state: boundedText(512).optional(),
  iss: boundedText(2048).optional(),
  error: boundedText(512).optional(),
})

export const LinkToken = z
  .object({ token: z.string().max(128) })
  .meta({ id: 'SignInLinkToken', example: { token: 'sll_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM' } })
export const SignInLink = z
  .object({
    id: Uuid,
    member_id: Uuid,
    url: z
      .string()
      .meta({ ...CREDENTIAL, description: 'Opens a session for the member, once. It is shown only once.' }),
    expires_at: Time,
  })
  .meta({ id: 'SignInLink' })

const Permissions = z.array(z.string())

export const Me = z
  .object({
    organization: z.object({ id: Uuid, display_name: z.string() }),
    member: z
      .object({ id: Uuid, email: z.string(), full_name: z.string().nullable(), role_id: Uuid })
      .nullable()
      .meta({ description: 'Null for a key, and for a session that a key was exchanged for.' }),
    api_key: z
      .object({
        id: Uuid,
        description: z.string(),
        hint: z.string(),
        role_id: Uuid,
        tenant_id: Uuid.nullable(),
        expires_at: Time.nullable(),
        member: z
          .object({ id: Uuid, email: z.string() })
          .nullable()
          .meta({ description: 'The member that the key belongs to.' }),
      })
      .nullable(),
    session: SignInSession.nullable(),
    is_instance_admin: z.boolean().meta({ description: 'Whether this caller sees the whole installation.' }),
    permissions: Permissions.meta({
      description: 'What the caller may do without naming a workspace, and in every workspace.',
    }),
    workspaces: z.array(
      z.object({
        id: Uuid,
        display_name: z.string(),
        role_id: Uuid.nullable().meta({ description: 'The role of the member in this workspace.' }),
        permissions: Permissions,
      }),
    ),
  })
  .meta({ id: 'Me' })
