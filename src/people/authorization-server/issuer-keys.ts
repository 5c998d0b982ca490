// The public keys of an issuer, found by OpenID Connect discovery. Kept for some minutes by each instance.
import { createLocalJWKSet } from 'jose/jwks/local'
import * as z from 'zod'
import { readJsonObject } from '../../connect/oauth/metadata-documents.ts'
import type { HostServices } from '../../kernel/http/context.ts'
import { type Failure, fail, toFailure } from '../../kernel/http/errors.ts'
import { createGuardedClient, type FetchPolicy, type GuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { createExpiringMap } from '../../kernel/limits/expiring-map.ts'
import { arrayOf, boundedText } from '../../protocol/wire.ts'

export type IssuerKeys = ReturnType<typeof createLocalJWKSet>

const KEPT_MS = 10 * 60_000
/** A token with an unknown key may come from an issuer that has new keys, and may be forged. */
const REFRESHED_AT_MOST_EVERY_MS = 10_000
const MAX_ISSUERS = 200
const LIMITS = { fetchMs: 3000, totalMs: 5000, fetches: 2, bytes: 256 * 1024, returnsRedirects: true }

/** The keys that an issuer gave last, and whether the last attempt failed, so that its tokens do not flood it. */
type Answer = { askedAt: number; fetchedAt: number; keys: IssuerKeys | null; failure: Failure | null }
const answers = createExpiringMap<Answer>(MAX_ISSUERS, Date.now)

const Discovery = z.object({ issuer: boundedText(512), jwks_uri: boundedText(2048) })
const KeySet = z.object({ keys: arrayOf(z.unknown(), 100) })
const Word = boundedText(20)
const Coordinate = boundedText(100)
/** The members that verify a signature. The others are not kept: hundreds of key sets are in memory. */
const PublicKey = z.object({
  kty: Word,
  alg: Word.optional(),
  use: Word.optional(),
  crv: Word.optional(),
  kid: boundedText(512).optional(),
  key_ops: arrayOf(Word, 10).optional(),
  n: boundedText(1400).optional(),
  e: Word.optional(),
  x: Coordinate.optional(),
  y: Coordinate.optional(),
})

async function fetchDocument<Schema extends z.ZodType>(
  http: GuardedClient,
  stage: string,
  url: string,
  schema: Schema,
): Promise<z.output<Schema>> {
  http.stage(stage)
  const response = await http.fetch(url, { headers: { Accept: 'application/json' } })
  if (response.status !== 200) {
    await response.body?.cancel()
    throw fail('upstream_error', { about: `${stage}: the answer has the status ${response.status}` })
  }
  const { data, success } = schema.safeParse(await readJsonObject(response))
  if (!success) throw fail('metadata_invalid', { about: `${stage}: the document is incomplete or not valid` })
  return data
}

async function fetchKeys(policy: FetchPolicy, origin: string, issuer: string): Promise<IssuerKeys> {
  const http = createGuardedClient(policy, origin, LIMITS)
  const address = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  const discovery = await fetchDocument(http, 'OpenID Connect discovery', address, Discovery)
  if (discovery.issuer !== issuer)
    throw fail('metadata_invalid', { about: 'OpenID Connect discovery: the document is of another issuer' })
  const keySet = await fetchDocument(http, 'keys', discovery.jwks_uri, KeySet)
  // An issuer may have keys of other kinds, for other purposes.
  const keys = keySet.keys.flatMap(key => PublicKey.safeParse(key).data ?? [])
  return createLocalJWKSet({ keys } as Parameters<typeof createLocalJWKSet>[0])
}

/**
 * `workspace` trusts the issuer. With `newerThan`, keys that were fetched later, unless the issuer was asked a moment
 * ago.
 */
export async function readIssuerKeys(
  services: HostServices,
  origin: string,
  issuer: string,
  workspace: string,
  newerThan?: IssuerKeys,
): Promise<IssuerKeys> {
  const now = services.platform.clock.now()
  const known = answers.get(issuer)
  if (known?.keys && known.keys !== newerThan && now - known.fetchedAt < KEPT_MS) return known.keys
  if (known && now - known.askedAt < REFRESHED_AT_MOST_EVERY_MS) {
    if (known.failure) throw known.failure
    return known.keys!
  }
  const answer: Answer = await fetchKeys(services, origin, issuer).then(
    keys => ({ askedAt: now, fetchedAt: now, keys, failure: null }),
    // Anyone can send a token with an unknown key. That must not end the keys that are known.
    failure => ({ fetchedAt: 0, keys: null, ...answers.get(issuer), askedAt: now, failure: toFailure(failure) }),
  )
  answers.set(issuer, answer, KEPT_MS, workspace)
  if (answer.failure) throw answer.failure
  return answer.keys!
}
