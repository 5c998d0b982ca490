// Serving of declared routes: each handler goes from the cheapest check to the database, and from a reply to HTTP.
import type { Context } from 'hono'
import { Uuid } from '../../protocol/wire.ts'
import { sha256Hex } from '../crypto/digest.ts'
import { verifyKey } from '../db/db.ts'
import { createWatches } from '../db/shared-looks.ts'
import { writeJson } from '../json/raw-json.ts'
import { type AnswerBytes, createAnswerBytes } from '../limits/answer-bytes.ts'
import { createCallerLimits, type KeyedRequest } from '../limits/caller-limits.ts'
import { createHeldBytes } from '../limits/held-bytes.ts'
import { createCaller, describeRequest, readCallerHeaders, readCredential, withStop } from './caller.ts'
import { budgetOf, type Caller, type CredentialActor, hasCredential } from './context.ts'
import { Failure, loadCodes } from './errors.ts'
import { matchesEtag } from './etag.ts'
import { createWaitUntil } from './execution.ts'
import { findRepeatedParameters, readBody, refuseLargeBody, validateInput } from './input.ts'
import type { LiveStream } from './live-stream.ts'
import { logFailureCause } from './middleware.ts'
import { nextCursor } from './paging.ts'
import { resolveAlias } from './path-aliases.ts'
import type { RawBody } from './raw-body.ts'
import {
  type AppEnv,
  etagState,
  etagVersion,
  type JsonOperation,
  type KeyedOperation,
  type LiveStreamOperation,
  type OpenOperation,
  type Operation,
  type Outcome,
  type PassedRequest,
  type PassThroughOperation,
  type RawOperation,
  type Services,
  type StreamReply,
  successStatus,
} from './routes.ts'

export type HandleOperation = (c: Context<AppEnv>, operation: Operation) => Response | Promise<Response>
type RecordOutcome = (outcome: Outcome) => void

/** All operations share the limits of callers. */
export function createHandler(services: Services, recordOutcome: RecordOutcome): HandleOperation {
  const limits = createCallerLimits(services)
  const answers = createAnswerBytes(services.platform.answerBytes)
  const watches = createWatches(services)
  const heldBytes = createHeldBytes(services.platform.rawBodies)
  return (c, operation) => {
    c.set('limits', limits)
    c.set('watches', watches)
    c.set('heldBytes', heldBytes)
    return operation.kind === 'open'
      ? serveVisitor(c, operation, services, answers)
      : serveOperation(c, operation, services, recordOutcome, answers)
  }
}

async function serveVisitor(
  c: Context<AppEnv>,
  operation: OpenOperation,
  services: Services,
  answers: AnswerBytes,
): Promise<Response> {
  const address = services.platform.clientAddress(c)
  const database = c.get('limits').databaseOfVisitor(address, operation.hasOwnLimit)
  const answer = answers.begin(() => services.shareGroups.groupOf(undefined, address))
  try {
    return await operation.open(c, { ...services, database, answer }, operation)
  } finally {
    answer.finish()
  }
}

const NO_STORE = { 'Cache-Control': 'no-store' }

/** Checks in order of cost: the key's shape, the declared size, the budgets, the body, the database. */
async function serveOperation(
  c: Context<AppEnv>,
  operation: KeyedOperation,
  services: Services,
  recordOutcome: RecordOutcome,
  answers: AnswerBytes,
): Promise<Response> {
  const limits = c.get('limits')
  const address = services.platform.clientAddress(c)
  const actor = await readCredentialCountingFailures(c, services, operation)
  if (operation.method !== 'get' && operation.kind !== 'raw' && operation.kind !== 'passThrough') refuseLargeBody(c.req)
  const kind = budgetOf(actor, operation.verb.permission)
  const requestInfo = c.get('requestInfo')
  requestInfo.budget = kind
  const waitUntil = createWaitUntil(services.platform, c)
  const hasLeft = () => c.req.raw.signal.aborted
  const arrival = await limits.arrive({ hash: actor.hash, address, kind, requestInfo, hasLeft, waitUntil })
  const database = limits.databaseOf(actor.hash, address)
  const answer = answers.begin(() => services.shareGroups.groupOf(actor.hash, address))
  const caller = createCaller(c, { ...services, database, answer }, actor, arrival, waitUntil)
  caller.request = describeRequest(c, operation, address)
  caller.clientAddress = address
  try {
    const response = await runOperation(c, operation, caller, arrival)
    arrival.recordAnswered()
    // The status of another server says nothing of what we allow.
    const status = operation.kind === 'passThrough' ? 200 : response.status
    recordOutcome({ operation, caller, credentialHash: actor.hash, status, code: null })
    return response
  } catch (error) {
    arrival.recordFailure(error)
    const code = error instanceof Failure ? error.code : 'internal'
    const { statusOf } = await loadCodes()
    recordOutcome({ operation, caller, credentialHash: actor.hash, status: statusOf(code), code })
    throw error
  } finally {
    answer.finish()
  }
}

