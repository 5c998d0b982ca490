// Finds the messages of a chat in the inputs and outputs of a run (pure), in the forms that common libraries trace.

export type Part =
  | { kind: 'text'; text: string }
  | { kind: 'thinking'; text: string }
  /** An image, a file and so on, of which only the kind is known. */
  | { kind: 'other'; label: string; value: unknown }
  | { kind: 'call'; name: string; args: unknown; id: string | undefined }
export type Message = { role: string; name: string | undefined; parts: Part[] }
/** `rest` has the members that are no messages: a temperature, tools, usage. */
export type Chat = { messages: Message[]; rest: Record<string, unknown> }

type Members = Record<string, unknown>
const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isText = (value: unknown): value is string => typeof value === 'string'

const ROLES: Record<string, string> = {
  human: 'user',
  humanmessage: 'user',
  humanmessagechunk: 'user',
  ai: 'assistant',
  aimessage: 'assistant',
  aimessagechunk: 'assistant',
  model: 'assistant',
  systemmessage: 'system',
  toolmessage: 'tool',
  functionmessage: 'tool',
  function: 'tool',
  chatmessage: 'message',
}
const KNOWN = new Set(['user', 'assistant', 'system', 'developer', 'tool', 'message'])
const roleOf = (text: string): string => ROLES[text.toLowerCase()] ?? text.toLowerCase()

const MAX_MESSAGES = 2_000

/** Undefined if there are none. */
export function readChat(value: unknown): Chat | undefined {
  if (!isObject(value)) return undefined
  const own = readMessage(value)
  if (own) return { messages: [own], rest: {} }
  for (const [name, read] of PLACES) {
    if (!Object.hasOwn(value, name)) continue
    const messages = read(value[name])
    if (!messages || messages.length === 0) continue
    const { [name]: _, ...rest } = value
    return { messages, rest }
  }
  return undefined
}

const readList = (value: unknown): Message[] | undefined => {
  // Batches have a list of lists.
  const items = Array.isArray(value) ? value.flat(1) : undefined
  if (!items || items.length > MAX_MESSAGES) return undefined
  const messages = items.map(readMessage)
  return messages.every(message => message !== undefined) ? messages : undefined
}
const readOne = (value: unknown): Message[] | undefined => {
  const message = readMessage(value)
  return message ? [message] : readList(value)
}

const readChoices = (value: unknown): Message[] | undefined =>
  Array.isArray(value) ? readList(value.map(choice => (isObject(choice) ? choice.message : undefined))) : undefined

/** `[[{ text, message }]]`. */
function readGenerations(value: unknown): Message[] | undefined {
  if (!Array.isArray(value)) return undefined
  const messages = value.flat(1).map((generation): Message | undefined => {
    if (!isObject(generation)) return undefined
    const { message, text } = generation
    return (
      readMessage(message) ?? (isText(text) ? { role: 'assistant', name: undefined, parts: toParts(text) } : undefined)
    )
  })
  return messages.every(message => message !== undefined) ? messages : undefined
}

const PLACES: [name: string, read: (value: unknown) => Message[] | undefined][] = [
  ['messages', readList],
  ['message', readOne],
  ['choices', readChoices],
  ['generations', readGenerations],
  ['input', readList],
  ['output', readOne],
]

function readMessage(value: unknown): Message | undefined {
  if (!isObject(value)) return undefined
  // Serialized objects name their class, and have their members in `kwargs`.
  if (Array.isArray(value.id) && isObject(value.kwargs)) {
    const role = roleOf(String(value.id.at(-1)))
    return KNOWN.has(role) ? toMessage(role, value.kwargs) : undefined
  }
  if (isText(value.type) && isObject(value.data) && KNOWN.has(roleOf(value.type)))
    return toMessage(roleOf(value.type), value.data)
  const role = [value.role, value.type].find(isText)
  if (role === undefined || !hasContent(value)) return undefined
  return isText(value.role) || KNOWN.has(roleOf(role)) ? toMessage(roleOf(role), value) : undefined
}

const hasContent = ({ content, parts, tool_calls }: Members): boolean =>
  isText(content) || Array.isArray(content) || Array.isArray(parts) || (content === null && Array.isArray(tool_calls))

function toMessage(role: string, members: Members): Message {
  const { content, parts, tool_calls, additional_kwargs, reasoning_content, name } = members
  const inner = isObject(additional_kwargs) ? additional_kwargs : {}
  const calls = [tool_calls, inner.tool_calls].find(one => Array.isArray(one) && one.length > 0)
  const found = [
    ...(isText(reasoning_content) && reasoning_content ? [{ kind: 'thinking' as const, text: reasoning_content }] : []),
    ...toParts(content ?? parts),
    ...(Array.isArray(calls) ? calls.flatMap(toCall) : []),
  ]
  // Some libraries have the same call in the content and beside it.
  const seen = new Set<string>()
  return {
    role,
    name: isText(name) && name ? name : undefined,
    parts: found.filter(part => {
      if (part.kind !== 'call' || part.id === undefined) return true
      const isNew = !seen.has(part.id)
      seen.add(part.id)
      return isNew
    }),
  }
}

function toParts(content: unknown): Part[] {
  if (isText(content)) return content === '' ? [] : [{ kind: 'text', text: content }]
  return Array.isArray(content) ? content.flatMap(toPart) : []
}

function toPart(part: unknown): Part[] {
  if (isText(part)) return [{ kind: 'text', text: part }]
  if (!isObject(part)) return [{ kind: 'other', label: 'Value', value: part }]
  const { type, text, content, thinking, reasoning } = part
  const thought = [thinking, reasoning].find(isText)
  if (thought !== undefined) return [{ kind: 'thinking', text: thought }]
  if (type === 'reasoning' && isText(content)) return [{ kind: 'thinking', text: content }]
  if (isText(text)) return [{ kind: 'text', text }]
  if (type === 'tool_use' || type === 'tool_call' || type === 'function_call') return toCall(part)
  if (type === 'tool_result') return toParts(content)
  if (isText(content)) return [{ kind: 'text', text: content }]
  return [{ kind: 'other', label: isText(type) ? type.replaceAll('_', ' ') : 'Part', value: part }]
}

function toCall(call: unknown): Part[] {
  if (!isObject(call)) return []
  const inner = isObject(call.function) ? call.function : call
  const args = [inner.arguments, inner.args, inner.input].find(one => one !== undefined)
  return [
    { kind: 'call', name: String(inner.name ?? 'tool'), args: parsed(args), id: isText(call.id) ? call.id : undefined },
  ]
}

/** Arguments are often a text of JSON. */
function parsed(value: unknown): unknown {
  if (!isText(value)) return value
  try {
    return JSON.parse(value)
  } catch {
    return value
  }
}

/** The messages after the last answer, without those of the system. */
export function lastTurn(messages: Message[]): Message[] {
  const answered = messages.findLastIndex(({ role }) => role === 'assistant')
  return messages.slice(answered + 1).filter(({ role }) => role !== 'system' && role !== 'developer')
}
