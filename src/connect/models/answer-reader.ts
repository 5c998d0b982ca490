// Reads an answer of a model while it passes by: its tokens, its text and the name of the model, of OpenAI and of
// Anthropic, as JSON or as events. It keeps a bounded part, and trusts nothing of it.

type Json = ReturnType<typeof JSON.parse>
export type Tokens = {
  input_tokens: number
  output_tokens: number
  input_token_details?: Record<string, number>
  output_token_details?: Record<string, number>
}
export type ReadAnswer = {
  /** Null: the answer did not say. */
  tokens: Tokens | null
  model: string | null
  /** The body, or the joined pieces of a stream. A long answer keeps its start only. */
  text: string
  /** The characters of the whole text, also of the part that is not kept. */
  length: number
  /** The outputs of the run. Undefined if there is nothing to show. */
  outputs: Record<string, unknown> | undefined
  bytes: number
}
export type AnswerReader = {
  read(chunk: Uint8Array): void
  /** True once a stream has said that it ends. Clients then go without reading on. */
  hasEnded(): boolean
  finish(): ReadAnswer
}

const MAX_KEPT = 1024 * 1024
/** The usage is at the end of a long answer. */
const MAX_TAIL = 16 * 1024
const MAX_TOOL_CALLS = 1000
/** The members that `readTokens()` reads. Merging all members that a server sends takes quadratic time. */
const USAGE_MEMBERS = [
  'prompt_tokens',
  'input_tokens',
  'completion_tokens',
  'output_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'prompt_tokens_details',
  'input_tokens_details',
  'completion_tokens_details',
  'output_tokens_details',
] as const
/** The last events of Anthropic, and of the responses of OpenAI. Its chat completions end with `[DONE]`. */
const LAST_EVENTS = ['message_stop', 'response.completed']

export const createAnswerReader = (contentType: string | null): AnswerReader =>
  /^text\/event-stream\b/i.test(contentType ?? '') ? createEventReader() : createBodyReader()

function createBodyReader(): AnswerReader {
  const decoder = new TextDecoder()
  let [head, tail, bytes, length] = ['', '', 0, 0]
  return {
    read(chunk) {
      bytes += chunk.byteLength
      const text = decoder.decode(chunk, { stream: true })
      length += text.length
      const room = Math.max(0, MAX_KEPT - head.length)
      head += text.slice(0, room)
      if (text.length > room) tail = (tail + text.slice(room)).slice(-MAX_TAIL)
    },
    hasEnded: () => false,
    finish() {
      const json = tail === '' ? parse(head) : undefined
      const usage = json?.usage ?? (tail === '' ? undefined : findLastUsage(tail))
      return {
        tokens: readTokens(usage),
        model: readModel(json),
        text: head,
        length,
        outputs: isObject(json) ? json : head === '' ? undefined : { text: head.slice(0, 10_000) },
        bytes,
      }
    },
  }
}

/** The last object named `usage`, which has no texts with braces. */
function findLastUsage(text: string): Json {
  const start = text.lastIndexOf('"usage"')
  const from = start < 0 ? -1 : text.indexOf('{', start)
  let depth = 0
  for (let i = from; i >= 0 && i < text.length; i++) {
    if (text[i] === '{') depth++
    else if (text[i] === '}' && --depth === 0) return parse(text.slice(from, i + 1))
  }
  return undefined
}