async function readCredentialCountingFailures(
  c: Context<AppEnv>,
  services: Services,
  operation: Operation,
): Promise<CredentialActor> {
  try {
    return await readCredential(c, services, operation)
  } catch (error) {
    c.get('limits').failedWithoutKey(c)
    throw error
  }
}

async function runOperation(
  c: Context<AppEnv>,
  operation: KeyedOperation,
  caller: Caller,
  arrival: KeyedRequest,
): Promise<Response> {
  // A large body is read only for a key that is accepted, which costs a trip unless it was accepted lately.
  const beforeLarge = () => (arrival.isRecentlyAccepted() ? undefined : verifyKeyFirst(c, operation, caller))
  if (operation.kind === 'passThrough')
    return callVerb(c, operation, caller, { request: c.req.raw, rest: readRest(c, operation) })
  if (operation.method === 'get') return callVerb(c, operation, caller, '')
  const hold = c.get('heldBytes').open(() => groupOf(caller))
  const readRaw = async ({ rawBody }: RawOperation) => {
    const { readRawBody } = await import('./raw-body.ts')
    return readRawBody(c.req, Object.keys(rawBody), caller.platform.rawBodies, beforeLarge, hold)
  }
  try {
    const body =
      operation.kind === 'raw'
        ? await readRaw(operation)
        : await readBody(c.req, { beforeLarge, hold, isUntyped: operation.kind === 'json' && operation.untypedBody })
    return await callVerb(c, operation, caller, body)
  } finally {
    hold.release()
  }
}

const groupOf = ({ shareGroups, actor, clientAddress }: Caller): string =>
  shareGroups.groupOf(hasCredential(actor) ? actor.hash : undefined, clientAddress)

async function callVerb(
  c: Context<AppEnv>,
  operation: KeyedOperation,
  caller: Caller,
  body: string | RawBody | PassedRequest,
): Promise<Response> {
  const text = typeof body === 'string' ? body : ''
  const raw = typeof body === 'object' && 'bytes' in body ? body : undefined
  caller.bodyBytes = raw?.bytes.byteLength ?? Buffer.byteLength(text)
  const headerFaults = readCallerHeaders(c, operation, raw?.bytes ?? text, caller)
  const faults = [...headerFaults, ...findRepeatedParameters(c.req, operation)]
  const warn = (warning: string) => caller.warnings.push(warning)
  const onUnknown = operation.kind === 'passThrough' ? undefined : operation.toleratesUnknown ? warn : 'refuse'
  const validate = () => validateInput(c.req, operation, text, faults, onUnknown)
  const input = operation.kind === 'json' ? await tellFaultsLater(validate, operation, caller, text) : validate()
  if (raw) input.raw = raw
  if (operation.kind === 'passThrough') {
    input.passed = body
    return (await operation.verb(caller, input as never)) as Response
  }
  const response = await answerWithVerb(c, operation, caller, input)
  if (caller.warnings.length > 0) response.headers.set('Slipway-Warnings', formatWarnings(caller.warnings))
  return response
}

async function tellFaultsLater<Input>(
  validate: () => Input,
  { beforeFaults }: JsonOperation,
  caller: Caller,
  text: string,
): Promise<Input> {
  try {
    return validate()
  } catch (error) {
    const areOfBody = error instanceof Failure && error.extra.errors?.every(({ loc }) => loc[0] === 'body')
    if (areOfBody) await beforeFaults?.({ ...caller, idempotency: null }, { text })
    throw error
  }
}

async function answerWithVerb(
  c: Context<AppEnv>,
  operation: Exclude<KeyedOperation, PassThroughOperation>,
  caller: Caller,
  input: Record<string, unknown>,
): Promise<Response> {
  const variant = operation.kind === 'json' ? operation.variant : undefined
  if (variant && input[variant.on] === true) return sendVariant(c, await variant.verb(caller, input as never), caller)
  if (operation.kind === 'liveStream') return sendLiveStream(c, operation, caller, input)
  const reply = await operation.verb(caller, input as never)
  if (operation.kind === 'stream' || (operation.kind === 'raw' && operation.streamMediaType))
    return sendStream(c, reply as StreamReply)
  return sendReply(c, operation, reply as Reply | undefined, caller)
}

/** From the URL as it was sent: Hono decodes paths, and a decoded one can name something else. */
function readRest(c: Context<AppEnv>, { path }: PassThroughOperation): string {
  const { pathname, search } = new URL(c.req.url)
  const fixedSegments = path.split('/').length - 1
  return resolveAlias(pathname).split('/').slice(fixedSegments).join('/') + search
}

