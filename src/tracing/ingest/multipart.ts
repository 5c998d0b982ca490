// Reads multipart/form-data over bytes, in linear time and without a copy of a body. A part keeps its headers, which
// `FormData` would drop. Input that RFC 2046 and RFC 7578 do not allow is refused, so that nothing is read in two ways.
import { invalidRequest } from '../../kernel/http/input.ts'

export type Part = {
  name: string
  /** Headers by their names in lower case. */
  headers: ReadonlyMap<string, string>
  /** The media type in lower case, without parameters. Empty if the part names none. */
  mediaType: string
  /** Parameters of the media type, by their names in lower case. */
  parameters: ReadonlyMap<string, string>
  /** A view of the request's bytes. */
  bytes: Uint8Array<ArrayBuffer>
}

const MAX_HEADER_BYTES = 8 * 1024
/** Thousands of headers of a part, or of parameters of a header, would take a hundred times their bytes. */
const MAX_HEADERS = 20
const MAX_PARAMETERS = 20
const [LF, CR, HYPHEN] = [0x0a, 0x0d, 0x2d]
const CRLF = Buffer.from([CR, LF])
const BOUNDARY = /^[\w'()+,./:=? -]{0,69}[\w'()+,./:=?-]$/
const HEADER = /^([!#$%&'*+.^_`|~\w-]+):([^\p{Cc}]*)$/u
const PARAMETER = /;[ \t]*([!#$%&'*+.^_`|~\w-]+)=(?:"((?:[^"\\]|\\"|\\)*)"|([^\s;"]*))[ \t]*/y

/** Throws for the first fault: after it, the start of a part is unknown. */
export function readMultipart(bytes: Uint8Array<ArrayBuffer>, contentType: string, maxParts: number): Part[] {
  const delimiter = Buffer.from(`--${readBoundary(contentType)}`)
  const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const parts: Part[] = []
  if (!startsWith(whole, delimiter, 0)) throw malformed('must begin with two hyphens and the boundary')
  let at = delimiter.byteLength
  while (!isEnd(whole, at)) {
    const number = parts.length + 1
    if (number > maxParts) throw malformed(`has more than ${maxParts} parts; send fewer in one request`)
    if (!startsWith(whole, CRLF, at)) throw malformed(`has no line break after the boundary before part ${number}`)
    const { headers, end: start } = readHeaders(whole, at + CRLF.byteLength, number)
    const end = findDelimiter(whole, delimiter, start)
    if (end === -1) throw malformed(`ends within part ${number}, before the last boundary`)
    parts.push({ ...describePart(headers, number), bytes: bytes.subarray(start, end) })
    at = end + CRLF.byteLength + delimiter.byteLength
  }
  return parts
}

/** Null for bytes that are not valid UTF-8. */
export function decodeText(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return null
  }
}

function readBoundary(contentType: string): string {
  const boundary = readParameters(contentType)?.get('boundary')
  if (boundary !== undefined && BOUNDARY.test(boundary)) return boundary
  const loc = ['header', 'Content-Type']
  throw invalidRequest([{ type: 'boundary_invalid', loc, msg: 'needs a `boundary` of 1 to 70 characters' }])
}

const malformed = (msg: string) => invalidRequest([{ type: 'multipart_invalid', loc: ['body'], msg }])

function startsWith(bytes: Buffer, start: Buffer, at: number): boolean {
  for (let i = 0; i < start.byteLength; i++) if (bytes[at + i] !== start[i]) return false
  return true
}

/** Two hyphens after a boundary end the body. A line break may follow, and nothing else. */
function isEnd(bytes: Buffer, at: number): boolean {
  if (bytes.toString('latin1', at, at + 2) !== '--') return false
  const rest = bytes.byteLength - at - 2
  if (rest === 0 || (rest === CRLF.byteLength && startsWith(bytes, CRLF, at + 2))) return true
  throw malformed('goes on after the last boundary')
}

/**
 * Returns the place of the line break before the next delimiter, or -1. Looks at every fourth byte, which is enough for
 * the four of `\r\n--`. The rest is linear, too: a boundary has no line break. `Buffer.indexOf` takes a second for 64
 * MiB of carriage returns.
 */
function findDelimiter(bytes: Buffer, delimiter: Buffer, from: number): number {
  let at = from + 3
  while (at < bytes.byteLength) {
    const byte = bytes[at]
    if (byte === HYPHEN) {
      const start = at - 3
      const isCandidate = bytes[start] === CR && bytes[start + 1] === LF && bytes[start + 2] === HYPHEN
      if (isCandidate && startsWith(bytes, delimiter, start + CRLF.byteLength)) return start
      at += 1
    } else at += byte === LF ? 2 : byte === CR ? 3 : 4
  }
  return -1
}

function readHeaders(bytes: Buffer, start: number, number: number): { headers: Map<string, string>; end: number } {
  const length = bytes.subarray(start, start + MAX_HEADER_BYTES).indexOf('\r\n\r\n', 0, 'latin1')
  if (length === -1) throw malformed(`has no end of the headers of part ${number} within ${MAX_HEADER_BYTES} bytes`)
  const text = decodeText(bytes.subarray(start, start + length))
  const headers = new Map<string, string>()
  for (const line of text?.split('\r\n') ?? ['']) {
    const [, name, value] = HEADER.exec(line) ?? []
    if (name === undefined) throw malformed(`has a header of part ${number} that is not valid`)
    if (headers.has(name.toLowerCase())) throw malformed(`has a header of part ${number} twice`)
    if (headers.size === MAX_HEADERS) throw malformed(`has more than ${MAX_HEADERS} headers of part ${number}`)
    headers.set(name.toLowerCase(), value!.trim())
  }
  return { headers, end: start + length + 2 * CRLF.byteLength }
}

function describePart(headers: Map<string, string>, number: number): Omit<Part, 'bytes'> {
  const disposition = headers.get('content-disposition') ?? ''
  const name = /^form-data[ \t]*;/i.test(disposition) ? readParameters(disposition)?.get('name') : undefined
  if (name === undefined) throw malformed(`has no \`Content-Disposition: form-data; name="…"\` in part ${number}`)
  const type = headers.get('content-type') ?? ''
  const parameters = readParameters(type)
  if (!parameters) throw malformed(`has a \`Content-Type\` of part ${number} that is not valid`)
  return { name, headers, mediaType: type.split(';')[0]!.trim().toLowerCase(), parameters }
}

/** Reads a header like `type; name=value; other="value"`. Null for others, repeated parameters, and too many. */
function readParameters(header: string): Map<string, string> | null {
  const parameters = new Map<string, string>()
  const start = header.indexOf(';')
  PARAMETER.lastIndex = start === -1 ? header.length : start
  while (PARAMETER.lastIndex < header.length) {
    const [, name, quoted, plain] = PARAMETER.exec(header) ?? []
    if (name === undefined || parameters.has(name.toLowerCase()) || parameters.size === MAX_PARAMETERS) return null
    // Browsers write a quote in a name as %22, other clients as \".
    parameters.set(name.toLowerCase(), quoted?.replace(/%22|\\"/g, '"') ?? plain!)
  }
  return parameters
}
