// Reads a hostile tar while it streams, in memory that is bounded and time that is linear in its size. It is strict: a
// fault ends it, so the control plane lists no archive that agents unpack in another way.

/** The bounds of an archive that an agent unpacks. The control plane plans no other. */
export const ARCHIVE_BOUNDS = { entries: 100_000, depth: 64, pathLength: 3000 }

/** Longer than any path, and than the attributes that tools write. */
const MAX_METADATA_BYTES = 1024 ** 2
const BLOCK_BYTES = 512
const FIELDS = {
  name: [0, 100],
  mode: [100, 108],
  size: [124, 136],
  checksum: [148, 156],
  type: [156, 157],
  target: [157, 257],
  magic: [257, 263],
  prefix: [345, 500],
} as const
const METADATA = /[xgLK]/
/** Links, devices, folders and queues: their size counts for nothing. */
const BODYLESS = /[1-6]/
const TYPES: Record<string, TarEntry['type']> = {
  '\0': 'file',
  '0': 'file',
  '1': 'hard link',
  '2': 'symbolic link',
  '5': 'folder',
  '7': 'file',
}
const MAX_LENGTH_DIGITS = 7
const BLANK = 32
const NEWLINE = 10

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })

export type TarEntry = {
  name: string
  type: 'file' | 'folder' | 'symbolic link' | 'hard link' | 'other'
  /** The bytes of the body that follows. */
  size: number
  mode: number
  /** The path that a link leads to. */
  target: string
}
/** A piece of a body belongs to the entry before it. */
type TarPart = { entry: TarEntry } | { body: Uint8Array }
export type TarReader = {
  /** The parts that this chunk completes. Throws at the first fault. */
  read: (chunk: Uint8Array) => Generator<TarPart, void, undefined>
  /** Throws if the archive is cut. */
  end: () => void
}

/** Attributes of the next entry, from the entries of metadata before it. */
type Attributes = { name?: string; target?: string; size?: number }

export function createTarReader(): TarReader {
  let part = new Uint8Array(BLOCK_BYTES)
  let filled = 0
  /** The type of the metadata that is collected. */
  let metadata: string | null = null
  let attributes: Attributes = {}
  let bodyLeft = 0
  let paddingLeft = 0
  /** An archive ends with two, and nothing but zeros follows. */
  let zeroBlocks = 0

  const collect = (bytes: number, type: string | null) => {
    part = new Uint8Array(bytes)
    metadata = type
  }
  function readHeader(): TarEntry | null {
    if (part.every(byte => byte === 0)) {
      zeroBlocks++
      return null
    }
    if (zeroBlocks > 0) throw new Error('Something follows its end.')
    if (!isTarHeader(part)) throw new Error('The checksum of a header is wrong.')
    const flag = String.fromCharCode(part[FIELDS.type[0]]!)
    const size = readNumber(part, FIELDS.size)
    if (METADATA.test(flag)) {
      if (size > MAX_METADATA_BYTES) throw new Error('The metadata of an entry is too large.')
      if (size > 0) collect(size, flag)
      return null
    }
    if (!BODYLESS.test(flag)) {
      if ((attributes.size ?? size) !== size) throw new Error('An entry has two sizes.')
      bodyLeft = size
      paddingLeft = paddingOf(size)
    }
    const name = attributes.name ?? nameOf(part)
    const type = TYPES[flag] ?? 'other'
    const entry: TarEntry = {
      name,
      type: type === 'file' && name.endsWith('/') ? 'folder' : type,
      size: bodyLeft,
      mode: readNumber(part, FIELDS.mode),
      target: attributes.target ?? readText(part, FIELDS.target),
    }
    attributes = {}
    return entry
  }
  function readMetadata(): null {
    if (metadata === 'L') attributes.name = textOf(part)
    else if (metadata === 'K') attributes.target = textOf(part)
    else readRecords(part, metadata === 'g' ? refuseAttribute : setAttribute)
    paddingLeft = paddingOf(part.byteLength)
    collect(BLOCK_BYTES, null)
    return null
  }
  function setAttribute(key: string, value: string): void {
    if (key === 'path') attributes.name = value
    else if (key === 'linkpath') attributes.target = value
    else if (key === 'size') {
      const size = /^\d+$/.test(value) ? Number(value) : Number.NaN
      if ((attributes.size ?? size) !== size) throw new Error('An entry has two sizes.')
      attributes.size = size
    } else if (key.startsWith('GNU.sparse.')) throw new Error('It contains a sparse file.')
  }

  return {
    *read(chunk) {
      for (let at = 0; at < chunk.byteLength; ) {
        const left = chunk.byteLength - at
        if (bodyLeft > 0) {
          const taken = Math.min(bodyLeft, left)
          bodyLeft -= taken
          yield { body: chunk.subarray(at, at + taken) }
          at += taken
        } else if (paddingLeft > 0) {
          const taken = Math.min(paddingLeft, left)
          paddingLeft -= taken
          at += taken
        } else {
          const taken = Math.min(part.byteLength - filled, left)
          part.set(chunk.subarray(at, at + taken), filled)
          filled += taken
          at += taken
          if (filled < part.byteLength) continue
          filled = 0
          const entry = metadata === null ? readHeader() : readMetadata()
          if (entry) yield { entry }
        }
      }
    },
    end() {
      if (zeroBlocks < 2 || part.subarray(0, filled).some(byte => byte !== 0)) throw new Error('It is cut off.')
    },
  }
}

