// Messages of a conversation: each convention has its own shape, and all become `{role, content, tool_calls}`.
import { isObject, parseIfJson } from './attribute-reader.ts'
import type { Value } from './spans.ts'

type Message = { [name: string]: Value }

/** A list of messages. Undefined for a list of anything else. */
export function toMessages(value: Value | undefined, defaultRole?: string): Message[] | undefined {
  const items = parseIfJson(value ?? null)
  if (!Array.isArray(items) || items.length === 0) return undefined
  const messages = items.map(item => toMessage(item, defaultRole))
  return messages.every(message => message !== undefined) ? messages : undefined
}

export function toMessage(item: Value, defaultRole?: string): Message | undefined {
  // OpenInference has the members of a message one level deeper.
  const message = isObject(item) && isObject(item.message) ? { ...item, ...item.message } : item
  if (!isObject(message)) return undefined
  const { message: _, parts, contents, function_call_name, function_call_arguments_json, ...members } = message
  const role = members.role ?? defaultRole
  if (role === undefined) return undefined
  if (Array.isArray(parts)) return { ...members, role, ...fromParts(parts) }
  const calls = Array.isArray(members.tool_calls) ? members.tool_calls.map(toToolCall) : []
  if (function_call_name !== undefined)
    calls.push(toToolCall({ name: function_call_name, arguments: function_call_arguments_json ?? null }))
  return {
    ...members,
    role,
    content: Array.isArray(contents) ? contents.map(toContent) : parseBlocks(members.content ?? null),
    ...(calls.length > 0 && { tool_calls: calls }),
  }
}

/** OpenLLMetry sends content blocks as a text. The text of an answer may be JSON too, and stays a text. */
function parseBlocks(content: Value): Value {
  const parsed = parseIfJson(content)
  const isBlocks = Array.isArray(parsed) && parsed.every(item => isObject(item) && item.type !== undefined)
  return isBlocks ? parsed : content
}

/** OpenAI's shape, which most readers of runs know. */
function toToolCall(item: Value): Value {
  const call = isObject(item) && isObject(item.tool_call) ? item.tool_call : item
  if (!isObject(call) || isObject(call.function)) {
    const isComplete = !isObject(call) || call.type !== undefined
    return isComplete ? call : { type: 'function', ...call }
  }
  const { name, arguments: sent, ...others } = call
  const text = typeof sent === 'string' ? sent : JSON.stringify(sent ?? {}, keepDigits)
  return { ...others, type: 'function', function: { name: name ?? null, arguments: text } }
}

function toContent(item: Value): Value {
  if (!isObject(item) || !isObject(item.message_content)) return item
  const { image, ...content } = item.message_content
  return isObject(image) && isObject(image.image) ? { ...content, image_url: image.image } : { ...content }
}

/** Reads messages of OpenTelemetry from 1.37 on, where text, reasoning, calls of tools and results are parts of one. */
function fromParts(parts: Value[]): Message {
  const content: Value[] = []
  const calls: Value[] = []
  let answered: Value | undefined
  for (const part of parts) {
    if (!isObject(part)) content.push(part)
    else if (part.type === 'tool_call') calls.push(toToolCall(withoutType(part)))
    else if (part.type === 'text') content.push({ type: 'text', text: part.content ?? '' })
    else if (part.type === 'tool_call_response') {
      answered ??= part.id
      content.push({ type: 'text', text: toText(part.response ?? part.result ?? null) })
    } else content.push(part)
  }
  const [first] = content
  const isText = content.length === 1 && isObject(first) && first.type === 'text'
  return {
    content: content.length === 0 ? null : isText ? first.text! : content,
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(answered !== undefined && { tool_call_id: answered }),
  }
}

const withoutType = ({ type: _, ...part }: Message): Message => part
const toText = (value: Value): string => (typeof value === 'string' ? value : JSON.stringify(value, keepDigits))

/** A replacer for JSON.stringify: an integer that a number cannot hold keeps its digits. */
export const keepDigits = (_name: string, value: unknown): unknown =>
  typeof value === 'bigint' ? (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(String(value)) : value
