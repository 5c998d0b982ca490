// The caller of a request, from its headers: key or session, workspace, If-Match and Idempotency-Key.
import type { Context } from 'hono'
import type { Platform } from '../../platform.ts'
import { Uuid } from '../../protocol/wire.ts'
import type { PathParameters } from '../access-scopes.ts'
import { looksLikeApiKey } from '../crypto/crypto.ts'
import { sha256Hex } from '../crypto/digest.ts'
import { isModelToken, readModelToken } from '../crypto/model-tokens.ts'
import { isTraceKey, readTraceKey } from '../crypto/trace-keys.ts'
import type { KeyedRequest } from '../limits/caller-limits.ts'
import { type Caller, type CredentialActor, hasCredential, type OpenRequest, type RequestRecord } from './context.ts'
import { type Fault, fail } from './errors.ts'
import { requestOrigin } from './origin.ts'
import {
  type AppEnv,
  canUseIdempotencyKey,
  type KeyedOperation,
  listBodyTypes,
  type Operation,
  type Services,
  successStatus,
} from './routes.ts'
import { maskPath } from './secret-paths.ts'
import { isCrossSite, readSessionToken } from './session-cookie.ts'

/** A key in a header wins over the cookie of a session. */
export async function readCredential(c: Context, services: Services, operation: Operation): Promise<CredentialActor> {
  const bearer = /^Bearer +(\S+) *$/i.exec(c.req.header('Authorization') ?? '')?.[1]
  const key = c.req.header('X-Api-Key') ?? bearer
  if (key && isTraceKey(key)) {
    const deployment = await readTraceKey(services.config, key)
    if (deployment === null) throw fail('key_unknown')
    return { kind: 'deployment', hash: deployment }
  }
  if (key && isModelToken(key)) return { kind: 'deployment', hash: await readModelToken(services, key) }
  if (key) {
    if (!looksLikeApiKey(key)) throw fail('key_malformed')
    return { kind: 'key', hash: sha256Hex(key) }
  }
  const token =
    operation.kind !== 'passThrough' &&
    c.req.header('Cookie') &&
    readSessionToken(c, requestOrigin(services.config, c.req.url), listBodyTypes(operation))
  if (!token) throw fail('key_missing')
  return { kind: 'session', hash: sha256Hex(token) }
}

/** A wait ends with its client, and with the process. */
export const withStop = ({ stopping }: Pick<Platform, 'stopping'>, signal: AbortSignal): AbortSignal =>
  stopping ? AbortSignal.any([signal, stopping]) : signal

export const createCaller = (
  c: Context<AppEnv>,
  services: Services,
  actor: CredentialActor,
  { recordAccepted, countAgain }: KeyedRequest,
  waitUntil: NonNullable<Caller['waitUntil']>,
): Caller => ({
  ...services,
  actor,
  tenant: null,
  path: readPathIds(c),
  origin: requestOrigin(services.config, c.req.url),
  requestId: c.get('requestId'),
  request: null,
  ifMatch: null,
  withoutIfMatch: false,
  idempotency: null,
  planDigest: c.req.header('Plan-Digest') ?? null,
  lastEventId: c.req.header('Last-Event-ID'),
  rawRequest: () => c.req.raw,
  accept: c.req.header('Accept'),
  watches: c.get('watches'),
  warnings: [],
  disconnectSignal: () => withStop(services.platform, c.req.raw.signal),
  waitUntil,
  onKeyAccepted: recordAccepted,
  countAgain,
  cookies: [],
  isCrossSite: isCrossSite(c),
  requestInfo: c.get('requestInfo'),
})

/** Access policies may be about the resource that a path names. */
const readPathIds = (c: Context): PathParameters =>
  Object.fromEntries(Object.entries(c.req.param()).filter(([, value]) => Uuid.safeParse(value).success))

/** Longer than the path of any route that exists: refused requests are recorded, too. */
const MAX_PATH = 1024
const MAX_USER_AGENT = 512

export const describeRequest = (c: Context<AppEnv>, operation: Operation, address: string | undefined): string =>
  JSON.stringify({
    operation: operation.id,
    method: c.req.method,
    path: maskPath(c.req.path).slice(0, MAX_PATH),
    status: successStatus(operation),
    client_address: address,
    user_agent: c.req.header('User-Agent')?.slice(0, MAX_USER_AGENT),
  } satisfies { [Name in keyof RequestRecord]: RequestRecord[Name] | undefined })

export const readOpenRequest = (
  c: Context<AppEnv>,
  operation: Operation,
  { config, platform }: Services,
): OpenRequest => ({
  requestId: c.get('requestId'),
  origin: requestOrigin(config, c.req.url),
  request: describeRequest(c, operation, platform.clientAddress(c)),
})

/** Fills in the caller from its other headers. The faults are reported together with those of path, query and body. */
export function readCallerHeaders(
  c: Context<AppEnv>,
  operation: KeyedOperation,
  body: string | Uint8Array,
  caller: Caller,
): Fault[] {
  const faults: Fault[] = []
  const addFault = (name: string, msg: string) => faults.push({ type: 'invalid_format', loc: ['header', name], msg })

  const tenant = c.req.header('X-Tenant-Id')
  if (tenant !== undefined && !Uuid.safeParse(tenant).success) addFault('X-Tenant-Id', 'must be a UUID')
  caller.tenant = tenant ?? null

  if (operation.kind === 'json' && operation.versioned && operation.method !== 'get') {
    const ifMatch = c.req.header('If-Match')
    caller.withoutIfMatch = ifMatch === undefined
    caller.ifMatch = ifMatch === undefined || ifMatch.trim() === '*' ? null : parseIfMatch(ifMatch)
  }

  const key = c.req.header('Idempotency-Key')
  if (key !== undefined && canUseIdempotencyKey(operation)) {
    if (!/^[\x21-\x7e]{1,255}$/.test(key)) addFault('Idempotency-Key', 'must be 1 to 255 visible ASCII characters')
    const { pathname, search } = new URL(c.req.url)
    const request = [
      c.req.method,
      pathname + search,
      tenant ?? '',
      typeof body === 'string' ? body : sha256Hex(body),
    ].join('\n')
    caller.idempotency = { key: scopeToSession(caller, key), fingerprint: sha256Hex(request) }
  }
  return faults
}

/** Answers are stored for the member, but what they hold may be sealed for the session. */
const scopeToSession = ({ actor }: Caller, key: string): string =>
  hasCredential(actor) && actor.kind === 'session' ? `${actor.hash} ${key}` : key

/** `"3", "4"` are versions 3 and 4. A weak or unknown tag is no version, so it never matches. */
const parseIfMatch = (ifMatch: string): number[] =>
  [...ifMatch.matchAll(/(?<!W\/)"(\d{1,9})(?:\.[0-9a-z]{1,12})?"/g)].map(([, number]) => Number(number))
