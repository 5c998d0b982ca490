// A model server on the loopback: OpenAI chat completions, embeddings and models, and Anthropic messages. It answers
// the same way each time, keeps what it got, and fails on demand.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

type Json = ReturnType<typeof JSON.parse>
export type ModelCall = {
  provider: 'openai' | 'anthropic'
  method: string
  path: string
  headers: Record<string, string>
  /** The body as it came. A call that is cut has the part that had come. */
  body: string
  json: Json
  model: string
  system: string
  messages: { role: string; content: string }[]
  /** The text of the last message. */
  prompt: string
  schema: { name: string; schema: JsonSchema } | undefined
  isStreaming: boolean
  /** The client went before the answer had ended. */
  isAborted: boolean
}
type JsonSchema = Record<string, Json>

/** The answer of the model: a text, or an object that is sent as JSON. Undefined stands for the usual answer. */
export type Answer = (call: ModelCall) => string | object | undefined | Promise<string | object | undefined>
export const FAULTS = [
  'stall',
  'stall_in_stream',
  'endless_stream',
  'cut',
  'cut_in_stream',
  'redirect',
  'huge_headers',
  'rate_limited',
  'broken',
  'invalid_json',
  'secret_echoed',
] as const
export type Fault = (typeof FAULTS)[number]

export type ModelServer = Awaited<ReturnType<typeof startModelServer>>

/**
 * `url` is the base URL of both providers: the OpenAI client adds `/chat/completions`, the Anthropic client
 * `/v1/messages`. Under `/faults/cut` the same server cuts every call, and so for each fault.
 */
export async function startModelServer() {
  const calls: ModelCall[] = []
  const server = createServer((request, response) => void serve(models, request, response))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const models = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    answer: (() => undefined) as Answer,
    /** Each call takes the first one away. */
    faults: [] as (Fault | null)[],
    /** Awaited before each event of a stream. */
    beforeEvent: (_index: number): Promise<void> | void => {},
    close: () => closeServer(server),
  }
  return models
}

async function closeServer(server: Server): Promise<void> {
  server.closeAllConnections()
  await new Promise(resolve => server.close(resolve))
}

async function serve(models: ModelServer, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = request.url!
  // For tests in workerd, where the server runs in another process.
  if (url === '/calls') return sendJson(response, 200, models.calls)
  const [, faultInPath, path] = /^(?:\/faults\/(\w+))?(\/.*)$/.exec(url)!
  const body = await text(request).catch(() => '')
  const call = readCall(request, path!, body)
  models.calls.push(call)
  response.on('close', () => {
    call.isAborted = !response.writableFinished
  })
  const fault = (faultInPath as Fault | undefined) ?? models.faults.shift() ?? null
  if (fault && !isFaultOfStream(fault)) return FAULT_ANSWERS[fault](response, call)
  const [route] = path!.split('?') as [string]
  if (route.endsWith('/models')) return sendJson(response, 200, MODELS)
  if (route.endsWith('/embeddings')) return sendJson(response, 200, embed(call))
  if (!/\/(chat\/completions|messages)$/.test(route)) return sendJson(response, 404, { error: { message: 'no route' } })
  // A client that went before its body had come gets no answer.
  if (body === '') return
  const answer = (await models.answer(call)) ?? writeUsualAnswer(call)
  const isText = typeof answer === 'string'
  const said = isText ? answer : JSON.stringify(answer)
  const protocol = call.provider === 'anthropic' ? anthropic : openai
  if (!call.isStreaming && !fault) return sendJson(response, 200, protocol.whole(call, said))
  response.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8', 'X-Request-Id': 'upstream-1' })
  await sendEvents(models, response, protocol.events(call, said), fault)
}

type FaultOfStream = Extract<Fault, `${string}stream`>
const isFaultOfStream = (fault: Fault): fault is FaultOfStream => fault.endsWith('stream')

