// What a piece of work costs in CPU time, whoever else uses the machine.
import { expect } from 'vitest'
import type * as z from 'zod'
import { Failure } from '../../src/kernel/errors.ts'
import { validate } from '../../src/kernel/input.ts'

const MOST_MS = 50
const EACH_BYTES = 64 * 1024
const REPEATS = 5
/** The longest that another request may have to wait, however large the body. */
const LONGEST_MS = 250

/** In workerd no clock moves while it computes: there the cost is that of Node. */
const canMeasure = globalThis.navigator?.userAgent !== 'Cloudflare-Workers'

const cpuMs = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

export const budgetOf = (bytes: number): number => Math.min(LONGEST_MS, MOST_MS * Math.max(1, bytes / EACH_BYTES))

/**
 * Milliseconds that the work takes in this process; of several runs the best, so that only the work itself is
 * counted.
 */
export async function costOf(work: () => unknown, enough = 0): Promise<number> {
  let best = Number.POSITIVE_INFINITY
  for (let i = 0; i < REPEATS && best > enough; i++) {
    const before = cpuMs()
    await work()
    best = Math.min(best, cpuMs() - before)
  }
  return best
}

/** Fails where handling so many bytes holds a processor for longer than they may. */
export async function cheap(what: string, bytes: number, work: () => unknown): Promise<void> {
  if (!canMeasure) return void (await work())
  const most = budgetOf(bytes)
  const cost = await costOf(work, most)
  expect(cost, `${what}: ${Math.round(cost)} ms of CPU for ${Math.ceil(bytes / 1024)} KiB`).toBeLessThanOrEqual(most)
}

const BARE = { param: () => ({}), query: () => ({}) } as unknown as Parameters<typeof validate>[0]

/** Validates a body as a request does. It never waits, so nothing else runs meanwhile and is counted. */
export function validated(body: z.ZodType, text: string): void {
  try {
    validate(BARE, { body }, text, [])
  } catch (error) {
    expect(error).toBeInstanceOf(Failure)
  }
}
