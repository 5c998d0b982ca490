// Reads the model and the streaming mode that our token states from the body of a call. Receivers trust the token, so a
// body that another parser could read differently is refused.
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Failure, fail } from '../../kernel/http/errors.ts'
import { findJsonFault } from '../../kernel/json/json-check.ts'
import { findRepeatedName } from '../../kernel/json/json-names.ts'
import { sliceObject } from '../../kernel/json/json-slices.ts'

/** `digest` is the SHA-256 of the bytes that are sent, in hex. */
export type AskedCall = { model: string; streaming: boolean; digest: string }

const MAX_DEPTH = 100
const MAX_NAMES = 100_000
const MAX_MODEL = 200
const JSON_TYPE = /^application\/json(?:\s*;\s*charset\s*=\s*(?:utf-8|"utf-8"))?\s*$/i
/** Some parsers end a text at a control character, and replace invalid characters. */
const HIDDEN_CHARACTER = /\p{C}/u
/** Decoders of Go, among others, ignore the case of names. */
const READ_NAMES = ['model', 'stream']

const ambiguous = (reason: string): Failure => fail('model_body_ambiguous', { about: reason })

/** A request without a body, and a body without these members, ask for no model and no stream. */
export function readAskedCall(bytes: Uint8Array, headers: Headers): AskedCall {
  const digest = sha256Hex(bytes)
  if (bytes.byteLength === 0) return { model: '', streaming: false, digest }
  const members = readMembers(bytes, headers)
  const model = members.has('model') ? JSON.parse(members.get('model')!) : ''
  if (typeof model !== 'string') throw ambiguous('`model` is not a text')
  if (model.length > MAX_MODEL) throw ambiguous(`\`model\` has more than ${MAX_MODEL} characters`)
  if (HIDDEN_CHARACTER.test(model)) throw ambiguous('`model` has control characters')
  const stream = members.get('stream') ?? 'null'
  if (!['true', 'false', 'null'].includes(stream)) throw ambiguous('`stream` is neither true nor false')
  return { model, streaming: stream === 'true', digest }
}

function readMembers(bytes: Uint8Array, headers: Headers): Map<string, string> {
  const type = headers.get('content-type') ?? ''
  if (!JSON_TYPE.test(type)) throw ambiguous('its `Content-Type` is not `application/json` in UTF-8')
  if (headers.has('content-encoding')) throw ambiguous('it has a `Content-Encoding`')
  const text = decodeUtf8(bytes)
  if (text === null) throw ambiguous('it is not valid UTF-8')
  const fault = findJsonFault(text, MAX_DEPTH)
  if (fault) throw ambiguous(`it ${fault.msg}`)
  const repeated = findRepeatedName(text, MAX_NAMES)
  if (repeated === 'too_many') throw ambiguous(`it has more than ${MAX_NAMES} members`)
  if (repeated) throw ambiguous(`it has the member \`${repeated.name.slice(0, 100)}\` twice in one object`)
  const members = sliceObject(text)
  for (const name of members.keys()) {
    const read = READ_NAMES.find(one => isAlike(one, name))
    if (read) throw ambiguous(`its member \`${name}\` differs from \`${read}\` in case alone`)
  }
  return members
}

/** Upper case makes letters equal to their other forms, such as `ſ` to `s`. */
const isAlike = (read: string, name: string): boolean => name !== read && name.toUpperCase() === read.toUpperCase()

/** A byte order mark is kept, which is no JSON. */
function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return null
  }
}
