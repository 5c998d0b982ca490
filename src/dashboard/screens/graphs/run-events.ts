// The events of a run, as one state that is shown while it streams (pure).

type Members = Record<string, unknown>
export type Streamed = {
  runId: string | undefined
  /** The values after the last step, or undefined before the first. */
  values: unknown
  /** Messages that a model writes at this moment, by their id. */
  written: Members[]
  error: string | undefined
}
export const NOTHING: Streamed = { runId: undefined, values: undefined, written: [], error: undefined }

/** The modes that `applyEvent` reads. */
export const STREAM_MODES = ['values', 'messages-tuple']
const INTERRUPT = '__interrupt__'

const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export function applyEvent(before: Streamed, event: string, data: unknown): Streamed {
  if (event === 'metadata' && isObject(data)) return { ...before, runId: String(data.run_id) }
  if (event === 'values') return withValues(before, data)
  if (event === 'messages' && Array.isArray(data) && isObject(data[0])) return withChunk(before, data[0])
  if (event === 'error') return { ...before, error: describeError(data) }
  return before
}

/** The event of an interrupt has no values beside it. */
function withValues(before: Streamed, data: unknown): Streamed {
  if (!isObject(data)) return { ...before, values: data, written: [] }
  const { [INTERRUPT]: interrupts, ...values } = data
  if (interrupts !== undefined && Object.keys(values).length === 0) return before
  return { ...before, values, written: [] }
}

function withChunk(before: Streamed, chunk: Members): Streamed {
  const isKnown = before.written.some(({ id }) => id === chunk.id)
  const written = isKnown
    ? before.written.map(one => (one.id === chunk.id ? { ...chunk, content: joinContent(one, chunk) } : one))
    : [...before.written, chunk]
  return { ...before, written }
}

/** A whole message follows the chunks of some models, with the same id. */
function joinContent({ content: before }: Members, { content, type }: Members): unknown {
  if (!/Chunk$/.test(String(type))) return content
  if (typeof before === 'string' && typeof content === 'string') return before + content
  return [...toParts(before), ...toParts(content)]
}
const toParts = (content: unknown): unknown[] =>
  Array.isArray(content) ? content : content === '' || content == null ? [] : [{ type: 'text', text: content }]

/** The values with the messages that are written now, without those that the values have already. */
export function shownValues({ values, written }: Streamed, stored: unknown): unknown {
  const base = values ?? stored
  if (written.length === 0 || (base != null && !isObject(base))) return base
  const messages = Array.isArray(base?.messages) ? base.messages : []
  const known = new Set(messages.map(message => (isObject(message) ? message.id : undefined)))
  return { ...base, messages: [...messages, ...written.filter(({ id }) => !known.has(id))] }
}

export function describeError(data: unknown): string {
  if (!isObject(data)) return String(data)
  const { error, message } = data
  return [error, message].filter(part => typeof part === 'string' && part !== '').join(': ') || JSON.stringify(data)
}
