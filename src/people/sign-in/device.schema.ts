// Schemas of the device authorization grant.
import * as z from 'zod'
import { boundedText, CREDENTIAL, Uuid } from '../../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })

/**
 * Shown to the person who decides, so no character hides or reorders others. Some invisible ones are letters. These are
 * no patterns of the OpenAPI document, because other languages do not know the properties of characters.
 */
const DeviceName = boundedText(64)
  .refine(text => /^[\p{L}\p{N}\p{P}\p{S}\p{M} ]*$/u.test(text), {
    error: 'may have letters, digits, punctuation and spaces only',
  })
  .refine(text => /^\P{DI}*$/u.test(text), { error: 'may not have invisible characters' })

export const DeviceCodeRequest = z
  .object({
    client_id: boundedText(64).meta({ description: '`slipway-cli`.' }),
    scope: boundedText(2048)
      .optional()
      .meta({ description: 'Names of permissions, separated by spaces. Without it, all that the person can grant.' }),
    device_name: DeviceName.optional().meta({
      description: 'Shown to the person who decides. Letters, digits, punctuation and spaces.',
    }),
  })
  .meta({ id: 'DeviceCodeRequest', example: { client_id: 'slipway-cli', device_name: 'laptop' } })

export const DeviceCode = z
  .object({
    device_code: z.string().meta(CREDENTIAL),
    user_code: z.string(),
    verification_uri: z.string(),
    verification_uri_complete: z.string(),
    expires_in: z.int(),
    interval: z.int().meta({ description: 'Seconds to wait between two polls.' }),
  })
  .meta({ id: 'DeviceCode' })

export const DeviceTokenRequest = z
  .object({
    grant_type: boundedText(128).meta({ description: '`urn:ietf:params:oauth:grant-type:device_code`.' }),
    device_code: boundedText(128),
    client_id: boundedText(64),
  })
  .meta({
    id: 'DeviceTokenRequest',
    example: {
      grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
      device_code: 'sld_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG1a2b3c',
      client_id: 'slipway-cli',
    },
  })

export const DeviceToken = z
  .object({
    access_token: z.string().meta({ ...CREDENTIAL, description: 'An API key. It is shown only once.' }),
    token_type: z.literal('Bearer'),
    expires_in: z.int(),
    scope: z.string().meta({ description: 'The permissions of the key, separated by spaces.' }),
    api_key_id: Uuid,
    workspace_id: Uuid,
    organization_id: Uuid,
  })
  .meta({ id: 'DeviceToken' })

export const DeviceRequestRef = z.object({ user_code: boundedText(64) })

const Permissions = z.array(z.string())
export const DeviceRequest = z
  .object({
    user_code: z.string(),
    device_name: z.string().nullable().meta({ description: 'What the device calls itself. Anyone can claim it.' }),
    client_address: z.string().nullable(),
    user_agent: z.string().nullable(),
    created_at: Time,
    expires_at: Time,
    workspaces: z
      .array(z.object({ id: Uuid, display_name: z.string(), all: Permissions, read: Permissions }))
      .meta({ description: 'Where the caller can let the device in, and the permissions that it would get.' }),
  })
  .meta({ id: 'DeviceRequest' })

export const DeviceApproval = z
  .object({
    workspace_id: Uuid,
    access: z.enum(['all', 'read']).meta({
      description: 'All permissions that the caller has in the workspace, or those of them that a Viewer has.',
    }),
  })
  .meta({
    id: 'DeviceApproval',
    example: { workspace_id: '00000000-0000-4000-8000-0000000000ff', access: 'read' },
  })
