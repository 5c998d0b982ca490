// What a build tells, as lines: the classic builder's as they are, and BuildKit's unpacked (protobuf, moby.buildkit.v1.StatusResponse).
import { Lines, LONGEST_LINE } from './frames.ts'

export type BuildMessage = { id?: string; stream?: string; aux?: { ID?: string; Digest?: string } | string }

const TRACE = 'moby.buildkit.trace'
const VERTEX = { in: 1, digest: 1, name: 3, started: 5 }
const LOG = { in: 3, vertex: 1, message: 4 }

/** What has no end yet comes with `end`. */
export function buildLines() {
  const plain = new Lines(LONGEST_LINE)
  const logs = new Map<string, Lines>()
  const named = new Set<string>()
  const ofTrace = (field: number, bytes: Buffer): string[] => {
    const parts = new Map(field === VERTEX.in || field === LOG.in ? fieldsOf(bytes) : [])
    const text = (part: number) => parts.get(part)?.toString() ?? ''
    if (field === VERTEX.in) {
      const [digest, name] = [text(VERTEX.digest), text(VERTEX.name)]
      if (!parts.has(VERTEX.started) || named.has(digest) || !isStep(name)) return []
      named.add(digest)
      return [name]
    }
    const lines = logs.get(text(LOG.vertex)) ?? new Lines(LONGEST_LINE)
    logs.set(text(LOG.vertex), lines)
    return lines.push(parts.get(LOG.message) ?? Buffer.alloc(0))
  }
  return {
    push: ({ id, stream, aux }: BuildMessage): string[] =>
      id === TRACE && typeof aux === 'string'
        ? fieldsOf(Buffer.from(aux, 'base64')).flatMap(([field, bytes]) => ofTrace(field, bytes))
        : plain.push(Buffer.from(stream ?? '')),
    end: (): string[] => [plain, ...logs.values()].flatMap(lines => lines.end()),
  }
}

/** Its other work is nobody's: loading, exporting, naming. */
const isStep = (name: string) => name.startsWith('[') && !name.startsWith('[internal]')

/** Those that have a length; numbers are passed over. */
function fieldsOf(bytes: Buffer): [number, Buffer][] {
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
