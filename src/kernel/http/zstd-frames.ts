// Follows the frames of a zstd body (RFC 8878, section 3.1) without decompressing them, to find where they end: the
// decoders of Deno and Bun return what they have of a cut body, without an error. Deno's accepts obsolete formats.

const FRAME = 0xfd2fb528
const SKIPPABLE_FRAME = 0x184d2a50
const SIZES_OF_DICTIONARY_ID = [0, 1, 2, 4]
const SIZES_OF_CONTENT_SIZE = [0, 2, 4, 8]
const RLE_BLOCK = 1

export function createFrameReader() {
  let isWhole = false
  let isBlockEnd = false

  /** Yields how many bytes it wants, and gets them as a number, little-endian, where these are four at most. */
  function* readFrames(): Generator<number, void, number> {
    for (;;) {
      const magic = yield 4
      isWhole = false
      if (magic === FRAME) yield* readFrame()
      else if (magic >>> 4 === SKIPPABLE_FRAME >>> 4) yield yield 4
      // No frame starts like this.
      else return
      isWhole = true
    }
  }

  function* readFrame(): Generator<number, void, number> {
    const descriptor = yield 1
    const isSingleSegment = (descriptor & 0x20) !== 0
    const contentSize = SIZES_OF_CONTENT_SIZE[descriptor >> 6]! || Number(isSingleSegment)
    yield Number(!isSingleSegment) + SIZES_OF_DICTIONARY_ID[descriptor & 3]! + contentSize
    for (let isLast = false; !isLast; ) {
      const block = yield 3
      isLast = (block & 1) === 1
      yield ((block >> 1) & 3) === RLE_BLOCK ? 1 : block >> 3
      isBlockEnd = true
    }
    yield (descriptor & 4) === 4 ? 4 : 0
  }

  const steps = readFrames()
  let wanted = steps.next().value as number | undefined
  let received = 0
  let value = 0
  return {
    /** Returns where blocks and frames end in these bytes. */
    push(bytes: Uint8Array): number[] {
      const ends: number[] = []
      for (let at = 0; wanted !== undefined && at < bytes.length; ) {
        const count = Math.min(wanted - received, bytes.length - at)
        for (let i = 0; wanted <= 4 && i < count; i++) value += bytes[at + i]! * 2 ** (8 * (received + i))
        at += count
        received += count
        while (received === wanted) {
          wanted = steps.next(value).value as number | undefined
          received = 0
          value = 0
        }
        if (isBlockEnd || (isWhole && received === 0)) ends.push(at)
        isBlockEnd = false
      }
      return ends
    },
    /** Bytes came that begin no frame. */
    isBroken: () => wanted === undefined,
    /** There was a frame, the last one is complete, and nothing follows it. */
    isWhole: () => isWhole && received === 0,
  }
}
