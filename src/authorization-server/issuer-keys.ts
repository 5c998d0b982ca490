// The public keys of an issuer, found by OpenID Connect discovery. Kept for some minutes by each instance.
import { createLocalJWKSet } from 'jose/jwks/local'
import * as z from 'zod'
import type { Config } from '../env.ts'
import { Failure, fail, toFailure } from '../kernel/errors.ts'
import { createExpiringMap } from '../kernel/expiring-map.ts'
import { createGuardedClient, type GuardedClient } from '../kernel/guarded-fetch.ts'
import { arrayOf, boundedText } from '../protocol/wire.ts'

export type IssuerKeys = ReturnType<typeof createLocalJWKSet>

const KEPT_MS = 10 * 60_000
/** A token with an unknown key may come from an issuer that has new keys, and may be forged. */
const REFRESHED_AT_MOST_EVERY_MS = 10_000
const MAX_ISSUERS = 1000
const LIMITS = { fetchMs: 5000, totalMs: 8000, fetches: 2, bytes: 256 * 1024, returnsRedirects: true }

/** What an issuer answered. A failure is kept, too, so that its tokens do not flood it. */
type Answer = { fetchedAt: number } & ({ keys: IssuerKeys; failure?: never } | { keys?: never; failure: Failure })
const answers = createExpiringMap<Answer>(MAX_ISSUERS, Date.now)

const Discovery = z.object({ issuer: boundedText(512), jwks_uri: boundedText(2048) })
const KeySet = z.object({ keys: arrayOf(z.looseObject({ kty: boundedText(20) }), 100) })

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
  const document: unknown = await response.json().catch(error => {
    if (error instanceof Failure) throw error
  })
  const { data, success } = schema.safeParse(document)
  if (!success) throw fail('metadata_invalid', { about: `${stage}: the document is incomplete or not valid` })
  return data
}

async function fetchKeys(config: Config, origin: string, issuer: string): Promise<IssuerKeys> {
  const http = createGuardedClient(config, origin, LIMITS)
  const address = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  const discovery = await fetchDocument(http, 'OpenID Connect discovery', address, Discovery)
  if (discovery.issuer !== issuer)
    throw fail('metadata_invalid', { about: 'OpenID Connect discovery: the document is of another issuer' })
  const keySet = await fetchDocument(http, 'keys', discovery.jwks_uri, KeySet)
  return createLocalJWKSet(keySet as Parameters<typeof createLocalJWKSet>[0])
}

/** With `newerThan`, keys that were fetched later, unless the issuer was asked a moment ago. */
export async function readIssuerKeys(
  config: Config,
  origin: string,
  issuer: string,
  newerThan?: IssuerKeys,
): Promise<IssuerKeys> {
  const now = Date.now() + config.clockOffset()
  const known = answers.get(issuer)
  const age = known ? now - known.fetchedAt : Number.POSITIVE_INFINITY
  const isUsable = known && age < (known.failure || known.keys === newerThan ? REFRESHED_AT_MOST_EVERY_MS : KEPT_MS)
  if (isUsable) {
    if (known.failure) throw known.failure
    return known.keys
  }
  const answer: Answer = await fetchKeys(config, origin, issuer).then(
    keys => ({ fetchedAt: now, keys }),
    failure => ({ fetchedAt: now, failure: toFailure(failure) }),
  )
  answers.set(issuer, answer, KEPT_MS)
  if (answer.failure) throw answer.failure
  return answer.keys
}