async function sendEvents(
  models: ModelServer,
  response: ServerResponse,
  events: string[],
  fault: FaultOfStream | null,
): Promise<void> {
  let index = 0
  const isOpen = () => !response.destroyed
  const send = async (event: string) => {
    await models.beforeEvent(index++)
    if (!isOpen() || response.write(event)) return
    await new Promise<void>(resolve => {
      response.once('drain', resolve)
      response.once('close', resolve)
    })
  }
  const half = Math.ceil(events.length / 2)
  for (const event of fault ? events.slice(0, half) : events) await send(event)
  if (!fault) return void response.end()
  // The client receives all that was written, but no end.
  if (fault === 'cut_in_stream') return void response.socket?.end()
  while (fault === 'endless_stream' && isOpen()) {
    await send(events[1]!)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}

const SECRET_HEADERS = ['authorization', 'x-api-key', 'x-llm-auth']
const FAULT_ANSWERS: Record<Exclude<Fault, FaultOfStream>, (response: ServerResponse, call: ModelCall) => void> = {
  stall: () => {},
  cut: response => void response.destroy(),
  redirect: response => void response.writeHead(307, { Location: 'http://127.0.0.1:1/elsewhere' }).end(),
  huge_headers: response => {
    for (let i = 0; i < 160; i++) response.setHeader(`X-Huge-${i}`, 'h'.repeat(64 * 1024))
    response.end('{}')
  },
  rate_limited: response => {
    response.setHeader('Retry-After', '0')
    sendJson(response, 429, { error: { message: 'slow down', type: 'rate_limit_error' } })
  },
  broken: response => sendJson(response, 500, { error: { message: 'the model fell over', type: 'server_error' } }),
  invalid_json: response => void response.writeHead(200, { 'Content-Type': 'application/json' }).end('{"choices": [{'),
  secret_echoed: (response, { headers }) => {
    const secrets = SECRET_HEADERS.map(name => headers[name]).filter(Boolean)
    sendJson(response, 401, { error: { message: `Incorrect key ${secrets.join(' ')}`, type: 'authentication_error' } })
  },
}

function sendJson(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'Content-Type': 'application/json', 'X-Request-Id': 'upstream-1' })
  response.end(JSON.stringify(value))
}

function readCall(request: IncomingMessage, path: string, body: string): ModelCall {
  const json = parseJson(body)
  const provider = path.endsWith('/messages') ? 'anthropic' : 'openai'
  const messages = ((json?.messages ?? []) as { role: string; content: Json }[]).map(({ role, content }) => ({
    role,
    content: readText(content),
  }))
  const isSystem = ({ role }: { role: string }) => role === 'system' || role === 'developer'
  const tool = provider === 'anthropic' && json?.tools?.find((one: Json) => one.name === json.tool_choice?.name)
  const format = json?.response_format?.json_schema
  return {
    provider,
    method: request.method!,
    path,
    headers: request.headers as Record<string, string>,
    body,
    json,
    model: json?.model ?? '',
    system: readText(json?.system ?? messages.find(isSystem)?.content ?? ''),
    messages: messages.filter(one => !isSystem(one)),
    prompt: messages.at(-1)?.content ?? '',
    schema: tool ? { name: tool.name, schema: tool.input_schema } : format,
    isStreaming: json?.stream === true,
    isAborted: false,
  }
}

function parseJson(body: string): Json {
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}

const readText = (content: Json): string =>
  typeof content === 'string' ? content : (content ?? []).map((part: Json) => part.text ?? '').join('')

const writeUsualAnswer = ({ schema, prompt }: ModelCall): string | object =>
  schema ? (fitSchema(schema.schema) as object) : `You said: ${prompt.slice(0, 200)}`

/** The smallest value that the schema admits, as far as structured answers use JSON Schema. */
function fitSchema(schema: JsonSchema): unknown {
  if (schema.const !== undefined) return schema.const
  if (schema.enum) return schema.enum[0]
  if (schema.anyOf ?? schema.oneOf) return fitSchema((schema.anyOf ?? schema.oneOf)[0])
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type
  switch (type) {
    case 'object':
      return Object.fromEntries(
        Object.entries((schema.properties ?? {}) as Record<string, JsonSchema>).map(([name, one]) => [
          name,
          fitSchema(one),
        ]),
      )
    case 'array':
      return Array.from({ length: schema.minItems ?? 0 }, () => fitSchema(schema.items ?? {}))
    case 'number':
    case 'integer':
      return schema.minimum ?? 0
    case 'boolean':
      return true
    case 'null':
      return null
    default:
      return 'text'.padEnd(schema.minLength ?? 0, '.').slice(0, schema.maxLength)
  }
}

