// Work that goes on after the response: Workers keep the request alive for it, Node keeps a list until it is done.
import type { Context } from 'hono'

const pendingWork = new Set<Promise<unknown>>()

export function waitUntil(c: Context, work: Promise<unknown>): void {
  try {
    c.executionCtx.waitUntil(work)
  } catch {
    // Hono throws where there is no execution context.
    const pending = work.catch(() => {}).finally(() => pendingWork.delete(pending))
    pendingWork.add(pending)
  }
}

/** Also waits for the work that pending work starts. */
export async function finishPendingWork(): Promise<void> {
  while (pendingWork.size > 0) await Promise.all(pendingWork)
}
