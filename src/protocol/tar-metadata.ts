// Checks the metadata of a hostile tar before its decoder reads it, which needs time in the square of a record that
// lies about its length. For a decoder that is strict: it ends at what is no header, as this check then does.

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

function createInspection(): (chunk: Uint8Array) => void {
  let part = new Uint8Array(BLOCK_BYTES)
  let filled = 0
  let skipped = 0
  let isOver = false
  /** The type of the metadata that is collected. */
  let metadata: string | null = null
  /** What the metadata of the next entry says of its size. */
  let sizes: number[] = []

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
    }
    sizes = []
    filled = 0
  }
  function readMetadata(): void {
    const records = metadata === 'x' || metadata === 'g' ? listRecords(part) : []
    const found = records.filter(record => record.startsWith('size=')).map(record => Number(record.slice(5)))
    if (metadata === 'g' && (found.length > 0 || records.length > MAX_GLOBAL_RECORDS))
      throw new Error('The metadata of all entries cannot be read.')
    sizes.push(...found)
    skipped = padded(part.byteLength) - part.byteLength
    collect(BLOCK_BYTES, null)
  }
  return chunk => {
    for (let at = 0; at < chunk.byteLength && !isOver; ) {
      const taken = Math.min(skipped || part.byteLength - filled, chunk.byteLength - at)
      if (skipped > 0) skipped -= taken
      else {
        part.set(chunk.subarray(at, at + taken), filled)
        filled += taken
        if (filled === part.byteLength) metadata === null ? readHeader() : readMetadata()
      }
      at += taken
    }
  }
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
