// Work that goes on after the answer: the platform keeps the request alive for it, or else this process remembers it until it is done.
import type { Context } from 'hono'

const going = new Set<Promise<unknown>>()

export function afterwards(c: Context, work: Promise<unknown>): void {
  try {
    c.executionCtx.waitUntil(work)
  } catch {
    // Where there is no such context, Hono throws.
    const done = work.catch(() => {}).finally(() => going.delete(done))
    going.add(done)
  }
}

/** Until all of it is done, what it begins besides included. */
export async function settled(): Promise<void> {
  while (going.size > 0) await Promise.all(going)
}