async function sendStream(c: Context<AppEnv>, { stream, headers }: StreamReply): Promise<Response> {
  const allHeaders = { ...NO_STORE, ...headers }
  if (c.req.method !== 'HEAD') return c.body(stream, 200, allHeaders)
  await stream.cancel()
  return c.body(null, 200, allHeaders)
}

async function sendLiveStream(
  c: Context<AppEnv>,
  operation: LiveStreamOperation,
  caller: Caller,
  input: Record<string, unknown>,
): Promise<Response> {
  const { openLiveStream } = await import('./live-stream.ts')
  const { platform, requestId, origin } = caller
  const live = (await operation.verb(caller, input as never)) as LiveStream
  const onFailure = (failure: Failure) => logFailureCause(failure, requestId, platform)
  const { onEnd } = live
  const stoppable = { follow: (signal: AbortSignal) => live.follow(withStop(platform, signal)), onEnd }
  const { headers, body } = openLiveStream(stoppable, { accept: c.req.header('Accept'), requestId, origin, onFailure })
  if (c.req.method !== 'HEAD') return c.body(body, 200, headers)
  live.onEnd()
  return c.body(null, 200, headers)
}

async function verifyKeyFirst(c: Context<AppEnv>, operation: KeyedOperation, caller: Caller): Promise<void> {
  const { data: tenant = null } = Uuid.safeParse(c.req.header('X-Tenant-Id'))
  const variant = operation.kind === 'json' ? operation.variant : undefined
  const isVariant = variant && c.req.query(variant.on)?.toLowerCase() === 'true'
  const { permission, byPolicy, inWorkspace } = isVariant ? variant.verb : operation.verb
  await verifyKey({ ...caller, tenant, permission, byPolicy, inWorkspace })
}

const MAX_WARNINGS = 10
const MAX_WARNING_LENGTH = 200

/** A list of strings by RFC 9651, which allows printable ASCII in them. */
function formatWarnings(warnings: string[]): string {
  const more = warnings.length > MAX_WARNINGS ? [`And ${warnings.length - MAX_WARNINGS} more.`] : []
  return [...warnings.slice(0, MAX_WARNINGS), ...more]
    .map(warning =>
      warning
        .slice(0, MAX_WARNING_LENGTH)
        .replace(/[^ -~]/g, '?')
        .replace(/["\\]/g, '\\$&'),
    )
    .map(warning => `"${warning}"`)
    .join(', ')
}

function sendVariant(c: Context<AppEnv>, reply: unknown, { answer }: Caller): Response {
  const response = answer!.respond(JSON.stringify(reply), 200, c.req.method === 'HEAD')
  response.headers.set('Cache-Control', 'no-store')
  return response
}

type Reply = Record<string | symbol, unknown>

function sendReply(
  c: Context<AppEnv>,
  operation: JsonOperation | RawOperation,
  reply: Reply | undefined,
  { requestInfo, cookies, answer }: Caller,
): Response {
  const text = operation.reply && writeJson(reply)
  const json = operation.kind === 'json' ? operation : undefined
  const tag = json && readTag(json, reply, text)
  const isRead = operation.method === 'get'
  const isUnchanged = tag !== undefined && isRead && matchesEtag(c.req.header('If-None-Match'), tag)
  const partialStatus = json?.partial?.(reply as never) ? 207 : undefined
  const status = isUnchanged ? 304 : (partialStatus ?? successStatus(operation))
  const isHead = c.req.method === 'HEAD'
  const response =
    text !== undefined && !isUnchanged ? answer!.respond(text, status, isHead) : new Response(null, { status })
  const { headers } = response
  headers.set('Cache-Control', 'no-store')
  if (requestInfo.replayed) headers.set('Idempotency-Replayed', 'true')
  if (reply && typeof reply === 'object' && nextCursor in reply)
    headers.set('Link', `<${nextPageUrl(c.req.url, reply)}>; rel="next"`)
  if (json?.location) headers.set('Location', json.location(reply as never))
  if (tag) headers.set('ETag', tag)
  for (const cookie of cookies ?? []) headers.append('Set-Cookie', cookie)
  return response
}

function readTag(
  { versioned, hasContentTag }: JsonOperation,
  reply: Reply | undefined,
  text: string | undefined,
): string | undefined {
  if (versioned && reply && etagVersion in reply) {
    const state = etagState in reply ? `.${sha256Hex(String(reply[etagState])).slice(0, 12)}` : ''
    return `"${String(reply[etagVersion])}${state}"`
  }
  return hasContentTag && text !== undefined ? `"${sha256Hex(text).slice(0, 32)}"` : undefined
}

function nextPageUrl(url: string, reply: Reply): string {
  const page = new URL(url)
  page.searchParams.set('offset', String(reply.offset))
  page.searchParams.set('cursor', String(reply[nextCursor]))
  return page.pathname + page.search
}
