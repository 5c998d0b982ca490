// Token exchange (RFC 8693): a CI gets a key of a workspace for a token of an issuer that the workspace trusts.
import { sql } from 'drizzle-orm'
import { makeKeyHint, newApiKey } from '../../kernel/crypto/crypto.ts'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Row, runAsSystem, textArray } from '../../kernel/db/db.ts'
import { setSystemSettings } from '../../kernel/db/journal.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { parseScope } from '../sign-in/device.ts'
import type { Visit } from '../sign-in/visit.ts'
import { type Claims, type Refusal, RefusedToken, readClaims, signedPart, verifyToken } from './subject-token.ts'
import { ACCESS_TOKEN_TYPE, type TokenExchangeRequest } from './token-exchange.schema.ts'
import { claimText, countFixedCharacters, findMismatch, type Mismatch } from './trusted-subjects.ts'

export const TOKEN_EXCHANGE_GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange'
/** The tolerance of clocks, with room: a token must not be forgotten while it can still be exchanged. */
const REMEMBERED_BEYOND_EXPIRY_S = 120

/** An issuer that the workspace trusts, as it was when the token was checked. */
type Trusted = {
  id: string
  version: number
  issuer: string
  audience: string
  subject: string
  claims: Record<string, string>
}

type Exchanged =
  | { refusal: Refusal }
  | {
      refusal?: never
      permissions: string[]
      api_key_id: string
      workspace_id: string
      organization_id: string
      expires_in: number
    }

/** Postgres stores no null character. People and models read it, so nothing in it is invisible or reorders others. */
const storable = (text: string, maxLength = 512): string =>
  text
    .toWellFormed()
    .replace(/[\p{Cc}\p{DI}\p{Bidi_C}\p{Zl}\p{Zp}]/gu, ' ')
    .slice(0, maxLength)
    .toWellFormed()

async function listTrusted(
  { platform, database }: Services,
  { requestId }: Visit,
  tenant: string,
  issuer: string,
): Promise<Trusted[]> {
  const [, rows] = (await runAsSystem(
    database,
    setSystemSettings(platform, requestId),
    sql<Row>`
      select json_build_object(
        'id', t.id, 'version', t.version, 'issuer', t.issuer, 'audience', t.audience, 'subject', t.subject,
        'claims', t.claims
      )
      from trusted_issuers t
      where t.tenant_id = ${tenant}::uuid and t.issuer = ${issuer}
      order by t.created_at, t.id`,
  )) as [unknown, Row[]]
  return rows.map(([text]) => JSON.parse(text as string) as Trusted)
}

/** Chooses the issuer that fixes the most, and the oldest of several. */
function chooseTrusted(trusted: Trusted[], claims: Claims): Trusted {
  const audiences = [claims.aud].flat()
  const forAudience = trusted.filter(({ audience }) => audiences.includes(audience))
  const mismatches: Mismatch[] = []
  const accepting = forAudience.filter(one => {
    const mismatch = findMismatch(one, claims)
    if (mismatch) mismatches.push(mismatch)
    return mismatch === null
  })
  const [chosen] = accepting.sort((a, b) => countFixedCharacters(b) - countFixedCharacters(a))
  if (chosen) return chosen
  // One whose subject fits is the one that was meant.
  const { reason, ...detail } = mismatches.find(one => one.reason === 'claim_differs') ?? mismatches[0]!
  throw new RefusedToken(reason, detail)
}

/** The claims that a pattern of the trusted issuer is about. */
const matchedClaims = ({ claims: patterns }: Trusted, claims: Claims): Record<string, string> =>
  Object.fromEntries(Object.keys(patterns).map(name => [name, storable(String(claims[name]))]))

