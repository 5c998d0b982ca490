// Derives columns of a run from its JSON: metadata, usage, previews and the time of the first token. The JSON may have
// megabytes: members are cut out of it, and only short ones are parsed.
import { sliceArray, sliceObject } from '../../kernel/json/json-slices.ts'
import { readTraceTime } from '../runs/time.schema.ts'
import type { UsageDetails } from '../store/store.ts'

const PREVIEW_LENGTH = 200
const MAX_PARSED = 64 * 1024
/** Members and items after these are not looked at. */
const MAX_MEMBERS = 1000
const MAX_METADATA = 32 * 1024
const MAX_METADATA_VALUE = 4096
const MAX_THREAD_ID = 255
const THREAD_MEMBERS = ['session_id', 'thread_id', 'conversation_id']

type Members = Record<string, unknown>
const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Undefined for a text that is long. */
const parse = (json: string | undefined): unknown =>
  json === undefined || json.length > MAX_PARSED ? undefined : JSON.parse(json)

const readMember = (json: string | undefined, name: string): string | undefined =>
  json === undefined ? undefined : sliceObject(json, MAX_MEMBERS).get(name)

// ---- metadata

export type MetadataColumns = { metadata?: Members; thread_id?: string }

/** Reads `extra.metadata`: the columns that filters use, and the usage that it may have. */
export function readMetadata(extra: string | undefined): { usage: unknown; columns: MetadataColumns } {
  const metadata = readMember(extra, 'metadata')
  if (metadata?.[0] !== '{') return { usage: undefined, columns: {} }
  const members = sliceObject(metadata, MAX_MEMBERS)
  const thread = THREAD_MEMBERS.map(name => parse(members.get(name))).find(isThreadId)
  return {
    usage: parse(members.get('usage_metadata')),
    columns: {
      metadata: limitMetadata(members),
      ...(thread !== undefined && { thread_id: cleanText(String(thread).slice(0, MAX_THREAD_ID)) }),
    },
  }
}

const isThreadId = (value: unknown) => (typeof value === 'string' && value !== '') || typeof value === 'number'

/** Filters find short values only. All of it stays in `extra`. */
function limitMetadata(members: Map<string, string>): Members {
  const limited: [string, unknown][] = []
  let length = 0
  for (const [name, text] of members) {
    if (name.length + text.length > MAX_METADATA_VALUE) continue
    length += name.length + text.length
    if (length > MAX_METADATA) break
    const value = JSON.parse(text)
    limited.push([cleanText(name), text.includes('\\u') ? JSON.parse(cleanJson(JSON.stringify(value))) : value])
  }
  return Object.fromEntries(limited)
}

/** Postgres stores neither NUL characters nor halves of surrogate pairs. */
export const cleanText = (text: string): string => text.replaceAll('\0', '').toWellFormed()

/** `JSON.stringify` escapes just these: control characters, and halves of surrogate pairs. */
const cleanJson = (json: string): string =>
  json.replace(/\\(?:\\|u0000|ud[89a-f]..)/g, escaped =>
    escaped === '\\\\' ? escaped : escaped === '\\u0000' ? '' : '\ufffd',
  )

/** Cuts a text so that no half of a surrogate pair is at its end. */
export const cutText = (text: string, maxLength: number): string =>
  text.length <= maxLength ? text : text.slice(0, maxLength).replace(/[\ud800-\udbff]$/, '')

// ---- usage

export type Usage = {
  usage_details: UsageDetails
  prompt_tokens: number | undefined
  completion_tokens: number | undefined
  total_tokens: number | undefined
  prompt_cost: number | undefined
  completion_cost: number | undefined
  total_cost: number | undefined
}
const DETAILS = ['input_token_details', 'output_token_details', 'input_cost_details', 'output_cost_details'] as const