/** Four characters are a token. */
const countTokens = (said: string): number => Math.ceil(said.length / 4)
const inputTokens = ({ system, messages }: ModelCall) =>
  countTokens(system + messages.map(({ content }) => content).join(''))

const MODELS = { object: 'list', data: [{ id: 'small-1', object: 'model', created: 1_750_000_000, owned_by: 'tests' }] }

function embed(call: ModelCall) {
  const inputs = [call.json?.input ?? ''].flat() as string[]
  const data = inputs.map((input, index) => ({ object: 'embedding', index, embedding: [input.length, 1, 0] }))
  const tokens = inputs.reduce((sum, input) => sum + countTokens(input), 0)
  return { object: 'list', model: call.model, data, usage: { prompt_tokens: tokens, total_tokens: tokens } }
}

/** Five pieces, so that a stream has a beginning and an end. */
const cutIntoPieces = (said: string): string[] =>
  said.match(new RegExp(`[^]{1,${Math.ceil(said.length / 5) || 1}}`, 'g')) ?? ['']
const toEvent = (data: unknown, event?: string) =>
  `${event ? `event: ${event}\n` : ''}data: ${JSON.stringify(data)}\n\n`

const openai = {
  usage: (call: ModelCall, said: string) => {
    const [prompt_tokens, completion_tokens] = [inputTokens(call), countTokens(said)]
    return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
  },
  whole: (call: ModelCall, said: string) => ({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1_750_000_000,
    model: call.model,
    choices: [
      { index: 0, message: { role: 'assistant', content: said, refusal: null }, logprobs: null, finish_reason: 'stop' },
    ],
    usage: openai.usage(call, said),
  }),
  events: (call: ModelCall, said: string): string[] => {
    const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1_750_000_000, model: call.model }
    const chunk = (delta: object, finish_reason: string | null = null) =>
      toEvent({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason }] })
    const withUsage = call.json?.stream_options?.include_usage === true
    return [
      chunk({ role: 'assistant', content: '' }),
      ...cutIntoPieces(said).map(content => chunk({ content })),
      chunk({}, 'stop'),
      ...(withUsage ? [toEvent({ ...head, choices: [], usage: openai.usage(call, said) })] : []),
      'data: [DONE]\n\n',
    ]
  },
}

const anthropic = {
  whole: (call: ModelCall, said: string) => ({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: call.model,
    content: call.schema
      ? [{ type: 'tool_use', id: 'toolu_1', name: call.schema.name, input: JSON.parse(said) }]
      : [{ type: 'text', text: said }],
    stop_reason: call.schema ? 'tool_use' : 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: inputTokens(call), output_tokens: countTokens(said) },
  }),
  events: (call: ModelCall, said: string): string[] => {
    const event = (type: string, members: object) => toEvent({ type, ...members }, type)
    const message = {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: call.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: inputTokens(call), output_tokens: 1 },
    }
    const block = call.schema
      ? { type: 'tool_use', id: 'toolu_1', name: call.schema.name, input: {} }
      : { type: 'text', text: '' }
    const toDelta = (piece: string) =>
      call.schema ? { type: 'input_json_delta', partial_json: piece } : { type: 'text_delta', text: piece }
    return [
      event('message_start', { message }),
      event('content_block_start', { index: 0, content_block: block }),
      ...cutIntoPieces(said).map(piece => event('content_block_delta', { index: 0, delta: toDelta(piece) })),
      event('content_block_stop', { index: 0 }),
      event('message_delta', {
        delta: { stop_reason: call.schema ? 'tool_use' : 'end_turn', stop_sequence: null },
        usage: { output_tokens: countTokens(said) },
      }),
      event('message_stop', {}),
    ]
  },
}