async function issueKey(
  { config, platform, database }: Services,
  { requestId, request }: Visit,
  trusted: Trusted,
  token: string,
  claims: Claims,
  permissions: string[] | null,
) {
  const key = newApiKey()
  const subject = storable(claims.sub)
  const id = claimText(claims.jti)
  const described = {
    hash: sha256Hex(signedPart(token)),
    expires: claims.exp + REMEMBERED_BEYOND_EXPIRY_S,
    id: id === undefined ? null : storable(id, 255),
    subject,
    claims: matchedClaims(trusted, claims),
    description: storable(`${subject} (${trusted.issuer})`, 256),
  }
  const [, [row]] = (await runAsSystem(
    database,
    setSystemSettings(platform, requestId, request),
    sql<Row>`
      select exchange_token(
        ${trusted.id}::uuid,
        ${trusted.version}::integer,
        ${JSON.stringify(described)}::json,
        ${permissions ? textArray(permissions) : sql`null::text[]`},
        ${sha256Hex(key)},
        ${makeKeyHint(key)},
        ${config.eventsPerDay || null}::bigint
      )`,
  )) as [unknown, Row[]]
  const exchanged = JSON.parse(row![0] as string) as Exchanged
  if (exchanged.refusal) throw new RefusedToken(exchanged.refusal)
  return { key, ...exchanged }
}

/** The workspace learns why, and the caller does not: it could be anyone. */
async function recordRefusal(
  { config, platform, database }: Services,
  { requestId, request }: Visit,
  tenant: string,
  { reason, detail }: RefusedToken,
  seen: { trusted?: Trusted | undefined; iss?: string; sub?: string },
): Promise<void> {
  const data = {
    reason,
    ...Object.fromEntries(Object.entries(detail).map(([name, text]) => [name, storable(text)])),
    ...(seen.iss !== undefined && { issuer: storable(seen.iss) }),
    ...(seen.sub !== undefined && { subject: storable(seen.sub) }),
  }
  await runAsSystem(
    database,
    setSystemSettings(platform, requestId, request),
    sql<Row>`
      select journal_refused_exchange(
        ${tenant}::uuid,
        ${seen.trusted?.id ?? null}::uuid,
        ${JSON.stringify(data)}::json,
        ${config.eventsPerDay || null}::bigint
      )`,
  )
}

/** Refusals that reveal nothing about the workspace, and that the caller can act on. */
const ANSWERED = {
  issuer_unavailable: 'issuer_unavailable',
  scope_exceeds_role: 'invalid_scope',
  too_many_keys: 'too_many_exchanged_keys',
} as const satisfies Partial<Record<Refusal, string>>

export async function exchangeToken(services: Services, visit: Visit, origin: string, input: TokenExchangeRequest) {
  const { subject_token: token, audience: tenant } = input
  const permissions = parseScope(input.scope)
  const seen: { trusted?: Trusted; iss?: string; sub?: string } = {}
  try {
    Object.assign(seen, readClaims(token))
    // Nothing is fetched for an issuer that this workspace does not trust.
    const trusted = await listTrusted(services, visit, tenant, seen.iss!)
    if (trusted.length === 0) throw new RefusedToken('issuer_not_trusted')
    const audiences = trusted.map(({ audience }) => audience)
    const claims = await verifyToken(services, origin, token, seen.iss!, tenant, audiences)
    seen.trusted = chooseTrusted(trusted, claims)
    const {
      key,
      permissions: granted,
      ...ids
    } = await issueKey(services, visit, seen.trusted, token, claims, permissions)
    return {
      access_token: key,
      issued_token_type: ACCESS_TOKEN_TYPE,
      token_type: 'Bearer' as const,
      scope: granted.join(' '),
      ...ids,
    }
  } catch (error) {
    if (!(error instanceof RefusedToken)) throw error
    await recordRefusal(services, visit, tenant, error, seen)
    const code = ANSWERED[error.reason as keyof typeof ANSWERED]
    if (code === undefined) throw fail('token_refused')
    throw fail(code, code === 'invalid_scope' ? {} : { headers: { 'Retry-After': '10' } })
  }
}
