// Parses build progress into log lines: plain text of the classic builder, and protobuf of BuildKit (StatusResponse).
import { LineSplitter, MAX_LINE_LENGTH } from '../system/lines.ts'

export type BuildMessage = { id?: string; stream?: string; aux?: { ID?: string; Digest?: string } | string }

const BUILDKIT_TRACE = 'moby.buildkit.trace'
const VERTEX_FIELDS = { in: 1, digest: 1, name: 3, started: 5 }
const LOG_FIELDS = { in: 3, vertex: 1, message: 4 }

/** `end` returns the unfinished lines. */
export function createBuildLogParser() {
  const plain = new LineSplitter(MAX_LINE_LENGTH)
  const logs = new Map<string, LineSplitter>()
  const named = new Set<string>()
  const ofTrace = (field: number, bytes: Buffer): string[] => {
    const parts = new Map(field === VERTEX_FIELDS.in || field === LOG_FIELDS.in ? protobufFields(bytes) : [])
    const text = (part: number) => parts.get(part)?.toString() ?? ''
    if (field === VERTEX_FIELDS.in) {
      const [digest, name] = [text(VERTEX_FIELDS.digest), text(VERTEX_FIELDS.name)]
      if (!parts.has(VERTEX_FIELDS.started) || named.has(digest) || !isStep(name)) return []
      named.add(digest)
      return [name]
    }
    const lines = logs.get(text(LOG_FIELDS.vertex)) ?? new LineSplitter(MAX_LINE_LENGTH)
    logs.set(text(LOG_FIELDS.vertex), lines)
    return lines.push(parts.get(LOG_FIELDS.message) ?? Buffer.alloc(0))
  }
  return {
    push: ({ id, stream, aux }: BuildMessage): string[] =>
      id === BUILDKIT_TRACE && typeof aux === 'string'
        ? protobufFields(Buffer.from(aux, 'base64')).flatMap(([field, bytes]) => ofTrace(field, bytes))
        : plain.push(Buffer.from(stream ?? '')),
    end: (): string[] => [plain, ...logs.values()].flatMap(lines => lines.end()),
  }
}

/** Not internal work such as loading and exporting. */
const isStep = (name: string) => name.startsWith('[') && !name.startsWith('[internal]')

/** The length-delimited fields. Others are skipped. */
function protobufFields(bytes: Buffer): [number, Buffer][] {
  const fields: [number, Buffer][] = []
  let at = 0
  const varint = () => {
    for (let value = 0, factor = 1; ; factor *= 128) {
      const byte = bytes[at++] ?? 0
      value += (byte & 127) * factor
      if (byte < 128) return value
    }
  }
  while (at < bytes.length) {
    const key = varint()
    const kind = key & 7
    if (kind === 0) varint()
    else if (kind === 2) {
      const length = varint()
      fields.push([key >> 3, bytes.subarray(at, at + length)])
      at += length
    } else at += kind === 1 ? 8 : 4
  }
  return fields
}
