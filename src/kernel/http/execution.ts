// Reads the runtime's execution context of a request.
import type { Context } from 'hono'
import type { Execution, Platform } from '../../platform.ts'

/** Hono throws where the host gave none. */
export function readExecution(c: Pick<Context, 'executionCtx'>): Execution | undefined {
  try {
    return c.executionCtx
  } catch {
    return undefined
  }
}

/** Keeps work alive that goes on after the response. */
export const createWaitUntil =
  ({ waitUntil }: Pick<Platform, 'waitUntil'>, c: Pick<Context, 'executionCtx'>) =>
  (work: Promise<unknown>): void =>
    waitUntil(work, readExecution(c))
