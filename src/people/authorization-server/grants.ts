// The tokens of connected clients: for a code, for a refresh token, and revoked.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import {
  createByteSource,
  looksLikeApiKey,
  looksLikeAuthorizationCode,
  looksLikeRefreshToken,
  makeKeyHint,
  newApiKey,
  newRefreshToken,
  tokenFamilyOf,
} from '../../kernel/crypto/crypto.ts'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { setSystemSettings } from '../../kernel/db/journal.ts'
import type { Code } from '../../kernel/http/codes.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { Visit } from '../sign-in/visit.ts'
import type * as schema from './authorization.schema.ts'
import { requireResource } from './authorization.ts'
import type { AccessToken, CodeForm, RefreshForm } from './token.schema.ts'

type Granted = z.output<typeof AccessToken>
type Answer =
  | { error: Code }
  | (Pick<Granted, 'api_key_id' | 'workspace_id' | 'organization_id' | 'expires_in'> & {
      error?: never
      permissions: string[]
    })

const sha256Base64url = (text: string): string => Buffer.from(sha256Hex(text), 'hex').toString('base64url')
const hashFamily = (token: string): string => sha256Hex(tokenFamilyOf(token))

async function grant(
  { platform, database }: Services,
  { requestId, request }: Visit,
  call: ReturnType<typeof sql<Row>>,
  tokens: Pick<Granted, 'access_token' | 'refresh_token'>,
): Promise<Granted> {
  const settings = setSystemSettings(platform, requestId, request)
  const [, [row]] = (await runAsSystem(database, settings, call)) as [unknown, Row[]]
  const answer = JSON.parse(row![0] as string) as Answer
  if (answer.error) throw fail(answer.error)
  const { permissions, ...ids } = answer
  return { ...tokens, token_type: 'Bearer', scope: permissions.join(' '), ...ids }
}

export async function redeemCode(
  services: Services,
  visit: Visit,
  origin: string,
  { client_id, code, redirect_uri, code_verifier, resource }: z.output<typeof CodeForm>,
): Promise<Granted> {
  if (!looksLikeAuthorizationCode(code)) throw fail('invalid_grant')
  const [access_token, refresh_token] = [newApiKey(), newRefreshToken()]
  const call = sql<Row>`
    select redeem_authorization_code(
      ${sha256Hex(code)},
      ${client_id},
      ${redirect_uri ?? null}::text,
      ${requireResource(origin, resource)}::text,
      ${sha256Base64url(code_verifier)},
      ${sha256Hex(access_token)},
      ${makeKeyHint(access_token)},
      ${hashFamily(refresh_token)},
      ${sha256Hex(refresh_token)},
      ${services.config.eventsPerDay || null}::bigint
    )`
  return grant(services, visit, call, { access_token, refresh_token })
}

export async function refresh(
  services: Services,
  visit: Visit,
  origin: string,
  { client_id, refresh_token: old, resource }: z.output<typeof RefreshForm>,
): Promise<Granted> {
  if (!looksLikeRefreshToken(old)) throw fail('invalid_grant')
  const { sealingKeys } = services.config
  const [accessBytes, refreshBytes] = await Promise.all(
    ['access token', 'refresh token'].map(purpose => createByteSource(sealingKeys, old, purpose)),
  )
  const access_token = newApiKey({ nextBytes: accessBytes! })
  const refresh_token = newRefreshToken({ start: tokenFamilyOf(old), nextBytes: refreshBytes! })
  const call = sql<Row>`
    select refresh_client(
      ${hashFamily(old)},
      ${sha256Hex(old)},
      ${client_id},
      ${requireResource(origin, resource)}::text,
      ${sha256Hex(refresh_token)},
      ${sha256Hex(access_token)},
      ${makeKeyHint(access_token)}
    )`
  return grant(services, visit, call, { access_token, refresh_token })
}

/** The answer does not say whether the token was one: RFC 7009, section 2.2. */
export async function revokeToken(
  { platform, database }: Services,
  { requestId, request }: Visit,
  { token, client_id }: z.output<typeof schema.RevocationRequest>,
): Promise<void> {
  const keyHash = looksLikeApiKey(token) ? sha256Hex(token) : null
  const family = looksLikeRefreshToken(token) ? hashFamily(token) : null
  if (!keyHash && !family) return
  await runAsSystem(
    database,
    setSystemSettings(platform, requestId, request),
    sql`select revoke_client(${keyHash}::text, ${family}::text, ${client_id ?? null}::text)`,
  )
}
