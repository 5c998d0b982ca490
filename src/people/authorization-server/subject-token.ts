// A token of a trusted issuer: its claims, signature, audience and times.
import type { JWTPayload } from 'jose'
import * as errors from 'jose/errors'
import { decodeJwt } from 'jose/jwt/decode'
import { jwtVerify } from 'jose/jwt/verify'
import type { HostServices } from '../../kernel/http/context.ts'
import type { Failure } from '../../kernel/http/errors.ts'
import { type IssuerKeys, readIssuerKeys } from './issuer-keys.ts'

/** Algorithms of asymmetric keys. With a symmetric one, the issuer's public key could pass for a shared secret. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']
const CLOCK_TOLERANCE_S = 30
/** Tokens of jobs live for minutes. One that lives for longer than a day is of another kind. */
const MAX_LIFETIME_S = 24 * 60 * 60

export type Refusal =
  | 'token_malformed'
  | 'issuer_not_trusted'
  | 'issuer_unavailable'
  | 'algorithm_refused'
  | 'key_unknown'
  | 'signature_invalid'
  | 'token_expired'
  | 'token_not_valid_yet'
  | 'lifetime_too_long'
  | 'audience_differs'
  | 'subject_differs'
  | 'claim_differs'
  | 'issuer_changed'
  | 'grant_ended'
  | 'scope_exceeds_role'
  | 'too_many_keys'
  | 'token_replayed'

export class RefusedToken extends Error {
  readonly reason: Refusal
  readonly detail: Record<string, string>
  constructor(reason: Refusal, detail: Record<string, string> = {}) {
    super(reason)
    this.reason = reason
    this.detail = detail
  }
}

export type Claims = JWTPayload & { iss: string; sub: string; exp: number; iat: number }

/** Reads claims before anything is checked. */
export function readClaims(token: string): { iss: string; sub: string } {
  let claims: JWTPayload
  try {
    claims = decodeJwt(token)
  } catch {
    throw new RefusedToken('token_malformed')
  }
  const { iss, sub } = claims
  // Postgres takes no null character, and no issuer has one.
  const isText = typeof iss === 'string' && !iss.includes('\0') && typeof sub === 'string' && sub !== ''
  if (!isText) throw new RefusedToken('token_malformed')
  return { iss, sub }
}

/** The text that the issuer signed. A signature can be written in several ways, and this text cannot. */
export const signedPart = (token: string): string => token.slice(0, token.lastIndexOf('.'))

/** The claims of a token that is in order. `workspace` trusts the issuer. `audiences`: it has to be for one of them. */
export async function verifyToken(
  services: HostServices,
  origin: string,
  token: string,
  issuer: string,
  workspace: string,
  audiences: string[],
): Promise<Claims> {
  const options = {
    issuer,
    audience: audiences,
    algorithms: ALGORITHMS,
    requiredClaims: ['sub', 'exp', 'iat'],
    maxTokenAge: MAX_LIFETIME_S,
    clockTolerance: CLOCK_TOLERANCE_S,
    currentDate: new Date(services.platform.clock.now()),
  }
  const verify = async (keys: IssuerKeys) => (await jwtVerify(token, keys, options)).payload as Claims
  const keys = await readKeys(services, origin, issuer, workspace)
  const claims = await verify(keys).catch(async error => {
    if (!hasOtherKeys(error)) throw toRefusal(error)
    // The issuer may have new keys.
    const newer = await readKeys(services, origin, issuer, workspace, keys)
    if (newer === keys) throw toRefusal(error)
    return verify(newer).catch(again => {
      throw toRefusal(again)
    })
  })
  if (claims.exp - claims.iat > MAX_LIFETIME_S) throw new RefusedToken('lifetime_too_long')
  return claims
}

const hasOtherKeys = (error: unknown): boolean =>
  error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWSSignatureVerificationFailed

async function readKeys(...of: Parameters<typeof readIssuerKeys>): Promise<IssuerKeys> {
  try {
    return await readIssuerKeys(...of)
  } catch (error) {
    const { code, extra } = error as Failure
    throw new RefusedToken('issuer_unavailable', { code, ...(extra.about && { detail: extra.about }) })
  }
}

function toRefusal(error: unknown): RefusedToken {
  if (error instanceof RefusedToken) return error
  if (error instanceof errors.JOSEAlgNotAllowed) return new RefusedToken('algorithm_refused')
  if (error instanceof errors.JWSSignatureVerificationFailed) return new RefusedToken('signature_invalid')
  if (error instanceof errors.JWTExpired) return new RefusedToken('token_expired')
  if (error instanceof errors.JWTClaimValidationFailed) {
    const reasons: Record<string, Refusal> = {
      aud: 'audience_differs',
      nbf: 'token_not_valid_yet',
      iat: 'token_not_valid_yet',
    }
    const isMissing = error.reason === 'missing' && error.claim !== 'aud'
    return new RefusedToken((!isMissing && reasons[error.claim]) || 'token_malformed')
  }
  if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys)
    return new RefusedToken('key_unknown')
  // Others are about a form of the token or of a key that this issuer should not use.
  return new RefusedToken('token_malformed')
}