/** Reads `usage_metadata` of the outputs, of the message that a chat model answered with, or else of the metadata. */
export function readUsage(outputs: string | undefined, ofMetadata: unknown): Usage | undefined {
  const usage = (outputs?.includes('"usage_metadata"') && findUsage(outputs)) || ofMetadata
  if (!isObject(usage)) return undefined
  const tokens = (name: string) => readNumber(usage[name], Number.isSafeInteger)
  const cost = (name: string) => readNumber(usage[name], Number.isFinite)
  const prompt_tokens = tokens('input_tokens')
  const completion_tokens = tokens('output_tokens')
  const prompt_cost = cost('input_cost')
  const completion_cost = cost('output_cost')
  return {
    usage_details: readDetails(usage),
    prompt_tokens,
    completion_tokens,
    total_tokens: tokens('total_tokens') ?? add(prompt_tokens, completion_tokens),
    prompt_cost,
    completion_cost,
    total_cost: cost('total_cost') ?? add(prompt_cost, completion_cost),
  }
}

/** Messages are in `{"generations": [[{"message": {"kwargs": {…}}}]]}`, where `kwargs` may be missing. */
function findUsage(outputs: string): Members | undefined {
  const message = readMember(firstOf(firstOf(readMember(outputs, 'generations'))), 'message')
  return usageOf(outputs) ?? usageOf(message) ?? usageOf(readMember(message, 'kwargs'))
}

function usageOf(json: string | undefined): Members | undefined {
  const usage = parse(readMember(json, 'usage_metadata'))
  return isObject(usage) ? usage : undefined
}

const firstOf = (json: string | undefined): string | undefined => (json?.[0] === '[' ? sliceArray(json, 1)[0] : json)

const readNumber = (value: unknown, isValid: (value: number) => boolean): number | undefined =>
  typeof value === 'number' && isValid(value) && value >= 0 && value <= Number.MAX_SAFE_INTEGER ? value : undefined

const add = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined && b === undefined ? undefined : (a ?? 0) + (b ?? 0)

function readDetails(usage: Members): UsageDetails {
  const details: UsageDetails = {}
  for (const name of DETAILS) {
    const given = usage[name]
    if (!isObject(given)) continue
    const numbers = Object.entries(given).filter(([, value]) => typeof value === 'number')
    details[name] = Object.fromEntries(numbers.slice(0, 20).map(([key, value]) => [cleanText(key), value as number]))
  }
  return details
}

// ---- previews

/** Members with the text for people, the best first. */
const TEXT_MEMBERS = [
  'content',
  'text',
  'input',
  'output',
  'question',
  'query',
  'prompt',
  'answer',
  'result',
  'message',
  'messages',
  'choices',
  'generations',
  'kwargs',
]

export function previewOf(json: string | undefined): string | undefined {
  if (json === undefined) return undefined
  const found = findText(parse(json))
  const line = cleanText(
    (found ?? json)
      .slice(0, 2 * PREVIEW_LENGTH)
      .replace(/\s+/g, ' ')
      .trim(),
  )
  return cutText(line, PREVIEW_LENGTH)
}

/** Finds the last of several messages. */
function findText(value: unknown, depth = 0): string | undefined {
  if (typeof value === 'string') return value
  if (depth > 8) return undefined
  if (Array.isArray(value)) return findText(value.at(-1), depth + 1)
  if (!isObject(value)) return undefined
  for (const name of TEXT_MEMBERS) {
    const text = name in value ? findText(value[name], depth + 1) : undefined
    if (text) return text
  }
  const members = Object.values(value)
  return members.length === 1 ? findText(members[0], depth + 1) : undefined
}

// ---- events

export function firstTokenTime(events: string | undefined): string | undefined {
  if (!events?.includes('new_token')) return undefined
  for (const text of sliceArray(events, MAX_MEMBERS)) {
    const event = text.includes('new_token') ? parse(text) : undefined
    if (isObject(event) && event.name === 'new_token') return readEventTime(event.time)
  }
  return undefined
}

const readEventTime = (time: unknown): string | undefined =>
  typeof time === 'string' || typeof time === 'number' ? readTraceTime(time) : undefined
