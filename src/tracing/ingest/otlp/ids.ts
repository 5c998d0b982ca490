// Ids and times of runs, from those of spans. Clients compute the same ids.

/** 32 hexadecimal digits as a UUID. */
const toUuid = (hex: string): string => hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')

export const uuidOfTrace = (traceId: string): string => toUuid(traceId)
export const uuidOfSpan = (spanId: string): string => toUuid(spanId.padStart(32, '0'))

/** ISO 8601 with microseconds. */
export function toIsoMicroseconds(nanoseconds: bigint): string {
  const microseconds = nanoseconds / 1000n
  const iso = new Date(Number(microseconds / 1000n)).toISOString()
  return iso.replace('Z', `${String(microseconds % 1000n).padStart(3, '0')}Z`)
}

/** One segment of a `dotted_order`: the time without punctuation, then the id. */
export const toSegment = (isoMicroseconds: string, id: string): string => isoMicroseconds.replace(/[-:.]/g, '') + id

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
export const isUuid = (text: string): boolean => UUID.test(text)
