// Archives to upload.
import { packTar } from 'modern-tar'

export type Bytes = Uint8Array<ArrayBuffer>

/** Makes an archive with one file. */
export function makeTar(text: string): Bytes {
  const header = Buffer.alloc(512)
  header.write('hello.txt', 0)
  header.write('0000644\0', 100)
  header.write(`${text.length.toString(8).padStart(11, '0')} `, 124)
  header.write('        ', 148)
  header.write('0ustar\x0000', 156)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  const content = Buffer.alloc(Math.ceil(text.length / 512) * 512)
  content.write(text)
  return Uint8Array.from(Buffer.concat([header, content, Buffer.alloc(1024)]))
}

export async function gzip(bytes: Bytes): Promise<Bytes> {
  const compressed = new Response(bytes).body!.pipeThrough<Uint8Array>(new CompressionStream('gzip') as never)
  return new Uint8Array(await new Response(compressed as ReadableStream<Bytes>).arrayBuffer())
}

/** An archive of these files, with `./` before their names as `tar czf app.tgz .` writes them. */
export async function packFiles(files: Record<string, string>): Promise<Bytes> {
  const entries = Object.entries(files).map(([name, body]) => ({
    header: { name: `./${name}`, size: Buffer.byteLength(body), type: 'file' as const },
    body,
  }))
  return gzip(Uint8Array.from(await packTar(entries)))
}

export const makeArchive = () => gzip(makeTar('hello'))

export const makeRandomBytes = (bytes: number): Bytes => {
  const all = new Uint8Array(bytes)
  for (let at = 0; at < bytes; at += 65_536) crypto.getRandomValues(all.subarray(at, at + 65_536))
  return all
}

export const streamChunks = (...chunks: Bytes[]) =>
  new ReadableStream({
    pull(out) {
      const chunk = chunks.shift()
      if (chunk) out.enqueue(chunk)
      else out.close()
    },
  })
