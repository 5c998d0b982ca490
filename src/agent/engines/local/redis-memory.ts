// Asks a Redis for the memory of its data.
import type { Duplex } from 'node:stream'

const TIMEOUT_MS = 2_000
const MAX_ANSWER = 64 * 1024

/** Undefined if it does not tell: the others are measured all the same. */
export async function readRedisMemory(connect: () => Promise<Duplex>, password: string): Promise<number | undefined> {
  const stream = await connect().catch(() => undefined)
  if (!stream) return undefined
  stream.on('error', () => {})
  const timer = setTimeout(() => stream.destroy(), TIMEOUT_MS)
  try {
    stream.write(`AUTH ${password}\r\nINFO memory\r\n`)
    let text = ''
    for await (const chunk of stream) {
      text += chunk
      const bytes = /^used_memory:(\d{1,15})\r$/m.exec(text)?.[1]
      if (bytes !== undefined) return Number(bytes)
      if (text.length > MAX_ANSWER) break
    }
  } catch {
    // It has ended, or does not answer in time.
  } finally {
    clearTimeout(timer)
    stream.destroy()
  }
  return undefined
}