/** The checksum of a header is the sum of its bytes, with its own field counted as blanks. */
export function isTarHeader(block: Uint8Array): boolean {
  const [start, end] = FIELDS.checksum
  const field = String.fromCharCode(...block.subarray(start, end))
  const sum = block.reduce((total, byte, at) => total + (at >= start && at < end ? BLANK : byte), 0)
  return /^ *[0-7]+[ \0]*$/.test(field) && Number.parseInt(field, 8) === sum
}

type Field = readonly [start: number, end: number]

/** Up to the first zero. */
function textOf(bytes: Uint8Array): string {
  const end = bytes.indexOf(0)
  return utf8.decode(end < 0 ? bytes : bytes.subarray(0, end))
}

const readText = (header: Uint8Array, [start, end]: Field) => textOf(header.subarray(start, end))

function nameOf(header: Uint8Array): string {
  const name = readText(header, FIELDS.name)
  const prefix = readText(header, FIELDS.magic) === 'ustar' ? readText(header, FIELDS.prefix) : ''
  return prefix === '' ? name : `${prefix}/${name}`
}

const paddingOf = (size: number) => Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES - size

/** Octal digits, or a binary number behind a first bit. */
function readNumber(header: Uint8Array, [start, end]: Field): number {
  const field = header.subarray(start, end)
  const isBinary = (field[0]! & 0x80) !== 0
  const digits = String.fromCharCode(...field)
    .split('\0', 1)[0]!
    .replaceAll(' ', '')
  const number = isBinary
    ? field.reduce((total, byte, i) => total * 256 + (i === 0 ? byte & 0x7f : byte), 0)
    : Number.parseInt(digits || '0', 8)
  if (!Number.isSafeInteger(number) || (!isBinary && !/^[0-7]*$/.test(digits)))
    throw new Error('A number in a header cannot be read.')
  return number
}

/** Each begins with its own length in bytes, with these digits and the newline at its end. */
function readRecords(bytes: Uint8Array, onRecord: (key: string, value: string) => void): void {
  for (let at = 0; at < bytes.byteLength; ) {
    const digits = bytes.subarray(at, at + MAX_LENGTH_DIGITS + 1).indexOf(BLANK)
    const text = utf8.decode(bytes.subarray(at, at + Math.max(0, digits)))
    const end = at + Number(text)
    const isRecord =
      /^[1-9]\d*$/.test(text) && at + digits + 1 < end && end <= bytes.byteLength && bytes[end - 1] === NEWLINE
    if (!isRecord) throw new Error('The metadata of an entry is no list of records.')
    const record = utf8.decode(bytes.subarray(at + digits + 1, end - 1))
    const keyLength = record.indexOf('=')
    if (keyLength < 1) throw new Error('The metadata of an entry is no list of records.')
    onRecord(record.slice(0, keyLength), record.slice(keyLength + 1))
    at = end
  }
}

/** Tools name the commit of an archive for all of its entries, and nothing that decides on one. */
function refuseAttribute(key: string): void {
  if (/^(?:path|linkpath|size|GNU\.sparse\..*)$/.test(key))
    throw new Error('The metadata of all entries cannot be read.')
}
