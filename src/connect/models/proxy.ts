// Passes a request on to a model and the answer back, both as streams, with the credentials of the configuration.
import { verb } from '../../kernel/http/context.ts'
import { toFailure } from '../../kernel/http/errors.ts'
import type { PassedRequest } from '../../kernel/http/routes.ts'
import { createHeldBytes, type Hold } from '../../kernel/limits/held-bytes.ts'
import { requireCallUrl } from './allowed-urls.ts'
import { readAskedCall } from './asked-call.ts'
import { authorizeCall, forgetAccessToken } from './authorization.ts'
import { type CallRecorder, startRecording } from './call-recorder.ts'
import { forwardAnswerHeaders, forwardRequestHeaders } from './forwarded-headers.ts'
import { createSecretFilter, maskSecrets } from './masked-answers.ts'
import { openCall } from './open-call.ts'
import { passBody } from './passed-body.ts'
import { fetchModel } from './upstream.ts'

/** The part of a traced request that is kept. */
const KEPT_BYTES = 1024 * 1024
/** The most bytes of a request that a token of ours describes. */
const MAX_DESCRIBED_BYTES = 8 * 1024 * 1024
/** The bytes of all such requests that this instance holds. */
const describedBytes = createHeldBytes({ heldBytes: 24 * 1024 * 1024, bytes: MAX_DESCRIBED_BYTES })
const BODILESS_STATUSES = [204, 205, 304]
/** An error is read as a whole, because some servers repeat the key that they refuse. */
const MAX_ERROR_BYTES = 64 * 1024

export const callModel = verb(
  'models:invoke',
  async (ctx, { configuration_id, passed }: { configuration_id: string; passed: PassedRequest }): Promise<Response> => {
    const { request, rest } = passed
    const call = await openCall(ctx, configuration_id)
    const url = requireCallUrl(call.configuration.base_url, rest, call.allowed_urls)
    const body = passBody(request, ctx.config.modelCalls.requestBytes, KEPT_BYTES)
    const recorder = startRecording(ctx, call, url.pathname, body)
    let hold: Hold | undefined
    const readAsked = async () => {
      if (body.stream) {
        hold = describedBytes.open(() => call.workspace.id)
        const declared = Number(request.headers.get('content-length') ?? MAX_DESCRIBED_BYTES)
        hold.growTo(Math.min(declared, MAX_DESCRIBED_BYTES))
      }
      return readAskedCall(await body.readAhead(MAX_DESCRIBED_BYTES), request.headers)
    }
    try {
      const { headers: credentials, secrets } = await authorizeCall(ctx, call, readAsked)
      recorder.hide(secrets)
      const headers = forwardRequestHeaders(request.headers, ctx.config.modelProxyHeader)
      for (const [name, value] of Object.entries(credentials)) headers.set(name, value)
      // A body of a GET is not passed on: with its length, the server would wait for it.
      if (!body.stream) headers.delete('Content-Length')
      const init = { method: request.method, headers, body: body.stream, signal: request.signal }
      const answer = await fetchModel(ctx, url, init)
      if (answer.status === 401) forgetAccessToken(call.configuration)
      recorder.begin(answer)
      const isWhole = request.method === 'HEAD' || BODILESS_STATUSES.includes(answer.status)
      const answerHeaders = withoutSecrets(forwardAnswerHeaders(answer.headers), secrets)
      const stream = isWhole ? await dropBody(answer, recorder) : await bodyOf(answer, recorder, secrets)
      return new Response(stream, { status: answer.status, headers: answerHeaders })
    } catch (error) {
      const failure = body.failure() ?? toFailure(error)
      if (request.signal.aborted) recorder.leave()
      else recorder.end(failure.code, failure.code === 'upstream_timeout')
      throw failure
    } finally {
      hold?.release()
    }
  },
)

async function dropBody({ body }: Response, recorder: CallRecorder): Promise<null> {
  await body?.cancel()
  recorder.end(null)
  return null
}

const bodyOf = (answer: Response, recorder: CallRecorder, secrets: string[]) =>
  answer.status >= 400 ? readError(answer, recorder, secrets) : passStream(answer.body!, recorder, secrets)

/** The client takes each part before the next one is read, and its going ends the call. */
function passStream(
  body: ReadableStream<Uint8Array>,
  recorder: CallRecorder,
  secrets: string[],
): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  const filter = createSecretFilter(secrets)
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          for (;;) {
            const { done, value } = await reader.read()
            if (value) recorder.read(value)
            const shown = done ? filter.end() : filter.push(value)
            if (shown.byteLength > 0) controller.enqueue(shown)
            if (done) {
              recorder.end(null)
              return controller.close()
            }
            if (shown.byteLength > 0) return
          }
        } catch (error) {
          recorder.end(toFailure(error).code, true)
          controller.error(error)
        }
      },
      async cancel(reason) {
        recorder.leave()
        await reader.cancel(reason)
      },
    },
    { highWaterMark: 0 },
  )
}

async function readError({ status, body }: Response, recorder: CallRecorder, secrets: string[]): Promise<string> {
  const decoder = new TextDecoder()
  const filter = createSecretFilter(secrets)
  let text = ''
  const show = (bytes: Uint8Array) => {
    text += decoder.decode(bytes, { stream: true })
  }
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    recorder.read(chunk)
    show(filter.push(chunk))
    if (text.length > MAX_ERROR_BYTES) break
  }
  recorder.end(`HTTP ${status}`)
  // The filter may hold back the beginning of a secret that the limit has cut.
  if (text.length <= MAX_ERROR_BYTES) show(filter.end())
  return text.slice(0, MAX_ERROR_BYTES)
}

const withoutSecrets = (headers: Headers, secrets: string[]): Headers =>
  new Headers([...headers].map(([name, value]) => [name, maskSecrets(value, secrets)]))