function createEventReader(): AnswerReader {
  const decoder = new TextDecoder()
  let [line, bytes, isSkipping, hasEnded] = ['', 0, false, false]
  const usage: Record<string, Json> = {}
  let model: string | null = null
  let [text, length] = ['', 0]
  const toolCalls: { name: string; arguments: string }[] = []
  let kept = 0
  const keep = (piece: unknown): string => {
    if (typeof piece !== 'string' || kept > MAX_KEPT) return ''
    kept += piece.length
    return piece
  }

  function readEvent(event: Json): void {
    model ??= readModel(event) ?? readModel(event.message) ?? readModel(event.response)
    const given = event.usage ?? event.message?.usage ?? event.response?.usage
    // Anthropic says the input first, and the output at the end.
    if (isObject(given)) for (const name of USAGE_MEMBERS) usage[name] = given[name] ?? usage[name]
    const choices: Json[] = Array.isArray(event.choices) ? event.choices : []
    // Content that is not kept is paid for, too: other choices, and what a model thinks.
    for (const { delta, text } of choices.filter(isObject))
      length += countCharacters(delta?.content, delta?.reasoning_content, delta?.reasoning, text)
    length += countCharacters(event.delta, event.delta?.text, event.delta?.thinking)
    const choice = choices[0]
    text += keep(choice?.delta?.content ?? choice?.text ?? event.delta?.text)
    if (event.type === 'response.output_text.delta') text += keep(event.delta)
    if (isObject(event.content_block) && event.content_block.type === 'tool_use') addTool(event.content_block.name)
    if (event.delta?.partial_json !== undefined) addArguments(event.delta.partial_json)
    for (const call of choices.flatMap(one => one?.delta?.tool_calls ?? [])) {
      if (call?.function?.name) addTool(call.function.name)
      addArguments(call?.function?.arguments)
    }
  }
  const addTool = (name: unknown) => {
    if (toolCalls.length < MAX_TOOL_CALLS) toolCalls.push({ name: keep(name), arguments: '' })
  }
  const addArguments = (piece: unknown) => {
    length += countCharacters(piece)
    const last = toolCalls.at(-1)
    if (last) last.arguments += keep(piece)
  }

  function readLine(data: string): void {
    const [, json] = /^data: ?(.*)$/s.exec(data) ?? []
    if (json === '[DONE]') hasEnded = true
    const event = json && parse(json)
    if (!isObject(event)) return
    if (LAST_EVENTS.includes(event.type)) hasEnded = true
    readEvent(event)
  }

  return {
    read(chunk) {
      bytes += chunk.byteLength
      const lines = decoder.decode(chunk, { stream: true }).split(/\r\n|\n|\r/)
      lines.forEach((part, i) => {
        if (!isSkipping) line += part
        // A line without an end would be kept as a whole.
        if (line.length > MAX_KEPT) {
          isSkipping = true
          line = ''
        }
        if (i === lines.length - 1) return
        if (!isSkipping) readLine(line)
        isSkipping = false
        line = ''
      })
    },
    hasEnded: () => hasEnded,
    finish() {
      if (!isSkipping) readLine(line)
      const isSilent = text === '' && toolCalls.every(call => call.arguments === '')
      const message = { role: 'assistant', content: text, ...(toolCalls.length > 0 && { tool_calls: toolCalls }) }
      const outputs = isSilent ? undefined : { messages: [message] }
      return { tokens: readTokens(usage), model, text, length, outputs, bytes }
    },
  }
}

function parse(text: string): Json {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const isObject = (value: unknown): value is Record<string, Json> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const countCharacters = (...texts: unknown[]): number =>
  texts.reduce((sum: number, text) => sum + (typeof text === 'string' ? text.length : 0), 0)

const MAX_NAME = 200
const readModel = (value: Json): string | null =>
  typeof value?.model === 'string' && value.model !== '' ? value.model.slice(0, MAX_NAME) : null

const MAX_TOKENS = 1_000_000_000
const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= MAX_TOKENS
const countOf = (value: unknown): number => (isCount(value) ? value : 0)

/** Anthropic does not count tokens that it read from its cache, or wrote into it, among the input. */
function readTokens(usage: Json): Tokens | null {
  if (!isObject(usage)) return null
  const input = usage.prompt_tokens ?? usage.input_tokens
  const output = usage.completion_tokens ?? usage.output_tokens
  if (!isCount(input) && !isCount(output)) return null
  const [read, written] = [countOf(usage.cache_read_input_tokens), countOf(usage.cache_creation_input_tokens)]
  const inputDetails = usage.prompt_tokens_details ?? usage.input_tokens_details
  const outputDetails = usage.completion_tokens_details ?? usage.output_tokens_details
  const cached = read || countOf(inputDetails?.cached_tokens)
  const reasoning = countOf(outputDetails?.reasoning_tokens)
  return {
    input_tokens: countOf(input) + read + written,
    output_tokens: countOf(output),
    ...((cached || written) && {
      input_token_details: { ...(cached && { cache_read: cached }), ...(written && { cache_creation: written }) },
    }),
    ...(reasoning && { output_token_details: { reasoning } }),
  }
}
