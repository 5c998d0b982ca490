// Ids and JSON, as the tables and the wire have them.
import { createHash, randomBytes } from 'node:crypto'

export type JsonObject = { [member: string]: unknown }

const toUuid = (hex: string) =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`

/** A UUID of version 7: ids of later runs are greater. */
export function uuid7(): string {
  const bytes = randomBytes(16)
  bytes.writeUIntBE(Date.now(), 0, 6)
  bytes[6] = 0x70 | (bytes[6]! & 0x0f)
  bytes[8] = 0x80 | (bytes[8]! & 0x3f)
  return toUuid(bytes.toString('hex'))
}

/** The namespace in which the reference names the assistant of a graph. */
const GRAPH_NAMESPACE = Buffer.from('6ba7b8219dad11d180b400c04fd430c8', 'hex')

/** The id of the assistant that every graph has, as the reference computes it. */
export function assistantIdOf(graphId: string): string {
  const bytes = createHash('sha1').update(GRAPH_NAMESPACE).update(graphId).digest().subarray(0, 16)
  bytes[6] = 0x50 | (bytes[6]! & 0x0f)
  bytes[8] = 0x80 | (bytes[8]! & 0x3f)
  return toUuid(bytes.toString('hex'))
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
export const isUuid = (text: string) => UUID.test(text)

/** An escape of JSON: NUL, a pair of surrogates, a surrogate alone, or another. */
const ESCAPE = /\\(?:u0000|ud[89ab][\da-f]{2}\\ud[c-f][\da-f]{2}|ud[89a-f][\da-f]{2}|.)/gi
const isStorable = (text: string) => text.length !== 6 || !/^\\u(?:0000|d[89a-f])/i.test(text)

/** Postgres stores neither NUL nor half a character in `jsonb`: each becomes the replacement character. */
export function toStorable(json: string): string {
  if (!json.includes('\\u')) return json
  return json.replace(ESCAPE, found => (isStorable(found) ? found : '\\ufffd'))
}

/** JSON for a `jsonb` parameter; the driver would write an array as an array of Postgres. */
export const toJsonb = (value: unknown): string | null =>
  value === undefined || value === null ? null : toStorable(JSON.stringify(value))
