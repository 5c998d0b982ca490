// Calls of models by the platform itself, for insights and evaluators: the way of the proxy, from a prompt to an
// answer.

import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Ctx, pauseUntilAborted } from '../../kernel/http/context.ts'
import { type Failure, fail, toFailure } from '../../kernel/http/errors.ts'
import { requireCallUrl } from './allowed-urls.ts'
import { createAnswerReader, type ReadAnswer } from './answer-reader.ts'
import { type Authorization, authorizeCall, forgetAccessToken } from './authorization.ts'
import { type Prompt, parseStructured, protocolOf } from './chat-protocols.ts'
import { maskSecrets } from './masked-answers.ts'
import { type OpenedCall, openCall } from './open-call.ts'
import { type EndedCall, recordCall } from './record-call.ts'
import { fetchModel } from './upstream.ts'

export type CompletionRequest = Prompt & {
  /** A configuration in the workspace of the context. */
  configuration_id: string
  /** The actor. By default the caller. */
  actor?: { type: 'evaluator' | 'insights' | 'user'; id: string }
  /** The project of the runs that the prompt quotes. */
  about?: string
  signal?: AbortSignal
  /** Sent on, so that a provider answers a repeat without another charge. */
  idempotency_key?: string
  trace?: { project: string; name: string; run_id?: string; metadata?: Record<string, string> }
}

export type Completion = {
  text: string
  /** The parsed answer of a request with a schema, as far as it is JSON. Whether it fits is not checked. */
  json?: unknown
  model: string
  usage: { input_tokens: number; output_tokens: number; cost: number | null; estimated: boolean }
  run_id: string | null
}

const RETRY_STATUSES = [429, 500, 502, 503, 504, 529]
const [DEFAULT_RETRY_S, MAX_RETRY_S] = [1, 30]
const MAX_EXCERPT = 200

type Answer = { status: number; retryAfter: string | null; read: ReadAnswer }

/** Throws failures with a code. They quote a short excerpt of the upstream's answer only. */
export async function complete(ctx: Ctx, request: CompletionRequest): Promise<Completion> {
  const { configuration_id, actor, about, schema, trace } = request
  const call = await openCall(ctx, configuration_id, { actor, about })
  const { configuration } = call
  const protocol = protocolOf(configuration)
  const url = requireCallUrl(configuration.base_url, protocol.path(configuration.base_url), call.allowed_urls)
  const inputs = protocol.toBody(configuration, request)
  const body = JSON.stringify(inputs)
  const asked = { model: configuration.model, inputs, bytes: Buffer.byteLength(body) }
  const ended: EndedCall = {
    started: Date.now(),
    operation: url.pathname,
    status: null,
    error: null,
    isCut: false,
    asked,
    trace,
    answer: null,
    secrets: [],
  }
  try {
    const authorization = await authorizeCall(ctx, call, async () => ({
      model: configuration.model,
      streaming: false,
      digest: sha256Hex(body),
    }))
    ended.secrets = authorization.secrets
    const answer = await sendWithRetry(ctx, call, url, body, authorization, request)
    ended.status = answer.status
    ended.answer = answer.read
    const text = readAnswerText(answer, call, authorization.secrets)
    const json = schema && parseStructured(text)
    const { run_id, ...usage } = await recordCall(ctx, call, ended)
    return { text, ...(json !== undefined && { json }), model: answer.read.model ?? configuration.model, usage, run_id }
  } catch (error) {
    const failure = toFailure(error)
    ended.error = failure.extra.about ?? failure.code
    ended.isCut = failure.code === 'upstream_timeout'
    await recordCall(ctx, call, ended)
    throw failure
  }
}

/** Repeats once a call that the server refused for now, if the signal leaves the time for it. */
async function sendWithRetry(
  ctx: Ctx,
  call: OpenedCall,
  url: URL,
  body: string,
  authorization: Authorization,
  request: CompletionRequest,
): Promise<Answer> {
  const { signal, idempotency_key } = request
  const headers = {
    'Content-Type': 'application/json',
    Accept: 'application/json',
    ...protocolOf(call.configuration).headers,
    ...(idempotency_key !== undefined && { 'Idempotency-Key': idempotency_key }),
    ...authorization.headers,
  }
  const send = () => sendOnce(ctx, url, { method: 'POST', headers, body, ...(signal && { signal }) })
  const first = await send()
  if (first.status === 401) forgetAccessToken(call.configuration)
  if (!RETRY_STATUSES.includes(first.status)) return first
  return (await pauseUntilAborted(retryDelay(first), signal)) ? send() : first
}

function retryDelay({ retryAfter }: Answer): number {
  const seconds = /^\d{1,6}$/.test(retryAfter ?? '') ? Number(retryAfter) : DEFAULT_RETRY_S
  return Math.min(seconds, MAX_RETRY_S) * 1000
}

async function sendOnce(ctx: Ctx, url: URL, init: RequestInit): Promise<Answer> {
  const response = await fetchModel(ctx, url, init)
  const reader = createAnswerReader(response.headers.get('content-type'))
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) reader.read(chunk)
  return { status: response.status, retryAfter: response.headers.get('retry-after'), read: reader.finish() }
}

function readAnswerText(answer: Answer, { configuration }: OpenedCall, secrets: string[]): string {
  const { status, read } = answer
  if (status < 200 || status > 299) throw callFailed(answer, secrets)
  const text = protocolOf(configuration).readText(read.outputs)
  if (text === undefined) throw fail('model_answer_invalid')
  return text
}

/** A failure that passes by itself is an upstream error, with the time to wait. */
function callFailed({ status, retryAfter, read }: Answer, secrets: string[]): Failure {
  const { outputs, text } = read
  const given = (outputs?.error as { message?: unknown } | undefined)?.message ?? outputs?.message
  const excerpt = maskSecrets(typeof given === 'string' ? given : text, secrets)
    .replace(/[\p{C}\p{Z}\s]+/gu, ' ')
    .trim()
    .slice(0, MAX_EXCERPT)
  const about = `model: status ${status}${excerpt && `: ${excerpt}`}`
  if (!RETRY_STATUSES.includes(status)) return fail('model_call_failed', { about })
  return fail('upstream_error', {
    about,
    ...(/^\d{1,6}$/.test(retryAfter ?? '') && { headers: { 'Retry-After': retryAfter! } }),
  })
}
