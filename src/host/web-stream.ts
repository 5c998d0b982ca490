// Turns a stream of Node into a stream of the Web.
import type { Readable } from 'node:stream'

/**
 * Reads when its reader does. Deno's `Readable.toWeb` throws an error that ends the process when a part arrives after
 * the reader has canceled.
 */
export function toWebStream(source: Readable): ReadableStream<Uint8Array<ArrayBuffer>> {
  // An error before the first read is found by that read. Without a listener it would end the process.
  source.on('error', () => {})
  const parts = source[Symbol.asyncIterator]() as AsyncIterator<Buffer<ArrayBuffer>>
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await parts.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      cancel() {
        source.destroy()
      },
    },
    { highWaterMark: 0 },
  )
}
