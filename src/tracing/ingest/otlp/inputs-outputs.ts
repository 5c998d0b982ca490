// The inputs and outputs of a run: from attributes first, else from events, as older conventions have them.
import { AttributeReader, isObject, parseIfJson } from './attribute-reader.ts'
import { keepDigits, toMessage, toMessages } from './messages.ts'
import type { SpanEvent, Value } from './spans.ts'

export type Payload = { inputs?: string; outputs?: string }

const toJson = (value: Value): string => JSON.stringify(value, keepDigits)

/** The text of an object stays unchanged, with all digits of its numbers. Anything else becomes a member. */
function wrap(value: Value | undefined, member: string): string | undefined {
  if (value === undefined) return undefined
  const parsed = parseIfJson(value)
  if (isObject(parsed)) return typeof value === 'string' ? value : toJson(parsed)
  const messages = toMessages(parsed)
  return toJson(messages ? { messages } : { [member]: parsed })
}

const withMessages = (messages: Value[] | undefined, others: object = {}): string | undefined =>
  messages && toJson({ messages, ...others })

function readInputs(attributes: AttributeReader): string | undefined {
  const instructions = toInstructions(attributes.value('gen_ai.system_instructions'))
  const sent = toMessages(attributes.value('gen_ai.input.messages'))
  const indexed = ['gen_ai.prompt', 'llm.prompts', 'llm.input_messages']
    .map(prefix => toMessages(attributes.list(prefix), 'user'))
    .find(Boolean)
  const whole = attributes.value(
    'gen_ai.prompt',
    'traceloop.entity.input',
    'input.value',
    'gen_ai.tool.call.arguments',
    'tool_arguments',
    'ai.prompt.messages',
    'ai.prompt',
    'ai.toolCall.args',
    'ai.toolCall.input',
    'ai.value',
    'ai.values',
    'gen_ai.input.messages',
    'gen_ai.retrieval.query.text',
  )
  attributes.value('input.mime_type')
  if (sent ?? instructions) return withMessages([...(instructions ?? []), ...(sent ?? [])])
  return withMessages(indexed) ?? wrap(whole, 'input')
}

function toInstructions(value: Value | undefined): Value[] | undefined {
  if (value === undefined) return undefined
  const parsed = parseIfJson(value)
  const message = Array.isArray(parsed) ? { role: 'system', parts: parsed } : { role: 'system', content: parsed }
  return [toMessage(message)!]
}

function readOutputs(attributes: AttributeReader): string | undefined {
  const sent = toMessages(attributes.value('gen_ai.output.messages'), 'assistant')
  const indexed = ['gen_ai.completion', 'llm.completions', 'llm.output_messages']
    .map(prefix => toMessages(attributes.list(prefix), 'assistant'))
    .find(Boolean)
  const documents = attributes.list('retrieval.documents').map(toDocument)
  const aiSdk = readAiSdkOutputs(attributes)
  const whole = attributes.value(
    'gen_ai.completion',
    'traceloop.entity.output',
    'output.value',
    'gen_ai.tool.call.result',
    'tool_response',
    'ai.response.object',
    'ai.toolCall.result',
    'ai.toolCall.output',
    'gen_ai.output.messages',
  )
  attributes.value('output.mime_type')
  if (documents.length > 0) return toJson({ documents })
  return withMessages(sent ?? indexed) ?? wrap(whole, 'output') ?? withMessages(aiSdk)
}

function readAiSdkOutputs(attributes: AttributeReader): Value[] | undefined {
  const text = attributes.value('ai.response.text')
  const calls = parseIfJson(attributes.value('ai.response.toolCalls') ?? null)
  if (text === undefined && !Array.isArray(calls)) return undefined
  const tool_calls = Array.isArray(calls) ? calls.map(toAiSdkCall) : undefined
  return [toMessage({ role: 'assistant', content: text ?? null, ...(tool_calls && { tool_calls }) })!]
}

