// What the runtime gives with a request.
import type { Context } from 'hono'
import type { Execution } from '../platform.ts'

/** Hono throws where the host gave none. */
export function readExecution(c: Pick<Context, 'executionCtx'>): Execution | undefined {
  try {
    return c.executionCtx
  } catch {
    return undefined
  }
}
