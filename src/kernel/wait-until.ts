// Work that goes on after the answer: the platform keeps the request alive for it, or else this process remembers it until it is done.
import type { Context } from 'hono'

const pendingWork = new Set<Promise<unknown>>()

export function waitUntil(c: Context, work: Promise<unknown>): void {
  try {
    c.executionCtx.waitUntil(work)
  } catch {
    // Where there is no such context, Hono throws.
    const done = work.catch(() => {}).finally(() => pendingWork.delete(done))
    pendingWork.add(done)
  }
}

/** Until all of it is done, what it begins besides included. */
export async function finishPendingWork(): Promise<void> {
  while (pendingWork.size > 0) await Promise.all(pendingWork)
}