const toAiSdkCall = (call: Value): Value =>
  isObject(call)
    ? { id: call.toolCallId ?? null, name: call.toolName ?? null, arguments: call.args ?? call.input ?? null }
    : call

function toDocument(item: Value): Value {
  const document = isObject(item) && isObject(item.document) ? item.document : item
  if (!isObject(document)) return document
  const { content, metadata, ...others } = document
  return { page_content: content ?? null, metadata: parseIfJson(metadata ?? {}), type: 'Document', ...others }
}

// ---- events, as OpenTelemetry had them before 1.37

const ROLE_OF_EVENT = new Map([
  ['gen_ai.system.message', 'system'],
  ['gen_ai.user.message', 'user'],
  ['gen_ai.assistant.message', 'assistant'],
  ['gen_ai.tool.message', 'tool'],
])

/** The events that are not inputs or outputs are left. */
function readEvents(events: SpanEvent[]): Payload & { left: SpanEvent[] } {
  const asked: Value[] = []
  const answered: Value[] = []
  const left: SpanEvent[] = []
  let [prompt, completion]: (string | undefined)[] = []
  for (const event of events) {
    const attributes = new AttributeReader(event.attributes)
    const role = ROLE_OF_EVENT.get(event.name)
    if (event.name === 'gen_ai.content.prompt') prompt ??= wrap(attributes.value('gen_ai.prompt'), 'input')
    else if (event.name === 'gen_ai.content.completion')
      completion ??= wrap(attributes.value('gen_ai.completion'), 'output')
    else if (event.name === 'gen_ai.choice') answered.push(toChoice(attributes))
    else if (role !== undefined) asked.push(fromMessageEvent(attributes, role))
    else left.push(event)
  }
  const inputs = prompt ?? (asked.length > 0 ? withMessages(asked) : undefined)
  const outputs = completion ?? (answered.length > 0 ? withMessages(answered) : undefined)
  return { ...(inputs !== undefined && { inputs }), ...(outputs !== undefined && { outputs }), left }
}

/** Semantic Kernel sends the whole message as JSON in one attribute. */
const readWholeEvent = (attributes: AttributeReader): Value =>
  parseIfJson(attributes.value('gen_ai.event.content') ?? null)

function fromMessageEvent(attributes: AttributeReader, role: string): Value {
  const whole = readWholeEvent(attributes)
  if (isObject(whole)) return toMessage(whole, role)!
  const calls = parseIfJson(attributes.value('tool_calls') ?? attributes.list('tool_calls'))
  const id = attributes.value('id')
  const message = {
    role: attributes.value('role') ?? role,
    content: attributes.value('content') ?? null,
    ...(Array.isArray(calls) && calls.length > 0 && { tool_calls: calls }),
    ...(id !== undefined && { tool_call_id: id }),
  }
  return toMessage(message)!
}

function toChoice(attributes: AttributeReader): Value {
  const whole = readWholeEvent(attributes)
  const choice = isObject(whole) ? whole : { message: parseIfJson(attributes.value('message') ?? null) }
  const reason = attributes.value('finish_reason') ?? choice.finish_reason
  const message = isObject(choice.message)
    ? { ...choice.message }
    : {
        role: attributes.value('message.role', 'role') ?? 'assistant',
        content: attributes.value('message.content', 'content') ?? choice.message ?? null,
      }
  const calls = attributes.list('tool_calls')
  if (calls.length > 0) Object.assign(message, { tool_calls: calls })
  return { ...toMessage(message, 'assistant')!, ...(reason !== undefined && { finish_reason: reason }) }
}

/** Attributes win over events. */
export function readPayload(attributes: AttributeReader, events: SpanEvent[]): Payload & { left: SpanEvent[] } {
  const { left, ...fromEvents } = readEvents(events)
  const [inputs, outputs] = [readInputs(attributes), readOutputs(attributes)]
  return { ...fromEvents, ...(inputs !== undefined && { inputs }), ...(outputs !== undefined && { outputs }), left }
}
