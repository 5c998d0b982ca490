// Reads a hostile tar, in time linear in its size: to list it, or to check its metadata before the decoder of an agent
// reads it, which needs time in the square of a record that lies about its length. That decoder is strict: it ends at
// what is no header, as this does.

/** The bounds of an archive that an agent unpacks. The control plane plans no other. */
export const ARCHIVE_BOUNDS = { entries: 100_000, depth: 64, pathLength: 3000 }

/** Longer than any path, and than the attributes that tools write. */
const MAX_METADATA_BYTES = 1024 ** 2
/** They are copied to each entry. */
const MAX_GLOBAL_RECORDS = 32
const BLOCK_BYTES = 512
const SIZE_FIELD = { at: 124, end: 136 }
const TYPE_AT = 156
/** Links, devices, folders and queues. */
const BODYLESS = /[1-6]/
const METADATA = /[xgLK]/
const MAX_LENGTH_DIGITS = 7
const BLANK = 32
const NEWLINE = 10

const utf8 = new TextDecoder()

/** Passes the chunks on, and throws at the first fault. */
export async function* checkTarMetadata(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const inspect = createInspection()
  for await (const chunk of chunks) {
    inspect(chunk)
    yield chunk
  }
}

export type TarEntry = { name: string; type: 'file' | 'folder' | 'other'; size: number }
type Visitor = { entry: (entry: TarEntry) => void; body: (chunk: Uint8Array) => void }

/** Gets the chunks of a tar, and tells its entries with their bodies. Throws at the first fault. */
export function createInspection(visitor?: Visitor): (chunk: Uint8Array) => void {
  let part = new Uint8Array(BLOCK_BYTES)
  let filled = 0
  let skipped = 0
  let isOver = false
  /** The type of the metadata that is collected. */
  let metadata: string | null = null
  /** The sizes that the metadata of the next entry gives. */
  let sizes: number[] = []
  let name: string | undefined
  let bodyLeft = 0

  const collect = (bytes: number, type: string | null) => {
    part = new Uint8Array(bytes)
    filled = 0
    metadata = type
  }
  function readHeader(): void {
    if (part.every(byte => byte === 0)) {
      isOver = true
      return
    }
    const type = String.fromCharCode(part[TYPE_AT]!)
    const size = readSize(part.subarray(SIZE_FIELD.at, SIZE_FIELD.end))
    if (METADATA.test(type)) {
      if (size > MAX_METADATA_BYTES) throw new Error('The metadata of an entry is too large.')
      if (size > 0) collect(size, type)
      else filled = 0
      return
    }
    if (!BODYLESS.test(type)) {
      if (sizes.some(one => one !== size)) throw new Error('An entry has two sizes.')
      skipped = padded(size)
      bodyLeft = size
    }
    if (visitor) visitor.entry({ name: name ?? nameOf(part), type: typeOf(type), size: bodyLeft })
    name = undefined
    sizes = []
    filled = 0
  }
  function readMetadata(): void {
    const records = metadata === 'x' || metadata === 'g' ? listRecords(part) : []
    const found = records.filter(record => record.startsWith('size=')).map(record => Number(record.slice(5)))
    if (metadata === 'g' && (found.length > 0 || records.length > MAX_GLOBAL_RECORDS))
      throw new Error('The metadata of all entries cannot be read.')
    sizes.push(...found)
    const path = records.findLast(record => record.startsWith('path='))
    if (metadata === 'x' && path !== undefined) name = path.slice(5)
    if (metadata === 'L') name = textOf(part)
    skipped = padded(part.byteLength) - part.byteLength
    collect(BLOCK_BYTES, null)
  }
  return chunk => {
    for (let at = 0; at < chunk.byteLength && !isOver; ) {
      const taken = Math.min(skipped || part.byteLength - filled, chunk.byteLength - at)
      if (skipped > 0) {
        const ofBody = Math.min(taken, bodyLeft)
        if (ofBody > 0) visitor?.body(chunk.subarray(at, at + ofBody))
        bodyLeft -= ofBody
        skipped -= taken
      } else {
        part.set(chunk.subarray(at, at + taken), filled)
        filled += taken
        if (filled === part.byteLength) metadata === null ? readHeader() : readMetadata()
      }
      at += taken
    }
  }
}

const typeOf = (type: string): TarEntry['type'] => (type === '5' ? 'folder' : BODYLESS.test(type) ? 'other' : 'file')

/** Up to the first zero. */
function textOf(field: Uint8Array): string {
  const end = field.indexOf(0)
  return utf8.decode(end < 0 ? field : field.subarray(0, end))
}

function nameOf(header: Uint8Array): string {
  const name = textOf(header.subarray(0, 100))
  const prefix = textOf(header.subarray(257, 263)) === 'ustar' ? textOf(header.subarray(345, 500)) : ''
  return prefix === '' ? name : `${prefix}/${name}`
}

const padded = (size: number) => Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES

/** Octal digits, or a binary number behind a first bit. */
function readSize(field: Uint8Array): number {
  const isBinary = (field[0]! & 0x80) !== 0
  const digits = String.fromCharCode(...field)
    .split('\0', 1)[0]!
    .replaceAll(' ', '')
  const size = isBinary
    ? field.reduce((total, byte, i) => total * 256 + (i === 0 ? byte & 0x7f : byte), 0)
    : Number.parseInt(digits || '0', 8)
  if (!Number.isSafeInteger(size) || (!isBinary && !/^[0-7]*$/.test(digits)))
    throw new Error('An entry has no size that can be read.')
  return size
}

/** Each begins with its own length in bytes, with these digits and the newline at its end. */
function listRecords(bytes: Uint8Array): string[] {
  const records: string[] = []
  for (let at = 0; at < bytes.byteLength; ) {
    const digits = bytes.subarray(at, at + MAX_LENGTH_DIGITS + 1).indexOf(BLANK)
    const text = utf8.decode(bytes.subarray(at, at + Math.max(0, digits)))
    const end = at + Number(text)
    const isRecord =
      /^[1-9]\d*$/.test(text) && at + digits + 1 < end && end <= bytes.byteLength && bytes[end - 1] === NEWLINE
    if (!isRecord) throw new Error('The metadata of an entry is no list of records.')
    records.push(utf8.decode(bytes.subarray(at + digits + 1, end - 1)))
    at = end
  }
  return records
}
